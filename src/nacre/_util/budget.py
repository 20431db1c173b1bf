"""A limit to what is made while somebody else's description is followed."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)
_BY_SHAPE = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}
_OPERATION = 100  # what any operation costs, in numbers: descriptions of a billion small layers end, too


@contextmanager
def at_most(numbers: int) -> Iterator[None]:
    """Within the block, tensors of so many numbers can be made in all, and nothing that `afford` says is more."""
    token = _LIMIT.set(numbers)
    try:
        with _Meter(numbers):
            yield
    finally:
        _LIMIT.reset(token)


def afford(what: str, numbers: int) -> None:
    """Called before so many numbers are made otherwise than by torch; without a limit, everything is allowed.

    Example:
        >>> afford("the table", 10**12)
        >>> with at_most(1000):
        ...     afford("the table", 10**12)
        Traceback (most recent call last):
        ValueError: the table would take 1,000,000,000,000 numbers, here at most 1,000 are allowed
    """
    limit = _LIMIT.get()
    if limit is not None and numbers > limit:
        raise ValueError(f"{what} would take {numbers:,} numbers, here at most {limit:,} are allowed")


class _Meter(TorchFunctionMode):
    """Counts the numbers of new tensors before they are made."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  whatever the function gives
        kwargs = kwargs or {}
        self.left -= _OPERATION
        if func in _BY_SHAPE:
            size = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
            self.left -= math.prod(size)
        if self.left < 0:
            raise ValueError("it would take far more numbers than there are")
        return func(*args, **kwargs)
