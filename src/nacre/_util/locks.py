"""Work that several processes share: each piece is done by one of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Busy(Exception):
    """Another process is at work on the piece."""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file for this process. The lock goes with the process, also when it is killed.

    Raises:
        Busy: If another process holds it.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(str(path)) from None
        yield
