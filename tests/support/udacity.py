"""Drives of the Udacity simulator, made up for tests."""

import csv
import io
import zipfile
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

BEGAN = datetime(2018, 7, 16, 17, 11, 43, 382_000)
CAMERAS = ("center", "left", "right")
HEADER = ["center", "left", "right", "steering", "throttle", "brake", "speed"]


def image_file(shade, size=(320, 160), kind="JPEG") -> bytes:
    """An image file of one shade of grey, or of an array of pixels."""
    return _file(Image.fromarray(shade), kind) if isinstance(shade, np.ndarray) else _grey(shade, size, kind)


@cache
def _grey(shade, size, kind) -> bytes:
    return _file(Image.new("RGB", size, (shade,) * 3), kind)


def _file(image, kind) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def name_of(camera: str, second: float) -> str:
    """The name that the simulator gives to an image."""
    taken = BEGAN + timedelta(seconds=second)
    return f"{camera}_{taken:%Y_%m_%d_%H_%M_%S}_{taken.microsecond // 1000:03d}.jpg"


def moments(count=60, rate=10.0) -> list[float]:
    """Seconds at which images are taken, without a pause."""
    return [i / rate for i in range(count)]


def shade_of(row: int, camera: str = "center") -> int:
    """The shade of the image of a moment; that of each camera has its own."""
    return 3 * row + CAMERAS.index(camera)


def steering_of(row: int) -> float:
    """Steering at a moment."""
    return round(((row * 7) % 21 - 10) / 10, 3)


def write_log(path: Path, seconds, path_of="IMG/{}".format, header=True, steering=steering_of) -> None:
    """Write a log whose images have paths of any form."""
    rows = [
        [*(path_of(name_of(camera, second)) for camera in CAMERAS), steering(row), 0.5, 0, 30.1]
        for row, second in enumerate(seconds)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(([HEADER] if header else []) + rows)


def write_images(folder: Path, seconds, cameras=("center",)) -> None:
    """Write images as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for camera in cameras:
        for row, second in enumerate(seconds):
            (folder / name_of(camera, second)).write_bytes(image_file(shade_of(row, camera)))


def write_zip(path: Path, seconds, below="IMG/") -> None:
    """Write images of the centre camera into a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for row, second in enumerate(seconds):
            archive.writestr(below + name_of("center", second), image_file(shade_of(row)))


def record(folder: Path, seconds=None, cameras=("center",), **log) -> Path:
    """A whole recording: its log, and its images in `IMG`."""
    seconds = moments() if seconds is None else seconds
    write_images(folder / "IMG", seconds, cameras)
    write_log(folder / "driving_log.csv", seconds, **log)
    return folder
