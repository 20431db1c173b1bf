"""`stamps`: time for the attention inside modules that know nothing of time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

_local = threading.local()  # not a ContextVar, into which torch.compile cannot look


@contextmanager
def stamps(time: Tensor) -> Iterator[None]:
    """Give time stamps to all `NACMultiheadAttention` and `NACEncoderLayer` that are called inside.

    For modules such as `torch.nn.TransformerEncoder`, which hand on no further arguments. It acts on self
    attention, in the thread that calls it; a call that is given `time` uses that.

    Args:
        time: [B, T] stamps, or [T] for all rows, or [T, B] for modules with `batch_first=False`.

    Example:
        >>> layer = nacre.nn.NACEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> encoder = torch.nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        >>> with nacre.nn.stamps(torch.rand(3, 10).cumsum(1)):
        ...     y = encoder(torch.randn(3, 10, 8))
        >>> y.shape
        torch.Size([3, 10, 8])
    """
    if not isinstance(time, Tensor):
        raise TypeError(f"time must be a tensor of stamps [B, T] or [T], got {type(time).__name__}")
    before = current_stamps()
    _local.stamps = time
    try:
        yield
    finally:
        _local.stamps = before


def current_stamps() -> Tensor | None:
    """What the innermost `stamps` gave; None outside of all."""
    return getattr(_local, "stamps", None)
