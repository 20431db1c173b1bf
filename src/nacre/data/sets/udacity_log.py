"""`driving_log.csv` of the Udacity simulator: names of images, their times, and the steering."""

import csv
import math
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CAMERAS = ("center", "left", "right")
COLUMNS = (*CAMERAS, "steering", "throttle", "brake", "speed")  # of a log without a header
_STAMP = re.compile(r"(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d{3})(?!\d)")


@dataclass(frozen=True)
class DrivingLog:
    """Rows of a log in order of time, each image once."""

    names: dict[str, tuple[str, ...]]  # file names of each camera's n images, without folders; "" where missing
    line: NDArray[np.int64]  # [n] line of the file, for messages
    steering: NDArray[np.float32]  # [n] from -1, left, to 1, right
    seconds: NDArray[np.float64]  # [n] since the first image; never goes back
    began: datetime  # when the first image was taken
    notes: tuple[str, ...]  # what was left out or sorted


@dataclass(frozen=True)
class _Row:
    line: int
    images: tuple[str, ...]  # of `CAMERAS`
    steering: float
    taken: datetime


def read_log(path: Path, text: str) -> DrivingLog:
    """Read the text of the log at `path`, with or without a header.

    Folders of images are those of the recording machine, so they are dropped. Rows are sorted by time. Of rows
    that name the same centre image the first one counts: folds could not keep copies apart.
    """
    rows = _rows(path, text)
    if not rows:
        raise ValueError(f"{path} has no rows; wanted lines of {', '.join(COLUMNS)}")
    single = list({row.images[0]: row for row in reversed(rows)}.values())[::-1]
    ordered = sorted(single, key=lambda row: row.taken)
    notes = []
    if copies := len(rows) - len(single):
        notes.append(f"rows left out because their image was named before: {copies:,}")
    if ordered != single:
        notes.append("rows put in order of time")
    began = ordered[0].taken
    return DrivingLog(
        names={camera: tuple(row.images[i] for row in ordered) for i, camera in enumerate(CAMERAS)},
        line=np.array([row.line for row in ordered], np.int64),
        steering=np.array([row.steering for row in ordered], np.float32),
        seconds=np.array([(row.taken - began).total_seconds() for row in ordered], np.float64),
        began=began,
        notes=tuple(notes),
    )


def time_of(name: str) -> datetime | None:
    """When an image was taken, from its name; None if the name does not tell.

    Example:
        >>> time_of("center_2018_07_16_17_11_43_382.jpg").isoformat(timespec="milliseconds")
        '2018-07-16T17:11:43.382'
    """
    found = _STAMP.search(name)
    if found is None:
        return None
    year, month, day, hour, minute, second, milliseconds = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, milliseconds * 1000)  # no time zone is named
    except ValueError:  # a month 13
        return None


def file_name(path: str) -> str:
    r"""The last part of a path of any system.

    Example:
        >>> file_name(r"C:\Users\ada\IMG\center_1.jpg"), file_name(" IMG/left_1.jpg")
        ('center_1.jpg', 'left_1.jpg')
    """
    return path.replace("\\", "/").rsplit("/", 1)[-1].strip()


def _rows(path: Path, text: str) -> list[_Row]:
    reader = csv.reader(text.splitlines())
    columns: tuple[str, ...] = ()
    rows = []
    try:
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if not columns:
                columns, is_header = _columns(path, fields)
                if is_header:
                    continue
            rows.append(_row(f"{path}, line {reader.line_num}", reader.line_num, columns, fields))
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num} is no CSV: {error}") from None
    return rows


def _columns(path: Path, fields: list[str]) -> tuple[tuple[str, ...], bool]:
    """Names of the columns, and whether the first row gives them."""
    names = tuple(field.strip().lower() for field in fields)
    if "steering" not in names:
        return COLUMNS, False
    if "center" not in names:
        raise ValueError(f"{path}: the header must name center and steering, got {', '.join(names)}")
    return names, True


def _row(where: str, line: int, columns: tuple[str, ...], fields: list[str]) -> _Row:
    if len(fields) != len(columns):
        raise ValueError(
            f"{where}: wanted {len(columns)} fields ({', '.join(columns)}), got {len(fields)}; with some regional "
            "settings the simulator writes 0,5 for 0.5: record with a decimal point"
        )
    values = dict(zip(columns, fields, strict=True))
    images = tuple(file_name(values.get(camera, "")) for camera in CAMERAS)
    taken = time_of(images[0])
    if taken is None:
        raise ValueError(
            f"{where}: {images[0]!r} does not say when it was taken, which folds depend on; wanted a name such as "
            "center_2018_07_16_17_11_43_382.jpg, as the simulator gives"
        )
    return _Row(line, images, _steering(where, values["steering"]), taken)


def _steering(where: str, text: str) -> float:
    try:
        steering = float(text)
    except ValueError:
        steering = math.nan
    if not -1 <= steering <= 1:
        raise ValueError(f"{where}: steering must be a number from -1 to 1, got {text.strip()!r}")
    return steering
