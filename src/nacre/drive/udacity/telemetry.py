"""What the Udacity simulator tells about its car, read with suspicion. Needs pillow."""

import base64
import binascii
import io
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nacre.drive.udacity.engineio import Refused, shorten

WIDTH, HEIGHT = 320, 160
FASTEST = 1000.0  # no number of the simulator comes near; from here on it would also group the digits

# The simulator writes numbers as its computer's language does: 9.1250 or 9,1250.
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}(?:[.,][0-9]{1,9})?")


@dataclass(frozen=True)
class Telemetry:
    """One message of the simulator.

    Args:
        frame: Picture of the centre camera, RGB, uint8 [160, 320, 3].
        speed: Speed in miles per hour.
        mark: The decimal mark of the simulator's numbers, "." or ",".
    """

    frame: NDArray[np.uint8]
    speed: float
    mark: str


def read_telemetry(data: object) -> Telemetry:
    """Check and decode the data of a `telemetry` event.

    Raises:
        Refused: If a field is missing or is not what the simulator sends.
    """
    if not isinstance(data, dict):
        raise Refused("fields", f"telemetry must be an object, got {type(data).__name__}")
    missing = [name for name in ("speed", "image") if name not in data]
    if missing:
        raise Refused("fields", f"telemetry without {' and '.join(missing)}")
    speed = read_number("speed", data["speed"])
    # Steering and throttle are not used; where they are no numbers the sender is not to be trusted with the rest.
    texts = [data[name] for name in ("speed", "steering_angle", "throttle") if name in data]
    for name in ("steering_angle", "throttle"):
        if name in data:
            read_number(name, data[name])
    mark = "," if any(isinstance(text, str) and "," in text for text in texts) else "."
    return Telemetry(decode_frame(data["image"]), speed, mark)


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
    if not -FASTEST < number < FASTEST:  # compared before float(): a JSON integer can be too large for one
        raise Refused("number", f"{name} must lie between -1,000 and 1,000")
    return float(number)


def decode_frame(image: object) -> NDArray[np.uint8]:
    """Decode a base64 JPEG of 320 x 160 pixels to uint8 [160, 320, 3].

    The header is checked before a pixel is decoded, so that a small file can't unfold to gigabytes.

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
        with Image.open(io.BytesIO(file), formats=("JPEG",)) as picture:
            _check_header(picture)
            return np.array(picture)
    except Refused:
        raise
    except Exception as error:  # Pillow raises many kinds for broken files, and none may end the drive
        raise Refused("image", f"no JPEG that can be read: {shorten(str(error))}") from None


def _check_header(picture: Image.Image) -> None:
    if picture.size != (WIDTH, HEIGHT):
        raise Refused("image", f"the image has {picture.width} x {picture.height} pixels, not {WIDTH} x {HEIGHT}")
    if picture.mode != "RGB":
        raise Refused("image", f"the image has mode {picture.mode}, not RGB")
    if "progressive" in picture.info:  # thousands of scans fit in a small file, and each costs a whole pass
        raise Refused("image", "progressive JPEGs are not taken; the simulator sends baseline ones")
