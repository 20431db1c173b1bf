"""One simulator without its socket: messages in, answers out. Messages are not trusted. Needs pillow."""

import base64
import binascii
import io
import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nacre.data.sets.udacity_images import HEIGHT, WIDTH
from nacre.drive.udacity.engineio import (
    CONNECT,
    Packet,
    PacketKind,
    Refused,
    event_packet,
    open_packet,
    parse_packet,
    pong_packet,
    shorten,
)
from nacre.drive.udacity.speed_control import SpeedController

# The largest of 4,053 recorded frames makes a message of 21,400 characters; noise at JPEG quality 95, 166,000.
MAX_MESSAGE = 256 * 1024  # characters
LARGEST_NUMBER = 1000.0  # the simulator's numbers are far smaller, and from here on it would group digits

# Straight, no throttle. Without a decimal mark, so that it reads the same in every locale.
SAFE = event_packet("steer", {"steering_angle": "0", "throttle": "0"})
MANUAL = event_packet("manual", {})

# The simulator writes numbers in its computer's locale: 9.1250 or 9,1250.
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}(?:[.,][0-9]{1,9})?")


class SteeringPolicy(Protocol):
    """Steers by one image.

    Frames of all connections come to the same policy, one at a time and always in the same thread, so a policy
    must not carry state from frame to frame.
    """

    def __call__(self, frame: NDArray[np.uint8]) -> float:
        """Steering from -1 (left) to 1 (right) for an RGB image, uint8 [160, 320, 3]."""
        ...


@dataclass(frozen=True)
class Reply:
    """What to do about one message."""

    text: str | None  # the answer, if there is one
    refused: Refused | None = None  # why the message was not accepted; `text` is then the safe command
    telemetry: bool = False  # the message told about the car, or that a person drives it
    driven: bool = False  # the driver steered on this message
    done: bool = False  # the client disconnects


class Session:
    """Answers the messages of one simulator; each session needs a speed controller of its own, which has state."""

    def __init__(
        self, driver: SteeringPolicy, speed: SpeedController, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._driver = driver
        self._speed = speed
        self._clock = clock
        self._last = clock()

    def greeting(self) -> list[str]:
        """What a new client is told: session, namespace, and a first command, which makes it send telemetry."""
        return [open_packet(secrets.token_hex(10)), CONNECT, SAFE]

    def answer(self, message: str | bytes) -> Reply:
        """Answer one message; one that is refused is answered with the safe command."""
        try:
            if isinstance(message, bytes):
                raise Refused("binary", f"a binary message of {len(message):,} bytes, only text is taken")
            if len(message) > MAX_MESSAGE:
                raise Refused("size", f"{len(message):,} characters, at most {MAX_MESSAGE:,} are read")
            packet = parse_packet(message)
            if packet.kind is PacketKind.EVENT:
                return self._event(packet)
            if packet.kind is PacketKind.PING:
                return Reply(pong_packet(packet))
            return Reply(None, done=packet.kind in (PacketKind.CLOSE, PacketKind.DISCONNECT))
        except Refused as refused:
            return Reply(SAFE, refused=refused)

    def _event(self, packet: Packet) -> Reply:
        if packet.event != "telemetry":
            raise Refused("event", f"{shorten(packet.event)} is not known, only 'telemetry' is")
        if packet.data is None or packet.data == {}:  # a person drives with the keyboard
            return Reply(MANUAL, telemetry=True)
        data = read_telemetry(packet.data)
        steering = self._steer(data.frame)
        now = self._clock()
        throttle = self._speed.throttle(data.speed, now - self._last)
        self._last = now
        command = {"steering_angle": decimal(steering, data.mark), "throttle": decimal(throttle, data.mark)}
        return Reply(event_packet("steer", command), telemetry=True, driven=True)

    def _steer(self, frame: NDArray[np.uint8]) -> float:
        try:
            steering = float(self._driver(frame))
        except Exception as error:  # whatever a network does, the car must get an answer
            raise Refused("driver", f"the driver failed: {type(error).__name__}: {shorten(str(error))}") from error
        if not math.isfinite(steering):
            raise Refused("driver", f"the driver steers {steering}")
        return min(max(steering, -1.0), 1.0)


def decimal(value: float, mark: str) -> str:
    """Write a number as the simulator writes its own: it reads 0.5 as 5 where its locale has a decimal comma.

    Example:
        >>> decimal(-0.25, ",")
        '-0,250000'
    """
    return f"{value + 0.0:.6f}".replace(".", mark)


@dataclass(frozen=True)
class Telemetry:
    """One telemetry message of the simulator."""

    frame: NDArray[np.uint8]  # [160, 320, 3] RGB, of the centre camera
    speed: float  # miles per hour
    mark: str  # decimal mark of the simulator's numbers, "." or ","


def read_telemetry(data: object) -> Telemetry:
    """Check and decode the data of a `telemetry` event.

    Raises:
        Refused: If a field is missing or is not what the simulator sends.
    """
    if not isinstance(data, dict):
        raise Refused("fields", f"telemetry must be an object, got {type(data).__name__}")
    if missing := [name for name in ("speed", "image") if name not in data]:
        raise Refused("fields", f"telemetry without {' and '.join(missing)}")
    # Steering and throttle are not used, but a sender whose numbers are none is not trusted with the rest.
    sent = {name: data[name] for name in ("speed", "steering_angle", "throttle") if name in data}
    numbers = {name: read_number(name, value) for name, value in sent.items()}
    mark = "," if any(isinstance(text, str) and "," in text for text in sent.values()) else "."
    return Telemetry(decode_frame(data["image"]), numbers["speed"], mark)


def read_number(name: str, value: object) -> float:
    """Read a number of the simulator: a text with a dot or a comma, or a JSON number.

    Raises:
        Refused: If it is none, or not between -1,000 and 1,000.

    Example:
        >>> read_number("speed", "9,1250")
        9.125
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value.replace(",", "."))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    else:
        shown = shorten(value) if isinstance(value, str) else type(value).__name__
        raise Refused("number", f"{name} must be a number such as '9.1250' or '9,1250', got {shown}")
    if not -LARGEST_NUMBER < number < LARGEST_NUMBER:  # before float(): a JSON integer can be too large for one
        raise Refused("number", f"{name} must lie between -1,000 and 1,000")
    return float(number)


def decode_frame(image: object) -> NDArray[np.uint8]:
    """Decode a base64 JPEG of 320 x 160 pixels to uint8 [160, 320, 3].

    The header is checked before a pixel is decoded, so that a small file can't expand to gigabytes.

    Raises:
        Refused: If it is anything else.
    """
    if not isinstance(image, str):
        raise Refused("image", f"the image must be base64 text, got {type(image).__name__}")
    try:
        file = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("image", f"no base64: {error}") from None
    try:
        with Image.open(io.BytesIO(file), formats=("JPEG",)) as opened:
            _check_header(opened)
            return np.array(opened)
    except Refused:
        raise
    except Exception as error:  # Pillow raises many kinds for broken files, and none may end the drive
        raise Refused("image", f"no JPEG that can be read: {shorten(str(error))}") from None


def _check_header(image: Image.Image) -> None:
    if image.size != (WIDTH, HEIGHT):
        raise Refused("image", f"the image has {image.width} x {image.height} pixels, not {WIDTH} x {HEIGHT}")
    if image.mode != "RGB":
        raise Refused("image", f"the image has mode {image.mode}, not RGB")
    if "progressive" in image.info:  # thousands of scans fit in a small file, and each costs a whole pass
        raise Refused("image", "progressive JPEGs are not taken; the simulator sends baseline ones")
