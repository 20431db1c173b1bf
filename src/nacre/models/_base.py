"""`SequenceModel`: what every baseline of the zoo has in common, and `Steps`, the input it prepares for them."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from nacre._util.checks import real, whole
from nacre._util.tracing import values_are_hidden
from nacre.layer.dynamics import LONGEST
from nacre.layer.foreign import RENAMED, explain
from nacre.layer.inputs import ascending, blank_padding, questions, sequence

_FAR, _FARTHEST = 1e30, 1e300  # units of time: what float32 and float64 hold with room to spare


@dataclass(frozen=True)
class Steps:
    """The steps of one call, as a model gets them.

    Valid steps come first, so a model can be written as if padding did not exist: its outputs for the steps after
    them are discarded.
    """

    x: Tensor  # [B, T, d_input], zeros at padding
    time: Tensor  # [B, T] float64, in units of time_scale; padding repeats the last valid stamp
    padding: Tensor | None  # [B, T] bool, False ... False True ... True in each row
    order: Tensor | None  # [B, T] which step was moved here; None where none had to move
    query_only: Tensor | None = None  # [B, T] bool, steps that ask and are never attended to; None where none does
    before: Tensor | None = None  # [B] time of a step before the first one here, NaN where there is none

    def elapsed(self, first: float) -> Tensor:
        """Time since the step before: [B, T, 1], with `first` where there is none and 0 at padding.

        Differences are taken in float64 and only then rounded to the precision of x. They are at most `LONGEST`, a
        time after which any state has settled: infinity would make gradients NaN.
        """
        start = torch.full_like(self.time[:, :1], first)
        if self.before is not None:
            before = self.before.unsqueeze(1)
            start = torch.where(before.isnan(), start, (self.time[:, :1] - before).clamp(0, LONGEST))
        passed = self.time.diff(dim=1).clamp(max=LONGEST)
        return torch.cat([start, passed], 1).to(self.x.dtype).unsqueeze(-1)

    def stamps(self) -> Tensor:
        """Time within +-1e30, for models in whose gradients it is a factor: [B, T] float64."""
        return self.time.clamp(-_FAR, _FAR)

    def valid(self) -> Tensor:
        """Which steps are no padding: [B, T] bool."""
        return torch.ones_like(self.time, dtype=torch.bool) if self.padding is None else ~self.padding

    def allowed_keys(self, causal: bool = False) -> Tensor | None:
        """Which keys an attention may use, [B, 1, 1, T] bool; None for all. If causal, [B, 1, T, T].

        Queries without any key use all, so that nothing is NaN; their outputs are discarded.
        """
        hidden = self.hidden()
        if hidden is None and not causal:
            return None
        allowed = torch.ones_like(self.time, dtype=torch.bool) if hidden is None else ~hidden
        allowed = allowed[:, None, None]
        if causal:
            allowed = allowed & allowed.new_ones(allowed.shape[-1:] * 2).tril()
        return allowed | ~allowed.any(-1, keepdim=True)

    def hidden(self) -> Tensor | None:
        """Which steps are no keys, [B, T] bool: padding, and steps that only ask. None where all are keys."""
        if self.padding is None or self.query_only is None:
            return self.query_only if self.padding is None else self.padding
        return self.padding | self.query_only

    def restore(self, y: Tensor) -> Tensor:
        """Outputs [B, T, d] of these steps, each at its place in the input, and zeros at padding."""
        if self.padding is not None:
            y = y.masked_fill(self.padding.unsqueeze(-1), 0)
        if self.order is None:
            return y
        return torch.empty_like(y).scatter(1, self.order.unsqueeze(-1).expand_as(y), y)


def prepare(
    x: Tensor,
    time: Tensor | None,
    key_padding_mask: Tensor | None,
    time_scale: float,
    query_only: Tensor | None = None,
) -> Steps:
    """Check stamps and masks of a model's forward, and move padding to the end of each row.

    Without `time` the valid steps of a row are at 0, 1, 2, ...
    """
    x, stamps = blank_padding(x, time, key_padding_mask)
    if query_only is not None:
        query_only = questions(query_only, (x.shape[0], x.shape[1]), stamps)
        if key_padding_mask is not None:
            query_only = query_only & ~key_padding_mask
    if stamps is not None:
        ascending("time", stamps, key_padding_mask)
    padding, order = key_padding_mask, _order(key_padding_mask)
    if padding is not None and order is not None:
        padding = padding.gather(1, order)
        query_only = None if query_only is None else query_only.gather(1, order)
        x = take(x, order)
        stamps = None if stamps is None else stamps.gather(1, order)
    if stamps is None:
        stamps = torch.arange(x.shape[1], device=x.device, dtype=torch.float64).expand(x.shape[:2])
    if padding is not None:
        last = (~padding).sum(1, keepdim=True).sub(1).clamp(min=0)  # [B, 1]
        stamps = torch.where(padding, stamps.gather(1, last), stamps)
    return Steps(x, in_units(stamps, time_scale), padding, order, query_only)


def in_units(stamps: Tensor, time_scale: float) -> Tensor:
    """Stamps in units of time_scale, finite whatever the unit is, so that differences are."""
    return (stamps / time_scale).clamp(-_FARTHEST, _FARTHEST)


def take(x: Tensor, place: Tensor) -> Tensor:
    """Steps [B, n, d] at places [B, n] of x [B, T, d]."""
    return x.gather(1, place.unsqueeze(-1).expand(-1, -1, x.shape[2]))


def _order(padding: Tensor | None) -> Tensor | None:
    """Places of the valid steps and then of padding, both in order; None where that changes nothing."""
    if padding is None:
        return None
    # Under torch.compile and vmap nothing may depend on values, so steps are moved, perhaps to where they are.
    if not values_are_hidden() and not (padding[:, :-1] & ~padding[:, 1:]).any():
        return None
    return padding.to(torch.uint8).argsort(dim=1, stable=True)


class SequenceModel(nn.Module, ABC):
    """A model from [B, T, d_input] to [B, T, d_model] that is called like every other.

    A subclass keeps every argument of its constructor under that argument's name, so that it can be saved, and
    computes in `run`. It never sees padding before a valid step, and need not care what it gives after the last.

    Args:
        d_input: Width of the input.
        d_model: Width of the output; where a model has heads, `num_heads` divides it.
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

    def ask(self, steps: Steps) -> Tensor:
        """The same where some steps only ask (`steps.query_only`).

        An attention masks them as keys in `run`; where there is no key, the answer is zeros. A `RecurrentModel`
        overrides this.
        """
        hidden = steps.hidden()
        assert hidden is not None
        keys = (~hidden).cumsum(1) if getattr(self, "causal", False) else (~hidden).sum(1, keepdim=True)
        return self.run(steps).masked_fill((keys == 0).unsqueeze(-1), 0)

    @explain(RENAMED)
    def forward(
        self,
        x: Tensor,
        time: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
    ) -> Tensor:
        """Outputs [B, T, d_model], zeros at padded steps.

        Computes in the precision of the weights, under autocast too: solvers and filters need it.

        Args:
            x: [B, T, d_input].
            time: [B, T] time stamps that never go back, or [T] for all rows; None means 0, 1, 2, ... Models that
                do not use time check it all the same.
            key_padding_mask: [B, T] bool, True = padding, anywhere in a row.
            query_only: [B, T] bool, with `time`: steps that ask but are never attended to and never change a
                state, such as moments whose value is wanted.
        """
        self.aux_loss = None
        weight = next(self.parameters())
        sequence("x", x, self.d_input, weight)
        with torch.autocast(x.device.type, enabled=False):
            steps = prepare(x.to(weight.dtype), time, key_padding_mask, self.time_scale, query_only)
            return steps.restore(self.run(steps) if query_only is None else self.ask(steps))

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


class AttentionModel(SequenceModel):
    """A model whose heads divide its width among themselves."""

    def __init__(self, d_input: int, d_model: int, num_heads: int, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.num_heads = whole("num_heads", num_heads, 1)
        if d_model % num_heads:
            raise ValueError(f"d_model must be a multiple of num_heads, got {d_model=}, {num_heads=}")


def heads_of(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, d_model] as [B, H, T, D]."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, H, T, D] as [B, T, d_model]."""
    return x.transpose(1, 2).flatten(2)


def unbind_time(tensors: Iterable[Tensor]) -> list[tuple[Tensor, ...]]:
    """[B, T, ...] tensors as tuples over time, each step contiguous."""
    return [tensor.transpose(0, 1).contiguous().unbind(0) for tensor in tensors]
