"""The two forms of a module that are exported: a window of whole sequences, and a step with its state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nacre.data.dataset import Kind
from nacre.data.missing import Missing
from nacre.layer.attention import NAC
from nacre.layer.encoder import NACEncoder
from nacre.layer.streaming.state import StreamState
from nacre.models._recurrent import RecurrentModel
from nacre.models._recurrent_state import RecurrentState
from nacre.tasks.network import TaskNetwork
from nacre.tasks.stack import ModelStack

_CONSTANT = ("limit", "owner")  # fields of a stream's state that no step changes


class WindowForm(nn.Module):
    """A module called with all of its inputs by position, whose answers have their probabilities beside them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, x: Tensor, time: Tensor, key_padding_mask: Tensor, query_only: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Outputs of the module."""
        more = {} if query_only is None else {"query_only": query_only}
        return answers(self.module, self.module(x, time=time, key_padding_mask=key_padding_mask, **more))


def answers(module: nn.Module, y: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """A module's outputs, and the probabilities of classes or labels if it answers these."""
    if not isinstance(module, TaskNetwork) or module.kind.has_numbers:
        return y
    return y, y.softmax(-1) if module.kind.has_classes else y.sigmoid()


class StepForm(nn.Module):
    """A module's step, whose state is named tensors [B, ...].

    Args:
        module: A causal NAC layer or encoder, a recurrent model, or a network around such.
        max_len: Steps that NAC layers remember.

    Raises:
        ValueError: If it cannot go step by step.
    """

    def __init__(self, module: nn.Module, max_len: int) -> None:
        super().__init__()
        self.module, self.layers = module, _layers(module)
        self.max_len = max_len if any(isinstance(layer, NAC) for layer in self.layers) else None
        if isinstance(module, TaskNetwork):
            _refuse_whole_windows(module)

    def empty(self, rows: int) -> dict[str, Tensor]:
        """The state before the first step."""
        found = {}
        for number, layer in enumerate(self.layers):
            state = self._start(layer, rows)._asdict()
            found |= {f"layer{number}_{name}": x for name, x in state.items() if name not in _CONSTANT}
        if isinstance(self.module, TaskNetwork):
            found["origin"] = torch.zeros(rows, dtype=torch.float64)
            found["steps"] = torch.zeros(rows, dtype=torch.int64)
            found["total"] = self.module.shift.new_zeros(rows, self.module.config["d_model"])
        return {name: x for name, x in found.items() if x.numel()}  # a layer without match synapses offers nothing

    def forward(self, x: Tensor, time: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Outputs for the newest step x [B, ...] at time [B], and the state after it."""
        given = dict(zip(self.empty(1), state, strict=True))
        if not isinstance(self.module, TaskNetwork):
            y, after = self._through(self.module, x, time, given)
            return y, *(after[name] for name in given)
        return self._network(self.module, x, time, given)

    def _network(
        self, network: TaskNetwork, x: Tensor, time: Tensor, given: dict[str, Tensor]
    ) -> tuple[Tensor, ...]:
        origin = torch.where(given["steps"] > 0, given["origin"], time)
        # Two steps, of which the first only says when the stream began.
        tokens = network.tokens(torch.stack([x, x], 1), torch.stack([origin, time], 1))
        found, after = self._through(network.layer, tokens.x[:, 1], tokens.time[:, 1], given)
        after |= {"origin": origin, "steps": given["steps"] + 1, "total": given["total"] + found}
        base = tokens.base
        if network.kind.each_step:
            base = None if base is None else base[:, 1]
        elif not network._reads_last:
            found = after["total"] / after["steps"].unsqueeze(1)
        y = answers(network, network.answer(found, base))
        return *(y if isinstance(y, tuple) else (y,)), *(after[name] for name in given)

    def _through(
        self, module: nn.Module, x: Tensor, time: Tensor, given: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Output of a layer or stack of layers, and the state after it."""
        states = [self._state(number, given, x) for number in range(len(self.layers))]
        if isinstance(module, NACEncoder):
            x, states = module.step(x, tuple(states), time=time)  # pyright: ignore[reportArgumentType]
        elif isinstance(module, ModelStack):
            x = module.embed(x)
            for number, block in enumerate(module.blocks):
                x, states[number] = block.step(x, states[number], time)  # pyright: ignore[reportCallIssue]
            x = module.norm(x)
        else:
            x, states[0] = module.step(x, states[0], time=time)  # pyright: ignore[reportCallIssue]
        after = {f"layer{i}_{name}": part for i, s in enumerate(states) for name, part in s._asdict().items()}
        return x, after

    def _state(self, number: int, given: dict[str, Tensor], x: Tensor) -> StreamState | RecurrentState:
        layer = self.layers[number]
        empty = self._start(layer, 1)._asdict()
        # What is not given is constant, or has no numbers for any row.
        fields = {
            name: given.get(f"layer{number}_{name}", part if name in _CONSTANT else _of_rows(part, x))
            for name, part in empty.items()
        }
        if isinstance(layer, RecurrentModel):
            return RecurrentState(**fields)
        return StreamState(**fields)._replace(
            **{name: fields[name].clone() for name in StreamState._fields if name not in _CONSTANT}
        )

    def _start(self, layer: NAC | RecurrentModel, rows: int) -> StreamState | RecurrentState:
        if isinstance(layer, RecurrentModel):
            return layer.init_state(rows)
        assert self.max_len is not None
        return layer.init_state(rows, self.max_len)


def _of_rows(part: Tensor, x: Tensor) -> Tensor:
    return part.expand(x.shape[0], *part.shape[1:])


def _layers(module: nn.Module) -> list[NAC | RecurrentModel]:
    """The layers that a step goes through, in order; refuses those that cannot."""
    if isinstance(module, TaskNetwork):
        return _layers(module.layer)
    found: list[nn.Module] = [module]
    if isinstance(module, ModelStack):
        found = [block.attention for block in module.blocks]  # pyright: ignore[reportAssignmentType]
    elif isinstance(module, NACEncoder):
        found = [block.attention for block in module._blocks()]
    for layer in found:
        if isinstance(layer, NAC) and not layer.config.causal:
            raise ValueError(
                "this NAC layer is not causal: every new step would change the answers to earlier ones; export "
                "its window alone, or train it with causal=True (in a recipe, causal = true under [models.'nac*'])"
            )
        if not isinstance(layer, NAC | RecurrentModel):
            raise ValueError(
                f"{type(layer).__name__} has no step; export its window alone, or take a recurrent model, such as "
                "cfc-fc, or a causal NAC layer"
            )
    return found  # pyright: ignore[reportReturnType]


def _refuse_whole_windows(network: TaskNetwork) -> None:
    """Refuse networks whose inputs or answers need the whole window, or memory that no state has."""
    why = None
    if network.relative_to and network.kind is Kind.FORECASTING:
        why = "its features are relative to the last row, which changes with every step"
    elif network.window is not None:
        why = "it has a linear map of the whole window"
    elif network.config["conv"]:
        why = "it has convolutions along time"
    elif network.missing is not Missing.ERROR:
        why = "it fills missing values from earlier steps"
    elif network.eye is not None and not network.frames:
        why = "its steps are columns of one image"
    if why is not None:
        raise ValueError(f"this network cannot go step by step: {why}; export its window alone")
