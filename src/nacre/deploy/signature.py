"""What a module takes and gives, and random numbers of that kind to compare its two forms with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nacre.data.missing import Missing
from nacre.layer.attention import NAC
from nacre.layer.encoder import NACEncoder
from nacre.models._base import SequenceModel
from nacre.tasks.network import TaskNetwork
from nacre.tasks.scaling import UNKNOWN
from nacre.tasks.stack import ModelStack


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a module."""

    step: tuple[int, ...]  # shape of one step of x
    dtype: torch.dtype
    questions: bool  # whether steps may only ask
    outputs: tuple[str, ...]  # names, first of all "y"
    each_step: bool  # whether every step has an answer, and not only the sequence
    time_scale: float

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of a window's inputs, in order."""
        return ("x", "time", "key_padding_mask", *(["query_only"] if self.questions else []))


def signature(module: nn.Module) -> Signature:
    """What a layer, a model of the zoo or a network takes and gives.

    Raises:
        ValueError: If it is none of these, or cannot be exported as it is.
    """
    weight = next(module.parameters(), None)
    if weight is None or not isinstance(module, NAC | NACEncoder | SequenceModel | ModelStack | TaskNetwork):
        raise ValueError(
            "module must be a NAC, a NACEncoder, a model of the zoo or a task network, got "
            f"{type(module).__name__}; export other modules with torch.onnx.export"
        )
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"module must be on the CPU and in single precision, got {weight.dtype} on {weight.device}; "
            "use module.cpu().float()"
        )
    if isinstance(module, TaskNetwork):
        return _of_network(module)
    if isinstance(module, NAC | NACEncoder):
        width, scale = module.config.width, module.config.time_scale
    elif isinstance(module, SequenceModel):
        width, scale = module.d_input, module.time_scale
    else:
        width, scale = module.embed.in_features, 1.0
    return Signature((width,), weight.dtype, False, ("y",), True, scale)


def _of_network(network: TaskNetwork) -> Signature:
    if any(stride > 1 for _, _, stride in network.config["conv"]):
        raise ValueError(
            "this network cannot be exported: its convolutions have a stride, and a graph cannot follow how many "
            "steps they leave; train it with stride 1 (conv in the recipe)"
        )
    if network.eye is not None and not network.frames:
        raise ValueError(
            "this network cannot be exported: its steps are columns of one image; train it with frames as steps"
        )
    kind, step = network.kind, (len(network.shift),)
    if network.eye is not None:
        step = (*network.config["image"]["size"], *step)
    elif network.missing is Missing.EVENTS:
        step = (2,)
    outputs = ("y",) if kind.has_numbers else ("y", "probability")
    questions = kind.each_step and not network.config["conv"]
    return Signature(step, network.shift.dtype, questions, outputs, kind.each_step, network.time_scale)


def draw(module: nn.Module, batch: int, length: int, seed: int) -> dict[str, Tensor]:
    """Inputs of a window: sequences of several lengths, of the size that the module's scaling expects."""
    expected = signature(module)
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, *expected.step, generator=random, dtype=torch.float64)
    if isinstance(module, TaskNetwork):
        x = _in_units(module, x, random)
    gaps = torch.rand(batch, length, generator=random, dtype=torch.float64)
    ends = torch.randint(1, length + 1, (batch, 1), generator=random)
    ends[0] = length
    found = {
        "x": x.to(expected.dtype),
        "time": gaps.cumsum(1) * expected.time_scale,
        "key_padding_mask": torch.arange(length) >= ends,
        "query_only": torch.rand(batch, length, generator=random) > 0.8,
    }
    return {name: found[name] for name in expected.inputs}


def _in_units(network: TaskNetwork, x: Tensor, random: torch.Generator) -> Tensor:
    """Standard normal numbers as features of a network's data, some of them missing where they may."""
    if network.missing is Missing.EVENTS:
        variable = torch.randint(len(network.shift), x.shape[:2], generator=random)
        value = x[..., 1] * _spread(network)[variable] + network.shift[variable]
        return torch.stack([variable.double(), value], -1)
    x = x * _spread(network) + network.shift
    if network.missing is Missing.ERROR:
        return x
    return x.masked_fill(torch.rand(x.shape, generator=random) > 0.8, torch.nan)


def _spread(network: TaskNetwork) -> Tensor:
    return torch.where(network.scale < UNKNOWN, network.scale, 1.0)
