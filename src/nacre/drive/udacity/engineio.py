"""The wire format of the Udacity simulator: Engine.IO revision 3 with Socket.IO 2 on top, over a WebSocket.

One WebSocket text message is one packet: a digit for the Engine.IO type and, for messages, a second digit for the
Socket.IO type, then perhaps a namespace, an acknowledgement number and JSON:

    2  ping        3  pong        42["telemetry",{"speed":"9.1"}]  event        41  disconnect        1  close

The simulator asks for `EIO=4` in its address and still speaks revision 3: it pings, the server answers, and the
server opens the default namespace by itself. Only what a server of the simulator needs is here: no polling, no
binary attachments, no acknowledgements.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

PING_INTERVAL = 25.0  # seconds, as announced to the client; the simulator pings every 25 s on its own account
PING_TIMEOUT = 60.0
MAX_PING = 64  # characters that a ping may carry; "probe" has 5

# A namespace starts with a slash and ends at a comma or at the end; an acknowledgement number is read over.
_MESSAGE = re.compile(r"(?P<type>[0-6])(?:(?P<namespace>/[^,]*),?)?(?:[0-9]{1,10})?(?P<json>.*)", re.DOTALL)


class Refused(ValueError):
    """A message that is not taken.

    Args:
        reason: One of a few short names, for counting.
        detail: What exactly was wrong, for the log.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Kind(StrEnum):
    """What a packet of the client is."""

    CLOSE = "close"
    PING = "ping"
    PONG = "pong"
    UPGRADE = "upgrade"
    NOOP = "noop"
    DISCONNECT = "disconnect"
    EVENT = "event"


@dataclass(frozen=True)
class Packet:
    """One packet of the client.

    Args:
        kind: What it is.
        text: What a ping carries, to be sent back.
        event: Name of an event.
        data: What an event carries: anything that JSON can hold; None if it carries nothing.
    """

    kind: Kind
    text: str = ""
    event: str = ""
    data: object = None


# By Engine.IO digit; 0 (open) only ever comes from a server, 4 is a Socket.IO message.
_ENGINE = {"1": Kind.CLOSE, "2": Kind.PING, "3": Kind.PONG, "5": Kind.UPGRADE, "6": Kind.NOOP}


def parse_packet(text: str) -> Packet:
    """Read one packet of the client.

    Raises:
        Refused: For everything that the simulator does not send.

    Example:
        >>> parse_packet('42["telemetry",{"speed":"9.1"}]').data
        {'speed': '9.1'}
        >>> parse_packet("2probe")
        Packet(kind=<Kind.PING: 'ping'>, text='probe', event='', data=None)
    """
    if text[:1] == "4":
        return _message(text[1:])
    kind = _ENGINE.get(text[:1])
    if kind is None:
        raise Refused("packet", f"{shorten(text)} is no packet that a client sends")
    if kind is Kind.PING and len(text) - 1 > MAX_PING:
        raise Refused("packet", f"a ping carries {len(text) - 1:,} characters, at most {MAX_PING} are answered")
    return Packet(kind, text[1:] if kind is Kind.PING else "")


def _message(text: str) -> Packet:
    """A Socket.IO packet, without the 4 of Engine.IO."""
    parts = _MESSAGE.fullmatch(text)
    if parts is None:
        raise Refused("packet", f"{shorten('4' + text)} has no Socket.IO type from 0 to 6")
    if (parts["namespace"] or "/") != "/":
        raise Refused("namespace", f"{shorten(parts['namespace'])} is not served, only the default namespace is")
    if parts["type"] == "1":
        return Packet(Kind.DISCONNECT)
    if parts["type"] != "2":
        raise Refused("packet", f"Socket.IO type {parts['type']} is not expected here, only events (2) are")
    items = load_json(parts["json"])
    if not isinstance(items, list) or not 1 <= len(items) <= 2 or not isinstance(items[0], str):
        raise Refused("packet", f"an event is [name] or [name, data], got {shorten(parts['json'])}")
    return Packet(Kind.EVENT, event=items[0], data=items[1] if len(items) == 2 else None)


def load_json(text: str) -> object:
    """Read strict JSON: no NaN, no Infinity, no nesting that exhausts the stack."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # Not `str(error)` of a deep nesting: its message is about Python, not about the message that came.
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refused("json", f"{shorten(text)}: {why}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def shorten(text: str, limit: int = 60) -> str:
    r"""Quote foreign text for a log: at most `limit` characters of it, no line breaks or control characters.

    Example:
        >>> print(shorten("a\nb"))
        'a\nb'
    """
    return ascii(text) if len(text) <= limit else f"{text[:limit]!a}... ({len(text):,} characters)"


def open_packet(session: str) -> str:
    """The first packet of a server.

    Example:
        >>> open_packet("abc")
        '0{"sid":"abc","upgrades":[],"pingTimeout":60000,"pingInterval":25000}'
    """
    times = {"pingTimeout": round(1000 * PING_TIMEOUT), "pingInterval": round(1000 * PING_INTERVAL)}
    return "0" + json.dumps({"sid": session, "upgrades": [], **times}, separators=(",", ":"))


def connect_packet() -> str:
    """Tells the client that it is in the default namespace."""
    return "40"


def pong_packet(ping: Packet) -> str:
    """The answer to a ping: what it carried, sent back."""
    return "3" + ping.text


def event_packet(event: str, data: dict[str, str]) -> str:
    """An event for the client.

    Example:
        >>> event_packet("manual", {})
        '42["manual",{}]'
    """
    return "42" + json.dumps([event, data], separators=(",", ":"))
