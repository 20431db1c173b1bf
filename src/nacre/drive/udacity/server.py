"""`serve`: the server that the Udacity simulator connects to. Needs websockets and pillow."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, broadcast
from websockets.asyncio.server import serve as listen
from websockets.http11 import Request, Response

from nacre._util.checks import real, whole
from nacre._util.hosts import is_address
from nacre.drive.udacity.engineio import shorten
from nacre.drive.udacity.link import Link, RateLimitedLog, Timeouts, log
from nacre.drive.udacity.session import SAFE, Session, SteeringPolicy
from nacre.drive.udacity.speed_control import SpeedController

# Bytes of one WebSocket message. Above MAX_MESSAGE it is refused with an answer; above this, the connection ends.
LARGEST_READ = 4 * 1024 * 1024
MOST_CLIENTS = 16  # at once: each may hold up to LARGEST_READ of a message that it never ends

PATH = "/socket.io/"
ABOUT = "This is nacre's server for the Udacity simulator. It speaks WebSocket only, at /socket.io/.\n"
# For requests other than GET: the WebSocket library would close the connection without an answer.
NO_GET = (
    "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    f"Content-Length: {len(ABOUT)}\r\n\r\n{ABOUT}"
)

# The library logs too much; some versions write a traceback for each client that is no WebSocket. What matters is
# logged here.
_library_log = logging.getLogger("nacre.drive.websockets")
_library_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen and how to drive."""

    host: str = "127.0.0.1"  # address to listen on; the default can be reached from this machine only
    port: int = 4567  # to which the simulator connects; 0 takes a free one
    target_speed: float = 15.0  # to keep, in miles per hour
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        """Check the ranges."""
        if whole("port", self.port, 0) > 65535:
            raise ValueError(f"port must be at most 65535, got {self.port}")
        real("target_speed", self.target_speed, 0.0, 100.0, open_low=True)


def serve(driver: SteeringPolicy, options: ServerOptions, ready: Callable[[int], None] | None = None) -> None:
    """Drive the cars of all simulators that connect, until Ctrl-C.

    Connections, refused messages, and statistics at the end of each connection go to the logger `nacre.drive`.
    `ready` is called with the port once simulators can connect.

    Raises:
        OSError: If the port is in use, or the host is no address of this machine.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(UdacityServer(driver, options).run(ready))


class UdacityServer:
    """The server as a coroutine, for programs that have an event loop of their own.

    Each connection has its own session and its own speed controller. The driver is shared and called by one
    thread, one frame at a time.
    """

    def __init__(self, driver: SteeringPolicy, options: ServerOptions) -> None:
        self._driver = driver
        self._options = options
        self._links: set[Link] = set()
        self._warnings = RateLimitedLog()

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
            if len(self._links) >= MOST_CLIENTS:
                self._warnings.warn("clients", f"closed a connection, {MOST_CLIENTS} clients are served already")
                await connection.close(1013, f"at most {MOST_CLIENTS} clients")
                return
            session = Session(self._driver, SpeedController(self._options.target_speed))
            link = Link(connection, session, thread, self._options.timeouts)
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
                compression=None,  # the simulator has none, and a small message can't expand to a large one
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
        warning = f"refused a request for {shorten(request.path)}, status {status}: {text.strip()}"
        self._warnings.warn(str(status), warning)
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
    """A connection that also answers requests other than GET."""

    _begun = False

    def data_received(self, data: bytes) -> None:
        """Check the first byte, then leave everything to the library."""
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


def check_request(path: str, headers: Sequence[tuple[str, str]]) -> tuple[HTTPStatus, str] | None:
    """Whether a request, by path with query and by headers, may become a WebSocket.

    Returns:
        None if so, else the status and the text to answer with.
    """
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name.lower(), []).append(value)
    if not any("websocket" in value.lower() for value in named.get("upgrade", [])):
        return HTTPStatus.UPGRADE_REQUIRED, ABOUT
    if not same_origin(named.get("origin", []), named.get("host", [])):
        return HTTPStatus.FORBIDDEN, f"Web pages may not drive; the origin was {shorten(named['origin'][0])}.\n"
    try:
        address = urlsplit(path)
        transports = parse_qs(address.query).get("transport", ["websocket"])
    except ValueError:  # such as an unclosed bracket
        return HTTPStatus.BAD_REQUEST, ABOUT
    if address.path.rstrip("/") != PATH.rstrip("/"):
        return HTTPStatus.NOT_FOUND, ABOUT
    # EIO=3 and EIO=4 are both let in: the simulator asks for 4 and speaks 3.
    return None if transports == ["websocket"] else (HTTPStatus.BAD_REQUEST, ABOUT)


def same_origin(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    """Whether a request comes from no web page, or from one of this very server.

    Browsers send the page's origin with every WebSocket request; the simulator sends none, some clients send the
    server's own. An origin must therefore equal the requested host, and that host must be an address or localhost:
    under DNS rebinding the origin equals the host too, but both are the attacker's name.

    Example:
        >>> same_origin(["http://127.0.0.1:4567"], ["127.0.0.1:4567"])
        True
        >>> same_origin(["http://example.org"], ["127.0.0.1:4567"])
        False
    """
    if not origins:
        return True
    if len(origins) != 1 or len(hosts) != 1:
        return False
    try:
        origin, host = urlsplit(origins[0]), urlsplit(f"//{hosts[0]}")
        same = (origin.hostname, origin.port or 80) == (host.hostname, host.port or 80)
    except ValueError:  # an invalid port
        return False
    return origin.scheme == "http" and same and is_address(host.hostname or "")
