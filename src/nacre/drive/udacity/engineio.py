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

PING_INTERVAL = 25.0  # seconds, as announced to the client; the simulator pings every 25 s anyway
PING_TIMEOUT = 60.0
MAX_PING = 64  # characters that a ping may carry; "probe" has 5
CONNECT = "40"  # tells the client that it is in the default namespace

# A namespace starts with a slash and ends at a comma or at the end; an acknowledgement number is ignored.
_MESSAGE = re.compile(r"(?P<type>[0-6])(?:(?P<namespace>/[^,]*),?)?(?:[0-9]{1,10})?(?P<json>.*)", re.DOTALL)


class Refused(ValueError):
    """A message that is not accepted; `reason` is one of a few short names to count by, `detail` is logged."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class PacketKind(StrEnum):
    """Packets that a client sends, by their digits; 0 (open) is only sent by servers."""

    CLOSE = "1"
    PING = "2"
    PONG = "3"
    UPGRADE = "5"
    NOOP = "6"
    DISCONNECT = "41"
    EVENT = "42"


@dataclass(frozen=True)
class Packet:
    """One packet of the client."""

    kind: PacketKind
    text: str = ""  # payload of a ping, to be sent back
    event: str = ""  # name of an event
    data: object = None  # payload of an event: anything that JSON can hold; None without one


def parse_packet(text: str) -> Packet:
    """Parse one packet of the client.

    Raises:
        Refused: For everything that the simulator does not send.

    Example:
        >>> parse_packet('42["telemetry",{"speed":"9.1"}]').data
        {'speed': '9.1'}
        >>> parse_packet("2probe")
        Packet(kind=<PacketKind.PING: '2'>, text='probe', event='', data=None)
    """
    if text[:1] == "4":
        return _message(text[1:])
    try:
        kind = PacketKind(text[:1])
    except ValueError:
        raise Refused("packet", f"{shorten(text)} is no packet that a client sends") from None
    if kind is PacketKind.PING and len(text) - 1 > MAX_PING:
        raise Refused("packet", f"a ping carries {len(text) - 1:,} characters, at most {MAX_PING} are answered")
    return Packet(kind, text[1:] if kind is PacketKind.PING else "")


def _message(text: str) -> Packet:
    """A Socket.IO packet, without the 4 of Engine.IO."""
    parts = _MESSAGE.fullmatch(text)
    if parts is None:
        raise Refused("packet", f"{shorten('4' + text)} has no Socket.IO type from 0 to 6")
    if (parts["namespace"] or "/") != "/":
        raise Refused("namespace", f"{shorten(parts['namespace'])} is not served, only the default namespace is")
    if parts["type"] == "1":
        return Packet(PacketKind.DISCONNECT)
    if parts["type"] != "2":
        raise Refused("packet", f"Socket.IO type {parts['type']} is not expected here, only events (2) are")
    items = _load_json(parts["json"])
    if not isinstance(items, list) or not 1 <= len(items) <= 2 or not isinstance(items[0], str):
        raise Refused("packet", f"an event is [name] or [name, data], got {shorten(parts['json'])}")
    return Packet(PacketKind.EVENT, event=items[0], data=items[1] if len(items) == 2 else None)


def _load_json(text: str) -> object:
    """Parse strict JSON: no NaN, no Infinity, no nesting that exhausts the stack."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise Refused("json", f"{shorten(text)}: nested too deeply") from None
    except ValueError as error:
        raise Refused("json", f"{shorten(text)}: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def shorten(text: str, limit: int = 60) -> str:
    r"""Quote untrusted text for a log: at most `limit` characters of it, no line breaks or control characters.

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


def pong_packet(ping: Packet) -> str:
    """The answer to a ping: its payload, sent back."""
    return "3" + ping.text


def event_packet(event: str, data: dict[str, str]) -> str:
    """An event for the client.

    Example:
        >>> event_packet("manual", {})
        '42["manual",{}]'
    """
    return "42" + json.dumps([event, data], separators=(",", ":"))
