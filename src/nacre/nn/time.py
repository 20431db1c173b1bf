"""`stamps`: time for the attention inside modules that know nothing of time."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_CURRENT: ContextVar[Tensor | None] = ContextVar("nacre_stamps", default=None)


@contextmanager
def stamps(time: Tensor) -> Iterator[None]:
    """Give time stamps to all `NACMultiheadAttention` and `NACEncoderLayer` that are called inside.

    For modules such as `torch.nn.TransformerEncoder`, which hand on no further arguments. It acts on self
    attention; a call that is given `time` uses that.

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
    token = _CURRENT.set(time)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_stamps() -> Tensor | None:
    """What the innermost `stamps` gave; None outside of all."""
    return _CURRENT.get()
