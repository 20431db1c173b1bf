"""What one simulator is told: messages in, answers out, without a socket."""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nacre.drive.udacity.engineio import (
    Kind,
    Packet,
    Refused,
    connect_packet,
    event_packet,
    open_packet,
    parse_packet,
    pong_packet,
    shorten,
)
from nacre.drive.udacity.speed_control import SpeedController
from nacre.drive.udacity.telemetry import read_telemetry

# The largest of 4,053 recorded frames makes a message of 21,400 characters; noise at JPEG quality 95, 166,000.
MAX_MESSAGE = 256 * 1024  # characters

# Straight, no throttle. Without a decimal mark, so that it reads the same in every language.
SAFE = event_packet("steer", {"steering_angle": "0", "throttle": "0"})
MANUAL = event_packet("manual", {})


class Driver(Protocol):
    """Steers by one picture.

    Frames of all connections come to the same driver, one at a time and always in the same thread, so a driver
    must not carry a memory from frame to frame.
    """

    def __call__(self, frame: NDArray[np.uint8]) -> float:
        """Steering from -1 (left) to 1 (right) for an RGB picture, uint8 [160, 320, 3]."""
        ...


@dataclass(frozen=True)
class Reply:
    """What to do about one message.

    Args:
        text: The answer; None if there is none.
        refused: Why the message was not taken; `text` is then the safe command.
        telemetry: The simulator told about its car, or that a person drives it.
        driven: The driver steered on this message.
        done: The client takes its leave.
    """

    text: str | None
    refused: Refused | None = None
    telemetry: bool = False
    driven: bool = False
    done: bool = False


class Session:
    """Answers the messages of one simulator.

    Args:
        driver: Steers.
        speed: Keeps the speed; one for each session, since it remembers.
        clock: Seconds that never go back.
    """

    def __init__(
        self, driver: Driver, speed: SpeedController, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._driver = driver
        self._speed = speed
        self._clock = clock
        self._last = clock()

    def greeting(self) -> list[str]:
        """What a new client is told: session, namespace, and a first command, which makes it send telemetry."""
        return [open_packet(secrets.token_hex(10)), connect_packet(), SAFE]

    def answer(self, message: str | bytes) -> Reply:
        """Answer one message; what can't be taken is answered with the safe command."""
        try:
            if isinstance(message, bytes):
                raise Refused("binary", f"a binary message of {len(message):,} bytes, only text is taken")
            if len(message) > MAX_MESSAGE:
                raise Refused("size", f"{len(message):,} characters, at most {MAX_MESSAGE:,} are read")
            return self._packet(parse_packet(message))
        except Refused as refused:
            return Reply(SAFE, refused=refused)

    def _packet(self, packet: Packet) -> Reply:
        if packet.kind is Kind.EVENT:
            return self._event(packet)
        if packet.kind is Kind.PING:
            return Reply(pong_packet(packet))
        return Reply(None, done=packet.kind in (Kind.CLOSE, Kind.DISCONNECT))

    def _event(self, packet: Packet) -> Reply:
        if packet.event != "telemetry":
            raise Refused("event", f"{shorten(packet.event)} is not known, only 'telemetry' is")
        if packet.data is None or packet.data == {}:  # a person drives with the keyboard
            return Reply(MANUAL, telemetry=True)
        told = read_telemetry(packet.data)
        steering = self._steer(told.frame)
        now = self._clock()
        throttle = self._speed.throttle(told.speed, now - self._last)
        self._last = now
        command = {"steering_angle": decimal(steering, told.mark), "throttle": decimal(throttle, told.mark)}
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
    """Write a number as the simulator writes its own: it reads 0.5 as 5 where its language has a decimal comma.

    Example:
        >>> decimal(-0.25, ",")
        '-0,250000'
    """
    return f"{value + 0.0:.6f}".replace(".", mark)
