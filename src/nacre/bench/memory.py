"""Peak resident memory of an action, from the kernel's own high-water mark (Linux)."""

import contextlib
import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"  # what clear_refs takes to set the high-water mark back to what is resident now


@dataclass(frozen=True)
class Peak:
    """Resident memory in bytes: the highest during an action, and how far that lies above what was before."""

    peak_bytes: int
    added_bytes: int


def peak_of(action: Callable[[], object]) -> Peak | None:
    """Run an action and say how much memory it took, or None where the system does not tell.

    Example:
        >>> peak = peak_of(lambda: bytearray(50_000_000))
        >>> peak is None or peak.added_bytes > 40_000_000
        True
    """
    gc.collect()
    _give_back()
    before = _status("VmRSS") if _reset() else None
    action()
    peak = _status("VmHWM")
    if before is None or peak is None:
        return None
    return Peak(peak, max(0, peak - before))


def die_first() -> None:
    """If memory runs out, let the kernel end this process before any other."""
    with contextlib.suppress(OSError):
        (_PROCESS / "oom_score_adj").write_text("1000")


def _reset() -> bool:
    try:
        (_PROCESS / "clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _status(field: str) -> int | None:
    """A size in bytes from the status file, whose lines read `VmRSS:   1234 kB`."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(sizes[0]) * 1024 if sizes else None


def _give_back() -> None:
    """Return freed memory to the system; what the heap keeps would hide as much of the action's own need."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only glibc has this
        ctypes.CDLL(None).malloc_trim(0)
