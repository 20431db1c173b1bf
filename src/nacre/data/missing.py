"""`Missing`: what is done about values that were not observed, and what was last seen of them."""

from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor


class Missing(StrEnum):
    """What is done about values that were not observed, which are NaN in a data set."""

    ERROR = "error"
    """They are refused."""
    FLAGS = "flags"
    """Zeros after scaling; beside each value whether it was observed, and how long ago it was last seen."""
    LAST = "last"
    """The last value seen in the sequence, with the same flags."""
    EVENTS = "events"
    """Each observed value is a step of its own: its variable, the value and its stamp."""

    @property
    def has_flags(self) -> bool:
        """Whether rows stay as they are, and a network says which of their values were observed."""
        return self in (Missing.FLAGS, Missing.LAST)


class Filled(NamedTuple):
    """Rows without gaps, and what is known of them."""

    x: Tensor  # [B, T, F] values: observed, else last seen, else typical
    seen: Tensor  # [B, T, F] bool: observed now
    known: Tensor  # [B, T, F] bool: observed now or earlier in the sequence
    recency: Tensor  # [B, T, F]: 1 for values seen now, less the longer ago it was, 0 for those never seen so far


def fill(x: Tensor, time: Tensor, seen: Tensor, tells: Tensor, typical: Tensor, time_scale: float) -> Filled:
    """Fill gaps by what was seen before; no step sees a later one.

    Recency is s / (s + time since last seen), where s is `time_scale`. What stands in a gap has no effect.

    Args:
        x: [B, T, F] values.
        time: [B, T] stamps that never go back.
        seen: [B, T, F] bool, True where a value was observed.
        tells: [B, T] bool, True at steps whose values later ones may see.
        typical: [F] what stands where nothing was seen so far.
        time_scale: The time after which recency is one half.

    Example:
        >>> x = torch.tensor([[[5.0], [torch.nan], [torch.nan]]])
        >>> time, tells = torch.tensor([[0.0, 1.0, 3.0]]), torch.ones(1, 3).bool()
        >>> filled = fill(x, time, ~x.isnan(), tells, torch.zeros(1), time_scale=1.0)
        >>> filled.x.flatten().tolist(), filled.recency.flatten().tolist()
        ([5.0, 5.0, 5.0], [1.0, 0.5, 0.25])
    """
    x = x.masked_fill(~seen, 0.0)
    place = _latest(seen & tells.unsqueeze(-1))
    known, place = seen | (place >= 0), place.clamp(min=0)
    held = torch.where(known, x.gather(1, place), typical)
    at = time.unsqueeze(-1).expand(x.shape)
    since = torch.where(seen | ~known, 0.0, at - at.gather(1, place))
    recency = (time_scale / (time_scale + since)).to(x.dtype).masked_fill(~known, 0.0)
    return Filled(torch.where(seen, x, held), seen, known, recency)


def _latest(marked: Tensor) -> Tensor:
    """The last step up to each that is marked [B, T, F]; -1 where there is none."""
    if torch.onnx.is_in_onnx_export():  # which has no running maximum
        count = marked.cumsum(1)
        order = (~marked).to(torch.uint8).argsort(dim=1, stable=True)  # marked steps first
        return torch.where(count > 0, order.gather(1, (count - 1).clamp(min=0)), -1)
    step = torch.arange(marked.shape[1], device=marked.device).view(1, -1, 1)
    return torch.where(marked, step, -1).cummax(1).values


def last_seen(values: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """[n, F] what was last seen of each column from row `first` [n] to row `last` [n] of a table, or NaN.

    Args:
        values: [N, F] table, NaN where nothing was observed.
        first: [n] rows at which to stop looking back.
        last: [n] rows from which to look back.

    Example:
        >>> table = torch.tensor([[1.0], [2.0], [torch.nan]])
        >>> last_seen(table, torch.tensor([0, 2]), torch.tensor([2, 2])).flatten().tolist()
        [2.0, nan]
    """
    row = torch.arange(len(values)).unsqueeze(1)
    latest = torch.where(values.isnan(), -1, row).cummax(0).values[last]  # [n, F]
    found = values.gather(0, latest.clamp(min=0))
    return torch.where(latest >= first.unsqueeze(1), found, torch.nan)
