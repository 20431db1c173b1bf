"""One connection of the Udacity server: reads, has the session answer, watches the clock."""

import asyncio
import logging
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from nacre.drive.udacity.engineio import PING_INTERVAL, PING_TIMEOUT, Refused
from nacre.drive.udacity.link_stats import Complaints, LinkStats
from nacre.drive.udacity.session import SAFE, Reply, Session

log = logging.getLogger("nacre.drive")


@dataclass(frozen=True)
class Patience:
    """How long to wait for what, in seconds.

    Args:
        telemetry: Silence of the simulator that is logged, and answered with the safe command.
        answer: Time for an answer; after it the car gets the safe command.
        client: Silence after which a client is given up, pings included.
    """

    telemetry: float = 5.0
    answer: float = 2.0
    client: float = PING_INTERVAL + PING_TIMEOUT


class Link:
    """Serves one connection until it ends.

    Args:
        connection: The open WebSocket.
        session: Knows the answers.
        thread: Where answers are worked out, one at a time.
        patience: How long to wait for what.
    """

    def __init__(
        self, connection: ServerConnection, session: Session, thread: Executor, patience: Patience
    ) -> None:
        self._connection = connection
        self._session = session
        self._thread = thread
        self._patience = patience
        self._complaints = Complaints(log)
        self._warn_at = time.monotonic() + patience.telemetry
        self._halted = False
        self.stats = LinkStats()
        self.name = _name_of(connection)

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
                log.warning(
                    "%s: closed, it broke the WebSocket rules: %s", self.name, closed.sent.reason or closed
                )
        finally:
            log.info("%s disconnected: %s", self.name, self.stats.summary())

    def halt(self) -> None:
        """Answer with nothing but the safe command from now on."""
        self._halted = True

    async def _receive(self) -> str | bytes | None:
        """The next message; None if the client was silent for too long."""
        give_up_at = time.monotonic() + self._patience.client
        while True:
            wait = min(self._warn_at, give_up_at) - time.monotonic()
            try:
                async with asyncio.timeout(max(wait, 0.0)):
                    return await self._connection.recv()
            except TimeoutError:
                if time.monotonic() >= give_up_at:
                    log.warning("%s: given up, silent for %g s", self.name, self._patience.client)
                    return None
                await self._prod()

    async def _prod(self) -> None:
        """Say that telemetry stays away, and ask for more: the simulator sends some only after a command."""
        log.warning("%s: no telemetry for %g s", self.name, self._patience.telemetry)
        self._warn_at = inf  # once for each silence
        await self._connection.send(SAFE)

    async def _serve(self, message: str | bytes) -> bool:
        """Answer one message; False if it was the last."""
        start = time.monotonic()
        reply = await self._answer(message)
        if reply.telemetry or reply.refused is not None:  # refused messages are told of by themselves
            self._warn_at = time.monotonic() + self._patience.telemetry
        if reply.text is not None:
            await self._connection.send(SAFE if self._halted and reply.telemetry else reply.text)
        if reply.driven:
            self.stats.driven(time.monotonic() - start)
        if reply.refused is not None:
            self.stats.refused(reply.refused.reason)
            self._complaints.say(reply.refused.reason, f"{self.name}: refused, {reply.refused}")
        return not reply.done

    async def _answer(self, message: str | bytes) -> Reply:
        """Have the session answer in its thread, within the time for it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience.answer):
                return await loop.run_in_executor(self._thread, self._session.answer, message)
        except TimeoutError:
            # The thread can't be stopped. What it comes to is thrown away; until then all answers are late.
            late = Refused("late", f"no answer of the driver within {self._patience.answer:g} s")
        except Exception as error:  # a mistake of ours: say so, keep the car safe, drive on
            log.exception("%s: the answer to a message failed", self.name)
            late = Refused("fault", type(error).__name__)
        return Reply(SAFE, refused=late)


def _name_of(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a client"
