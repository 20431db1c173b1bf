"""One connection of the Udacity server: reads messages, has the session answer, keeps the timeouts."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf

import numpy as np
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from nacre.drive.udacity.engineio import PING_INTERVAL, PING_TIMEOUT, Refused
from nacre.drive.udacity.session import SAFE, Reply, Session

log = logging.getLogger("nacre.drive")
KEPT = 10_000  # latencies; a long drive would otherwise fill the memory


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds."""

    telemetry: float = 5.0  # silence of the simulator that is logged, and answered with the safe command
    answer: float = 2.0  # for an answer; after it the car gets the safe command
    client: float = PING_INTERVAL + PING_TIMEOUT  # silence, pings included, that ends a connection


class LinkStats:
    """Latency and refused messages of one connection.

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
        driven, refused = "no frame driven", "no message refused"
        if self.frames:
            median, late = 1000 * np.percentile(self._seconds, [50, 95])
            of = f" (the last {KEPT:,})" if self.frames > KEPT else ""
            driven = f"{_count(self.frames, 'frame')} driven, median {median:.1f} ms, 95 % {late:.1f} ms{of}"
        if self.reasons:
            listed = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
            refused = f"{_count(self.reasons.total(), 'message')} refused: {listed}"
        return f"{driven}; {refused}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class RateLimitedLog:
    """Warnings, at most one of a kind every few seconds: a flood of messages does not flood the log."""

    def __init__(self, every: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._logged: dict[str, float] = {}  # kind -> when it was last logged
        self._suppressed: Counter[str] = Counter()

    def warn(self, kind: str, text: str) -> None:
        """Log a warning, or count it if one of its kind was logged a moment ago."""
        now = self._clock()
        if now - self._logged.get(kind, -self._every) < self._every:
            self._suppressed[kind] += 1
            return
        more = f" (and {self._suppressed.pop(kind):,} more like it before)" if self._suppressed[kind] else ""
        self._logged[kind] = now
        log.warning("%s%s", text, more)


class Link:
    """Serves one connection until it ends; answers are computed in `thread`, one at a time."""

    def __init__(
        self, connection: ServerConnection, session: Session, thread: Executor, timeouts: Timeouts
    ) -> None:
        self._connection = connection
        self._session = session
        self._thread = thread
        self._timeouts = timeouts
        self._warnings = RateLimitedLog()
        self._warn_at = time.monotonic() + timeouts.telemetry
        self._halted = False
        self.stats = LinkStats()
        address = connection.remote_address
        self.name = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a client"

    async def run(self) -> None:
        """Greet, then answer message by message."""
        log.info("%s connected", self.name)
        try:
            for text in self._session.greeting():
                await self._connection.send(text)
            while (message := await self._receive()) is not None:
                if not await self._serve(message):
                    break
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code not in (1000, 1001):
                why = closed.sent.reason or closed
                log.warning("%s: closed, it broke the WebSocket rules: %s", self.name, why)
        finally:
            log.info("%s disconnected: %s", self.name, self.stats.summary())

    def halt(self) -> None:
        """Answer telemetry with the safe command only, from now on."""
        self._halted = True

    async def _receive(self) -> str | bytes | None:
        """The next message; None if the client was silent for too long."""
        give_up_at = time.monotonic() + self._timeouts.client
        while True:
            wait = min(self._warn_at, give_up_at) - time.monotonic()
            try:
                async with asyncio.timeout(max(wait, 0.0)):
                    return await self._connection.recv()
            except TimeoutError:
                if time.monotonic() >= give_up_at:
                    log.warning("%s: given up, silent for %g s", self.name, self._timeouts.client)
                    return None
                # The simulator sends telemetry only after a command.
                log.warning("%s: no telemetry for %g s", self.name, self._timeouts.telemetry)
                self._warn_at = inf  # once for each silence
                await self._connection.send(SAFE)

    async def _serve(self, message: str | bytes) -> bool:
        """Answer one message; False if it was the last."""
        start = time.monotonic()
        reply = await self._answer(message)
        if reply.telemetry or reply.refused is not None:  # refused messages have their own warning
            self._warn_at = time.monotonic() + self._timeouts.telemetry
        if reply.text is not None:
            await self._connection.send(SAFE if self._halted and reply.telemetry else reply.text)
        if reply.driven:
            self.stats.driven(time.monotonic() - start)
        if reply.refused is not None:
            self.stats.refused(reply.refused.reason)
            self._warnings.warn(reply.refused.reason, f"{self.name}: refused, {reply.refused}")
        return not reply.done

    async def _answer(self, message: str | bytes) -> Reply:
        """Have the session answer in its thread, within the timeout."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeouts.answer):
                return await loop.run_in_executor(self._thread, self._session.answer, message)
        except TimeoutError:
            # The thread can't be stopped. Its result is dropped; until it ends, all answers are late.
            refused = Refused("late", f"no answer of the driver within {self._timeouts.answer:g} s")
        except Exception as error:  # a bug in the server: log it, keep the car safe, drive on
            log.exception("%s: the answer to a message failed", self.name)
            refused = Refused("fault", type(error).__name__)
        return Reply(SAFE, refused=refused)
