"""Clock neurons: what a circuit knows of the time between a key and a query.

Equation (1) of the paper lets the gates depend on u and on t. Here u = [q; k; c], where c holds cosine and sine of
the signed time from key to query at a few scales: hands of clocks that turn at different speeds.
"""

import math

import torch
from torch import Tensor

from nacre.layer.inputs import Inputs

APART = 4.0
"""Ratio of neighbouring time scales."""
_FAR = 1e30  # units of time


def clock_scales(count: int) -> list[float]:
    """The scales in units of time, shortest first: one unit is in the middle.

    Example:
        >>> clock_scales(4)
        [0.0625, 0.25, 1.0, 4.0]
    """
    return [APART ** (i - count // 2) for i in range(count)]


def clock_states(elapsed: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """States [..., 2 count] of clock neurons: cosines, then sines, of elapsed / scale.

    Args:
        elapsed: Units of time from key to query, negative for later keys, in float64.
        count: Number of scales.
        dtype: Of the result, if it is at least float32.

    Example:
        >>> clock_states(torch.tensor([0.0, 1.0], dtype=torch.float64), 1, torch.float32)
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])
    """
    return torch.cat(phases(elapsed, clock_periods(count), dtype), -1)


def clock_periods(count: int) -> list[float]:
    """Units of time in which the hand of each scale turns once."""
    return [2 * math.pi * scale for scale in clock_scales(count)]


def phases(stamp: Tensor, periods: list[float], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine of float64 stamps [...] at each of the F periods: [..., F], in at least float32."""
    lengths = torch.tensor(periods, dtype=torch.float64, device=stamp.device)
    turns = stamp.unsqueeze(-1).clamp(-_FAR, _FAR) / lengths
    # Whole turns are subtracted in float64, exactly; single precision is enough for the rest. So far away that
    # float64 has no digits left, all are whole.
    angle = (2 * math.pi * (turns - turns.floor())).to(torch.promote_types(dtype, torch.float32))
    return angle.cos(), angle.sin()


def clock_stamps(inputs: Inputs, scale: float) -> tuple[Tensor, Tensor]:
    """Moments of queries [B, T] and keys [B, S] that the clock reads, in float64 units of time.

    Without time stamps, the number of valid steps before each.
    """
    if inputs.stamps is not None:
        return since_first(inputs.stamps, inputs.key_padding, scale)
    query, key = (
        _rank(x, padding)
        for x, padding in ((inputs.query, inputs.query_padding), (inputs.key, inputs.key_padding))
    )
    return query, key


def since_first(stamps: tuple[Tensor, Tensor], padding: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Stamps of queries [B, T] and keys [B, S] in units of time since the first key of each sequence.

    What is farther away than anything counts as equally far: of infinities there is no difference.
    """
    query, key = stamps
    first = key[:, :1]
    if padding is not None:
        first = key.gather(1, (~padding).int().argmax(1, keepdim=True))
    query, key = (((x - first) / scale).clamp(-_FAR, _FAR) for x in (query, key))
    return query, key


def _rank(x: Tensor, padding: Tensor | None) -> Tensor:
    """[B, T] how many valid steps of x [B, T, ...] come before each."""
    valid = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if padding is None else ~padding
    return (valid.cumsum(1) - 1).double()
