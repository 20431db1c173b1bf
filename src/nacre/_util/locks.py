"""Locks that several processes share, so that each piece of work is done by one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedElsewhere(Exception):
    """Another process holds the lock."""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock file for this process. The lock goes with the process, also when it is killed.

    Raises:
        LockedElsewhere: If another process holds it.
    """
    from filelock import FileLock, Timeout  # here, so that `import nacre` stays light

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise LockedElsewhere(str(path)) from None
    try:
        yield
    finally:
        lock.release()
