"""One image of a film: the car from above, what the driver sees, and what it decides. Needs Pillow."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.saliency import overlay

SIZE = (848, 400)  # width and height: multiples of 16, as video wants them; the view is 600 wide
_VIEW = 600
_ENLARGED = 192  # pixels of the enlarged frame: twice what the network sees
_LEFT, _RIGHT = _VIEW + 28, SIZE[0] - 28  # of the panel beside the view
_BACK, _TEXT, _PALE, _BAR, _CHOSEN = "#ffffff", "#222222", "#8a8a8a", "#9fc5dd", "#d55e00"
_BARS_AT, _BAR_PITCH = 232, 21  # pixels from the top, and from bar to bar
_BAR_FROM, _BAR_LENGTH = _LEFT + 56, 92


@dataclass(frozen=True)
class Moment:
    """What an image of the film shows."""

    driver: str
    seconds: float  # since the start
    action: int  # that is taken
    speed: float  # metres a second
    error: float  # metres from the centre line, positive to the left
    view: NDArray[np.uint8]  # [400, 600, 3] from above
    frame: NDArray[np.uint8]  # [96, 96, 3] that the driver sees
    heat: NDArray[np.float32] | None = None  # [96, 96] where it looks, if known
    probabilities: NDArray[np.float32] | None = None  # [5] of the actions, if known


def draw(moment: Moment) -> NDArray[np.uint8]:
    """[400, 848, 3] image of a moment."""
    image = Image.new("RGB", SIZE, _BACK)
    image.paste(Image.fromarray(moment.view), (0, 0))
    pen = ImageDraw.Draw(image)
    seen, title = moment.frame, f"{moment.driver} sees"
    if moment.heat is not None:
        seen, title = overlay(moment.frame, moment.heat), f"{moment.driver} looks at (Grad-CAM)"
    pen.text((_LEFT, 7), _fitting(title), _TEXT, _font(13))
    image.paste(Image.fromarray(seen).resize((_ENLARGED, _ENLARGED), Image.Resampling.NEAREST), (_LEFT, 28))
    if moment.probabilities is None:
        _write(pen, _BARS_AT, "does", ACTIONS[moment.action])
    else:
        _draw_bars(pen, moment.probabilities, moment.action)
    _write(pen, 342, f"{moment.seconds:.1f} s", f"{moment.speed:.0f} m/s")
    _write(pen, 366, "off centre", _aside(moment.error))
    return np.asarray(image)


def _aside(error: float) -> str:
    """Distance from the centre line, and the side unless it rounds to none."""
    metres = f"{abs(error):.1f} m"
    return metres if metres == "0.0 m" else f"{metres} {'left' if error > 0 else 'right'}"


def _draw_bars(pen: ImageDraw.ImageDraw, probabilities: NDArray[np.float32], action: int) -> None:
    """A bar for each action; that of the action taken has another colour and a mark."""
    for number, (name, share) in enumerate(zip(ACTIONS, probabilities.tolist(), strict=True)):
        top, taken = _BARS_AT + number * _BAR_PITCH, number == action
        middle = top + 8
        colour = _CHOSEN if taken else _BAR
        if taken:
            pen.polygon([(_LEFT - 12, middle - 5), (_LEFT - 12, middle + 5), (_LEFT - 4, middle)], _CHOSEN)
        pen.text((_LEFT, middle), name, _TEXT, _font(14), anchor="lm")
        pen.rectangle((_BAR_FROM, top + 1, _BAR_FROM + round(share * _BAR_LENGTH), top + 15), colour)
        pen.text((_RIGHT, middle), f"{share:.0%}", _TEXT, _font(14), anchor="rm")
    pen.line((_BAR_FROM, _BARS_AT - 2, _BAR_FROM, _BARS_AT + 5 * _BAR_PITCH - 3), _PALE)


def _write(pen: ImageDraw.ImageDraw, top: int, left: str, right: str) -> None:
    pen.text((_LEFT, top), left, _TEXT, _font(15))
    pen.text((_RIGHT, top), right, _TEXT, _font(15), anchor="ra")


def _fitting(text: str) -> str:
    """The text, shortened to the width of the panel."""
    while _font(13).getlength(text) > SIZE[0] - _LEFT - 8:
        text = f"{text.rstrip('.')[:-1]}..."
    return text


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font
