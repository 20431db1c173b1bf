"""Lock files that several processes share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LockedElsewhere(Exception):
    """Another process holds the lock."""


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock file, or raise `LockedElsewhere`. The lock ends with the process, also when it is killed."""
    from filelock import FileLock, Timeout  # here, so that `import nacre` stays light

    try:
        lock = FileLock(path).acquire(blocking=False)
    except Timeout:
        raise LockedElsewhere(str(path)) from None
    with lock:
        yield
