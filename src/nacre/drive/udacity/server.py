"""`serve`: the server that the Udacity simulator connects to. Needs websockets and pillow."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from websockets.asyncio.server import Server, ServerConnection, broadcast
from websockets.asyncio.server import serve as listen
from websockets.http11 import Request, Response

from nacre._util.checks import real, whole
from nacre.drive.udacity.engineio import shorten
from nacre.drive.udacity.link import Link, Patience, log
from nacre.drive.udacity.link_stats import Complaints
from nacre.drive.udacity.request_checks import NO_GET, check_request
from nacre.drive.udacity.session import SAFE, Driver, Session
from nacre.drive.udacity.speed_control import SpeedController

# Bytes of one WebSocket message. Above MAX_MESSAGE it is refused with an answer; above this, the connection ends.
LARGEST_READ = 4 * 1024 * 1024

# The library tells more than a person wants to know; some versions give a traceback for each client that is no
# WebSocket. What matters is logged here.
_library_log = logging.getLogger("nacre.drive.websockets")
_library_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen and how to drive.

    Args:
        host: Address to listen on. The default can be reached from this machine only.
        port: Port to listen on; 0 takes a free one. The simulator connects to 4567.
        target_speed: Speed to keep, in miles per hour.
        patience: How long to wait for what.
    """

    host: str = "127.0.0.1"
    port: int = 4567
    target_speed: float = 15.0
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        """Refuse what can't be listened on or driven."""
        if whole("port", self.port, 0) > 65535:
            raise ValueError(f"port must be at most 65535, got {self.port}")
        real("target_speed", self.target_speed, 0.0, 100.0, open_low=True)


def serve(
    driver: Driver,
    host: str = "127.0.0.1",
    port: int = 4567,
    target_speed: float = 15.0,
    *,
    patience: Patience | None = None,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Drive the cars of all simulators that connect, until Ctrl-C.

    What happens is told to the logger `nacre.drive`: connections, refused messages, and statistics at the end of
    each connection.

    Args:
        driver: Steers by one picture, from -1 (left) to 1 (right).
        host: Address to listen on. The default can be reached from this machine only.
        port: Port to listen on; 0 takes a free one. The simulator connects to 4567.
        target_speed: Speed to keep, in miles per hour.
        patience: How long to wait for telemetry, for the driver and for a silent client.
        ready: Called with the port once simulators can connect.

    Raises:
        ValueError: If an argument is out of range.
        OSError: If the port is in use, or the host is no address of this machine.
    """
    server = UdacityServer(driver, ServerOptions(host, port, target_speed, patience or Patience()))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run(ready))


class UdacityServer:
    """The server as a coroutine, for programs that have an event loop of their own.

    Each connection has its own session and its own speed controller. The driver is shared; it is asked by one
    thread, one frame at a time.
    """

    def __init__(self, driver: Driver, options: ServerOptions) -> None:
        self._driver = driver
        self._options = options
        self._links: set[Link] = set()
        self._complaints = Complaints(log)

    async def run(self, ready: Callable[[int], None] | None = None, stop: asyncio.Event | None = None) -> None:
        """Serve until `stop` is set or the task is cancelled; then every car gets the safe command."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="driver")
        try:
            server = await self._listen(thread)
            async with server:
                port: int = server.sockets[0].getsockname()[1]
                self._announce(port)
                if ready is not None:
                    ready(port)
                try:
                    await (stop or asyncio.Event()).wait()
                finally:
                    self._halt(server)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _listen(self, thread: ThreadPoolExecutor) -> Server:
        async def handle(connection: ServerConnection) -> None:
            session = Session(self._driver, SpeedController(self._options.target_speed))
            link = Link(connection, session, thread, self._options.patience)
            self._links.add(link)
            try:
                await link.run()
            finally:
                self._links.discard(link)

        host, port = self._options.host, self._options.port
        try:
            return await listen(
                handle,
                host,
                port,
                process_request=self._gate,
                create_connection=_Connection,
                compression=None,  # the simulator has none, and a small message can't unfold to a large one
                ping_interval=None,  # the client pings, in its own protocol
                close_timeout=2.0,
                max_size=LARGEST_READ,
                server_header=None,
                logger=_library_log,
            )
        except OSError as error:
            raise _explained(error, host, port) from error

    def _gate(self, connection: ServerConnection, request: Request) -> Response | None:
        refusal = check_request(request.path, list(request.headers.raw_items()))
        if refusal is None:
            return None
        status, text = refusal
        told = f"refused a request for {shorten(request.path)}, status {status}: {text.strip()}"
        self._complaints.say(str(status), told)
        return connection.respond(status, text)

    def _announce(self, port: int) -> None:
        host = self._options.host
        log.info("waiting for the simulator on %s port %d; start it in autonomous mode", host, port)
        if port != 4567:
            log.warning("the released simulators connect to port 4567 only, this is port %d", port)
        if not _is_loopback(host):
            log.warning("%s can be reached from other machines, and whoever connects is answered", host)

    def _halt(self, server: Server) -> None:
        """Stop the cars: without a last command they would keep the throttle they have."""
        for link in self._links:
            link.halt()
        broadcast(server.connections, SAFE)


class _Connection(ServerConnection):
    """A connection that answers what is no GET request."""

    _begun = False

    def data_received(self, data: bytes) -> None:
        """Look at the first byte that comes, then leave everything to the library."""
        if not self._begun and not data.startswith(b"G"):
            self.transport.write(NO_GET.encode())
            self.transport.close()
            return
        self._begun = True
        super().data_received(data)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _explained(error: OSError, host: str, port: int) -> OSError:
    """The same error, with what to do about it."""
    if error.errno == errno.EADDRINUSE:
        text = (
            f"port {port} of {host} is in use; stop the other program (a second server?) or choose another --port"
        )
    elif error.errno in (errno.EACCES, errno.EPERM):
        text = f"port {port} of {host} may not be opened by this user; choose a --port above 1023"
    else:
        text = f"can't listen on host {host!r}, port {port}: {error.strerror or error}; check --host"
    return OSError(error.errno, text)
