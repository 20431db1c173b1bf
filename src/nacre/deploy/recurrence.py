"""Windows of recurrent models: an ONNX Scan whose body is the exported step, which equals forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from nacre.deploy.capture import Port, capture
from nacre.models._recurrent import RecurrentModel
from nacre.models._recurrent_state import RecurrentState

_DOMAIN, _MARK = "nacre", "Recurrence"
_FLOATS = {torch.float32: TensorProto.FLOAT, torch.float64: TensorProto.DOUBLE}


class HeldStep(nn.Module):
    """A step of a recurrent model that padding skips, and that leaves the state as it was if it only asks."""

    def __init__(self, model: RecurrentModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        memory: Tensor,
        stamp: Tensor,
        length: Tensor,
        x: Tensor,
        time: Tensor,
        skipped: Tensor,
        asks: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The state [B, ...] after a step of inputs x [B, F], and the output [B, d_model]."""
        x, time = x.masked_fill(skipped.unsqueeze(1), 0), time.masked_fill(skipped, 0)
        y, after = self.model.step(x, RecurrentState(memory, stamp, length), time=time)
        held = skipped | asks
        return (
            torch.where(held.unsqueeze(1), memory, after.memory),
            torch.where(held, stamp, after.stamp),
            torch.where(held, length, after.length),
            y.masked_fill(skipped.unsqueeze(1), 0),
        )


@contextmanager
def marked(module: nn.Module) -> Iterator[list[RecurrentModel]]:
    """Let the recurrent models in a module leave marks in a graph, for `fill`, instead of what they compute."""
    found = [part for part in module.modules() if isinstance(part, RecurrentModel)]
    for number, model in enumerate(found):
        vars(model)["forward"] = _mark(model, number)
    try:
        yield found
    finally:
        for model in found:
            del vars(model)["forward"]


def _mark(model: RecurrentModel, number: int) -> Callable[..., Tensor]:
    def forward(
        x: Tensor,
        time: Tensor,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
    ) -> Tensor:
        nothing = torch.zeros_like(time, dtype=torch.bool)
        masks = [nothing if mask is None else mask for mask in (key_padding_mask, query_only)]
        return torch.onnx.ops.symbolic(
            f"{_DOMAIN}::{_MARK}",
            (x, time.double(), *masks),
            {"number": number},
            dtype=x.dtype,
            shape=(*x.shape[:2], model.d_model),
            version=1,
        )

    return forward


def fill(graph: onnx.ModelProto, models: list[RecurrentModel]) -> None:
    """Put a Scan in the place of each mark, in place."""
    nodes = []
    for node in graph.graph.node:
        if node.domain == _DOMAIN and node.op_type == _MARK:
            number = next(a.i for a in node.attribute if a.name == "number")
            nodes += _scan(node, models[number], f"recurrence{number}_")
        else:
            nodes.append(node)
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    kept = [entry for entry in graph.opset_import if entry.domain != _DOMAIN]
    del graph.opset_import[:]
    graph.opset_import.extend(kept)


def _scan(mark: onnx.NodeProto, model: RecurrentModel, prefix: str) -> list[onnx.NodeProto]:
    """Nodes that make empty states for the rows of x, and go through its steps."""
    start = model.init_state(1)
    body = onnx.compose.add_prefix(_body(model, start), prefix).graph
    rows, nodes = f"{prefix}rows", []
    nodes.append(helper.make_node("Shape", [mark.input[0]], [rows], start=0, end=1))
    for name, first in start._asdict().items():
        kind = TensorProto.INT64 if first.dtype == torch.int64 else _FLOATS[first.dtype]
        shape, tail = rows, f"{prefix}{name}_tail"
        if first.dim() > 1:
            shape = f"{prefix}{name}_shape"
            nodes.append(helper.make_node("Constant", [], [tail], value_ints=list(first.shape[1:])))
            nodes.append(helper.make_node("Concat", [rows, tail], [shape], axis=0))
        zero = helper.make_tensor("zero", kind, [1], [0])
        nodes.append(helper.make_node("ConstantOfShape", [shape], [f"{prefix}{name}_start"], value=zero))
    states = [f"{prefix}{name}" for name in start._fields]
    inputs, count = [*(f"{name}_start" for name in states), *mark.input], len(mark.input)
    nodes.append(
        helper.make_node(
            "Scan",
            inputs,
            [*(f"{name}_end" for name in states), mark.output[0]],
            body=body,
            num_scan_inputs=count,
            scan_input_axes=[1] * count,
            scan_output_axes=[1],
        )
    )
    return nodes


def _body(model: RecurrentModel, start: RecurrentState) -> onnx.ModelProto:
    rows, batch = {0: "batch"}, 3
    x = next(model.parameters()).new_zeros(batch, model.d_input)
    time, mask = x.new_zeros(batch, dtype=torch.float64), x.new_zeros(batch, dtype=torch.bool)
    state = model.init_state(batch)._asdict()
    inputs = {**state, "x": x, "time": time, "skipped": mask, "asks": mask.clone()}
    outputs = [*(f"{name}_after" for name in start._fields), "y"]
    return capture(HeldStep(model), [Port(name, value, rows) for name, value in inputs.items()], outputs)
