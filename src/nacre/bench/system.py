"""What the worker asks of the operating system: peak memory, and when to be killed (Linux)."""

import contextlib
import ctypes
import gc
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROCESS = Path("/proc/self")
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl
_RESET_PEAK = "5"  # what clear_refs takes to set the high-water mark back to what is resident now


@dataclass(frozen=True)
class Peak:
    """Resident memory in bytes: the highest during an action, and that minus what was resident before."""

    peak_bytes: int
    added_bytes: int


def peak_of(action: Callable[[], object]) -> Peak | None:
    """Run an action and measure how much memory it took, or return None where the system does not tell.

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
    """If memory runs out, let the kernel kill this process before any other."""
    with contextlib.suppress(OSError):
        (_PROCESS / "oom_score_adj").write_text("1000")


def die_with_parent() -> None:
    """End this process when its parent ends, for whatever reason."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


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
    """Return freed memory to the system: what the heap keeps would hide as much of the action's own memory."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only glibc has this
        ctypes.CDLL(None).malloc_trim(0)
