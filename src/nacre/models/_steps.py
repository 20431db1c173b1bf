"""What comes into a model of the zoo: checked, without padding, and with its time stamps made sense of.

Everything that depends on padding or on elapsed time is decided here, once, so that a model can be written as if
padding did not exist: valid steps come first, and what a model gives for the steps after them is thrown away.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from nacre._util.checks import ascending
from nacre.layer.inputs import blank_padding


@dataclass(frozen=True)
class Steps:
    """The steps of one call."""

    x: Tensor  # [B, T, d_input], zeros at padding
    time: Tensor  # [B, T] float64, in units of time_scale; padding repeats the last valid stamp
    padding: Tensor | None  # [B, T] bool, False ... False True ... True in each row
    order: Tensor | None  # [B, T] which step was moved here; None where none had to move

    def elapsed(self, first: float) -> Tensor:
        """Time since the step before: [B, T, 1], with `first` at the first step and 0 at padding.

        Differences are taken in float64 and only then rounded to the precision of x.
        """
        start = torch.full_like(self.time[:, :1], first)
        return torch.cat([start, self.time.diff(dim=1)], 1).to(self.x.dtype).unsqueeze(-1)

    def valid(self) -> Tensor:
        """Which steps are no padding: [B, T] bool."""
        return torch.ones_like(self.time, dtype=torch.bool) if self.padding is None else ~self.padding

    def allowed_keys(self) -> Tensor | None:
        """Which keys an attention may use, [B, 1, 1, T] bool; None for all.

        Rows that are nothing but padding may use it: what they give is thrown away, but must not be NaN.
        """
        if self.padding is None:
            return None
        return (~self.padding | self.padding.all(1, keepdim=True))[:, None, None]

    def restore(self, y: Tensor) -> Tensor:
        """Outputs [B, T, d] of these steps, each at its place in the input, and zeros at padding."""
        if self.padding is not None:
            y = y.masked_fill(self.padding.unsqueeze(-1), 0)
        if self.order is None:
            return y
        return torch.empty_like(y).scatter(1, self.order.unsqueeze(-1).expand_as(y), y)


def prepare(x: Tensor, time: Tensor | None, key_padding_mask: Tensor | None, time_scale: float) -> Steps:
    """Check stamps and mask of a model's forward, and move padding to the end of each row.

    Args:
        x: [B, T, d_input], checked.
        time: [B, T] stamps that never go back at valid steps; None for 0, 1, 2, ... over the valid steps.
        key_padding_mask: [B, T] bool, True = padding.
        time_scale: What stamps are divided by.
    """
    x, stamps = blank_padding(x, time, key_padding_mask)
    if stamps is not None:
        ascending("time", stamps, key_padding_mask)
    padding, order = key_padding_mask, _order(key_padding_mask)
    if padding is not None and order is not None:
        padding = padding.gather(1, order)
        x = x.gather(1, order.unsqueeze(-1).expand_as(x))
        stamps = None if stamps is None else stamps.gather(1, order)
    if stamps is None:
        stamps = torch.arange(x.shape[1], device=x.device, dtype=torch.float64).expand(x.shape[:2])
    if padding is not None:
        last = (~padding).sum(1, keepdim=True).sub(1).clamp(min=0)  # [B, 1]
        stamps = torch.where(padding, stamps.gather(1, last), stamps)
    return Steps(x, stamps / time_scale, padding, order)


def _order(padding: Tensor | None) -> Tensor | None:
    """Places of the valid steps and then of padding, both in order; None where that changes nothing."""
    if padding is None:
        return None
    # Under torch.compile nothing may depend on values, so steps are always moved, perhaps to where they are.
    if not torch.compiler.is_compiling() and not (padding[:, :-1] & ~padding[:, 1:]).any():
        return None
    return padding.to(torch.uint8).argsort(dim=1, stable=True)
