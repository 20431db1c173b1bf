"""`SequenceModel`: what every baseline of the zoo has in common."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import Tensor, nn

from nacre._util.checks import real, sequence, whole
from nacre.models._steps import Steps, prepare


class SequenceModel(nn.Module, ABC):
    """A model from [B, T, d_input] to [B, T, d_model] that is called like every other.

    A subclass keeps every argument of its constructor under that argument's name, so that it can be saved, and
    computes in `run`. It never sees padding before a valid step, and need not care what it gives after the last.

    Args:
        d_input: Width of the input.
        d_model: Width of the output.
        time_scale: What time stamps are divided by.

    Attributes:
        aux_loss: What the last forward pass in training adds to the loss, a scalar, or None.
    """

    aux_loss: Tensor | None

    def __init__(self, d_input: int, d_model: int, time_scale: float = 1.0) -> None:
        super().__init__()
        self.d_input = whole("d_input", d_input, 1)
        self.d_model = whole("d_model", d_model, 2)
        self.time_scale = real("time_scale", time_scale, 0.0, float("inf"), open_low=True)
        self.aux_loss = None

    @abstractmethod
    def run(self, steps: Steps) -> Tensor:
        """Outputs [B, T, d_model] of clean steps; those of padding may be anything finite."""

    def forward(self, x: Tensor, time: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:
        """Read sequences.

        Computes in the precision of the weights, under autocast too: solvers and filters need it.

        Args:
            x: [B, T, d_input].
            time: [B, T] time stamps that never go back; None means 0, 1, 2, ... Models that do not use time
                check it all the same.
            key_padding_mask: [B, T] bool, True = padding, anywhere in a row.

        Returns:
            [B, T, d_model], zeros at padded steps.
        """
        self.aux_loss = None
        weight = next(self.parameters())
        sequence("x", x, self.d_input, weight)
        with torch.autocast(x.device.type, enabled=False):
            steps = prepare(x.to(weight.dtype), time, key_padding_mask, self.time_scale)
            return steps.restore(self.run(steps))

    def to_config(self) -> dict[str, Any]:
        """Plain data from which `from_config` makes the same module, without its weights."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_config`."""
        return cls(**data)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which cannot hold a loss that belongs to a graph."""
        return {**self.__dict__, "aux_loss": None}


def split_heads(d_model: int, num_heads: int) -> int:
    """Width of a head, after checking that heads divide the model's width."""
    if d_model % whole("num_heads", num_heads, 1):
        raise ValueError(f"d_model must be a multiple of num_heads, got d_model={d_model}, num_heads={num_heads}")
    return d_model // num_heads


def heads_of(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, d_model] as [B, H, T, D]."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, H, T, D] as [B, T, d_model]."""
    return x.transpose(1, 2).flatten(2)


def unbind_time(tensors: Iterable[Tensor]) -> list[tuple[Tensor, ...]]:
    """[B, T, ...] tensors as tuples over time, each step contiguous."""
    return [tensor.transpose(0, 1).contiguous().unbind(0) for tensor in tensors]
