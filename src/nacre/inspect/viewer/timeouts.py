"""`TimeoutHttp`: connections of clients that stall are ended. Needs uvicorn."""

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

TIMEOUT = 10.0  # seconds that a client may take for a request, and stop in reading an answer


class TimeoutHttp(H11Protocol):
    """HTTP with a timeout for each request, header and body, and for a client that reads no further."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  as uvicorn has it
        """A client has connected."""
        super().connection_made(transport)
        self._since = self.loop.time()  # when we began to wait for the client
        self._unread = 0  # bytes of an answer that it had not taken when we last looked
        self.loop.call_later(TIMEOUT, self._look)

    def data_received(self, data: bytes) -> None:
        """A part of a request, maybe the first one."""
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._since = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """The next request may come."""
        self._since = self.loop.time()
        super().on_response_complete()

    def _look(self) -> None:
        """End the connection if the client stalls; else look again."""
        if self.transport.is_closing() and not self._unread:
            return
        unread = self.transport.get_write_buffer_size()
        if unread and unread == self._unread:
            self.transport.abort()
            return
        self._unread = unread
        waiting = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        left = self._since + TIMEOUT - self.loop.time() if waiting else TIMEOUT
        if waiting and left <= 0:
            self.transport.abort() if unread else self.transport.close()
            return
        self.loop.call_later(max(left, TIMEOUT / 10), self._look)
