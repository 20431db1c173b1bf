"""Checks of every request, against DNS rebinding, CSRF and large requests; security headers of every answer."""

import re

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nacre._util.hosts import is_address

LARGEST_BODY = 16 * 1024  # bytes of a request
LARGEST_QUERY = 2 * 1024

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))(?::[0-9]{1,5})?")

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestChecker:
    """ASGI middleware that checks requests: their Host must be an address or known, their origin the page itself.

    `hosts` are names that the server was told to listen on.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = ()) -> None:
        self._app, self._hosts = app, tuple(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket
            await send({"type": "websocket.close", "code": 1003})
            return
        await (self._refusal(scope) or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._knows(hosts[0]):
            return PlainTextResponse(
                "The Host header names another machine; open the address that nacre view printed.\n", 400
            )
        foreign = any(origin != f"http://{hosts[0]}" for origin in headers.get("origin", []))
        if foreign or headers.get("sec-fetch-site", ["none"])[0] not in ("none", "same-origin"):
            return PlainTextResponse("Other web pages may not ask.\n", 403)
        length = headers.get("content-length", ["0"])[0]
        if not length.isascii() or not length.isdigit() or int(length[:12]) > LARGEST_BODY:
            return PlainTextResponse(f"A request has {LARGEST_BODY} bytes at most.\n", 413)
        if len(scope.get("query_string", b"")) > LARGEST_QUERY:
            return PlainTextResponse(f"A query has {LARGEST_QUERY} characters at most.\n", 414)
        return None

    def _knows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found["address"] or found["name"]).lower()
        return is_address(name) or name in self._hosts


def _with_headers(send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *given]}
        await send(message)

    return tell
