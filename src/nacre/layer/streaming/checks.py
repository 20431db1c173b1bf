"""Checks of one step of a stream, the same for the layer and for recurrent models."""

import torch
from torch import Tensor

from nacre.layer.inputs import require_tensor, same_dtype


def check_newest(x: Tensor, width: int, weight: Tensor, streams: int) -> None:
    """Refuse what is no step [B, width] of as many streams as a state has, in the precision of the weights."""
    same_dtype("x", require_tensor("x", x, last=width), weight)
    if x.dim() != 2:
        raise ValueError(
            f"x must be one step of each stream, [batch, {width}], got shape {tuple(x.shape)}; "
            "use forward for whole sequences"
        )
    if x.shape[0] != streams:
        raise ValueError(
            f"state is of {streams} streams but x has {x.shape[0]} rows; make one with init_state({x.shape[0]})"
        )


def check_stamps(time: Tensor | None, streams: int) -> None:
    """Refuse what is no real stamp for each stream."""
    if time is not None and (not isinstance(time, Tensor) or time.dtype == torch.bool or time.is_complex()):
        raise TypeError(f"time must be a tensor of real time stamps, got {getattr(time, 'dtype', type(time))}")
    if time is not None and time.shape != (streams,):
        raise ValueError(f"time must have shape ({streams},), one stamp for each stream, got {tuple(time.shape)}")


def check_order(time: Tensor | None, last: Tensor, begun: Tensor) -> None:
    """Refuse stamps that are not finite, are before the last ones, or are there at some steps only.

    From the last stamps [B], NaN where the last step had none, and whether a stream has had a step at all.
    """
    if time is not None and not bool(time.isfinite().all()):
        raise ValueError(f"time must be finite, got {time.tolist()}")
    mixed = begun & (last.isnan() if time is not None else ~last.isnan())
    if bool(mixed.any()):
        row, now, before = int(mixed.int().argmax()), *(("", "out") if time is not None else ("out", ""))
        raise ValueError(
            f"stream {row} goes on with{now} time after steps with{before} time; give it at every step or at none"
        )
    if time is not None and bool((backwards := begun & (time.double() < last)).any()):
        row = int(backwards.int().argmax())
        raise ValueError(
            f"time goes backwards in stream {row}: {time[row].item()} after {last[row].item()}; "
            "steps must come in order (reset the row to begin a new stream)"
        )
