"""Who may open a connection to the Udacity server: simulators, not web pages."""

from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from nacre._util.hosts import is_address
from nacre.drive.udacity.engineio import shorten

PATH = "/socket.io/"
WHAT_THIS_IS = "This is nacre's server for the Udacity simulator. It speaks WebSocket only, at /socket.io/.\n"

# For what is not even a GET: the WebSocket library hangs up on it without a word.
NO_GET = (
    "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    f"Content-Length: {len(WHAT_THIS_IS)}\r\n\r\n{WHAT_THIS_IS}"
)

_Refusal = tuple[HTTPStatus, str]


def check_request(path: str, headers: Sequence[tuple[str, str]]) -> _Refusal | None:
    """Whether a request may become a WebSocket: None if so, else the status and the text to answer with.

    Args:
        path: Path and query of the request.
        headers: Names and values, as they came.
    """
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name.lower(), []).append(value)
    if not any("websocket" in value.lower() for value in named.get("upgrade", [])):
        return HTTPStatus.UPGRADE_REQUIRED, WHAT_THIS_IS
    if not from_here(named.get("origin", []), named.get("host", [])):
        return HTTPStatus.FORBIDDEN, f"Web pages may not drive; the origin was {shorten(named['origin'][0])}.\n"
    try:
        address = urlsplit(path)
        transports = parse_qs(address.query).get("transport", ["websocket"])
    except ValueError:  # such as an unclosed bracket
        return HTTPStatus.BAD_REQUEST, WHAT_THIS_IS
    if address.path.rstrip("/") != PATH.rstrip("/"):
        return HTTPStatus.NOT_FOUND, WHAT_THIS_IS
    # EIO=3 and EIO=4 are both let in: the simulator asks for 4 and speaks 3.
    return None if transports == ["websocket"] else (HTTPStatus.BAD_REQUEST, WHAT_THIS_IS)


def from_here(origins: Sequence[str], hosts: Sequence[str]) -> bool:
    """Whether a request comes from no web page, or from one of this very server.

    Browsers name the origin of the page in every WebSocket request; the simulator names none, some clients name
    the server itself. An origin must therefore equal the host that was asked for, and that host must be an address
    or localhost: the origin of a page whose name was pointed at this machine (DNS rebinding) equals its host too.

    Example:
        >>> from_here(["http://127.0.0.1:4567"], ["127.0.0.1:4567"])
        True
        >>> from_here(["http://example.org"], ["127.0.0.1:4567"])
        False
    """
    if not origins:
        return True
    if len(origins) != 1 or len(hosts) != 1:
        return False
    try:
        origin, host = urlsplit(origins[0]), urlsplit(f"//{hosts[0]}")
        same = (origin.hostname, origin.port or 80) == (host.hostname, host.port or 80)
    except ValueError:  # a port that is none
        return False
    return origin.scheme == "http" and same and is_address(host.hostname or "")
