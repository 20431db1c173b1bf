"""`capture`: a module as an ONNX graph whose sizes stay open."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import onnx
import onnx_ir
import onnxscript.optimizer
import torch
from onnx_ir.passes import common
from torch import Tensor, nn
from torch.export import Dim

from nacre.deploy.operators import table
from nacre.native.library import switched_off


@dataclass(frozen=True)
class Port:
    """An input of a graph: its name, an example, and the names of its open sizes by dimension."""

    name: str
    example: Tensor
    open: dict[int, str]


def capture(module: nn.Module, inputs: Sequence[Port], outputs: Sequence[str]) -> onnx.ModelProto:
    """What `module(*inputs)` computes, as ONNX.

    Raises:
        ValueError: Where torch or its exporter cannot follow the module, with what they said.
    """
    sizes = {name: Dim(name) for port in inputs for name in port.open.values()}
    shapes = (tuple({axis: sizes[name] for axis, name in port.open.items()} for port in inputs),)
    with torch.no_grad(), switched_off(), _quietly():
        try:
            program = torch.onnx.export(
                _Positional(module),
                tuple(port.example for port in inputs),
                dynamo=True,
                input_names=[port.name for port in inputs],
                output_names=list(outputs),
                dynamic_shapes=shapes,
                custom_translation_table=table(),
                optimize=False,  # its rules take numbers as small as 1e-8 for 0, which linear-attention adds
                verbose=False,
            )
            assert program is not None
            _simplify(program.model)
        except Exception as error:
            raise ValueError(_reason(error)) from error
    model = program.model_proto
    _require_open(model, inputs)
    del model.graph.metadata_props[:]
    for value in [*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]  # names of files of the machine that exported, a third of a small file
        value.doc_string = ""
    return model


def _require_open(model: onnx.ModelProto, inputs: Sequence[Port]) -> None:
    """Refuse a graph in which torch took a size for a constant."""
    found = {port.name: port.type.tensor_type.shape.dim for port in model.graph.input}
    for port in inputs:
        for axis, name in port.open.items():
            if not found[port.name][axis].dim_param:
                size = found[port.name][axis].dim_value
                raise ValueError(f"its code depends on the {name}, and would only run where that is {size}")


def _simplify(model: onnx_ir.Model) -> None:
    """Fewer nodes that compute the same, in place: onnxruntime does the rest when it loads a file."""
    onnxscript.optimizer.inline(model)
    onnxscript.optimizer.fold_constants(model)
    for tidy in (
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedFunctionsPass(),
        common.RemoveUnusedOpsetsPass(),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    ):
        tidy(model)


class _Positional(nn.Module):
    """A module called with a tuple of tensors, whatever its arguments are named."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.module(*inputs)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what the exporter says of itself: operators of packages that are not there, and renamed axes."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir", "onnxscript")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """The innermost error in one line: the exporter wraps it in advice to its own authors."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
