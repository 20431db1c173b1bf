"""What is kept and said about one connection: how fast it was answered, and what was refused."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable

import numpy as np

KEPT = 10_000  # latencies; a long drive would otherwise fill the memory


class LinkStats:
    """Counts of one connection.

    Example:
        >>> stats = LinkStats()
        >>> stats.driven(0.002)
        >>> stats.refused("json")
        >>> print(stats.summary())
        1 frame driven, median 2.0 ms, 95 % 2.0 ms; 1 message refused: json 1
    """

    def __init__(self) -> None:
        self.frames = 0
        self.reasons: Counter[str] = Counter()
        self._seconds: deque[float] = deque(maxlen=KEPT)

    def driven(self, seconds: float) -> None:
        """Count a frame that the driver steered on, and the time from its arrival to its answer."""
        self.frames += 1
        self._seconds.append(seconds)

    def refused(self, reason: str) -> None:
        """Count a message that was answered with the safe command."""
        self.reasons[reason] += 1

    def summary(self) -> str:
        """One line: frames, latency, and refused messages by reason."""
        return f"{self._speed()}; {self._refusals()}"

    def _speed(self) -> str:
        if not self.frames:
            return "no frame driven"
        median, late = 1000 * np.percentile(self._seconds, [50, 95])
        of = f" (the last {KEPT:,})" if self.frames > KEPT else ""
        return f"{_count(self.frames, 'frame')} driven, median {median:.1f} ms, 95 % {late:.1f} ms{of}"

    def _refusals(self) -> str:
        if not self.reasons:
            return "no message refused"
        listed = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
        return f"{_count(self.reasons.total(), 'message')} refused: {listed}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Complaints:
    """Warnings of one connection, at most one of a kind in a while, so that a flood of messages floods no log.

    Args:
        log: Where they go.
        every: Seconds between two of a kind.
        clock: Seconds that never go back.
    """

    def __init__(
        self, log: logging.Logger, every: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._every = every
        self._clock = clock
        self._said: dict[str, float] = {}  # kind -> when it was last said
        self._unsaid: Counter[str] = Counter()

    def say(self, kind: str, text: str) -> None:
        """Log a warning, or count it if one of its kind was logged a moment ago."""
        now = self._clock()
        if now - self._said.get(kind, -self._every) < self._every:
            self._unsaid[kind] += 1
            return
        more = f" (and {self._unsaid.pop(kind):,} more like it before)" if self._unsaid[kind] else ""
        self._said[kind] = now
        self._log.warning("%s%s", text, more)
