"""`Snapshot`: the samples of one file of a recording, checked."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

AXES = ("horizontal", "vertical")


class BadFile(ValueError):
    """A file that does not hold what it should; its message names the file. It can be left out on request."""


@dataclass(frozen=True)
class Snapshot:
    """What the sensors recorded without a pause.

    Attributes:
        samples: [n, 2] horizontal and vertical acceleration in g.
        rate: Samples a second.
        start: When the first sample was taken, in seconds: of the day, or since the recording began.
    """

    samples: NDArray[np.float64]
    rate: float
    start: float


def numbers_of(path: Path, skip: int = 0) -> NDArray[np.float64]:
    """[rows, columns] numbers of a text file, separated by comma, semicolon or blanks.

    Raises:
        BadFile: If it is empty, no text, or has rows of different length.
    """
    try:
        lines = path.read_text("ascii").splitlines()[skip:]
    except UnicodeDecodeError:
        raise BadFile(f"{path} is no text; wanted rows of numbers") from None
    if not any(line.strip() for line in lines):
        raise BadFile(f"{path} holds no numbers; it may be cut off, get it again")
    first = next(line for line in lines if line.strip())
    delimiter = ";" if ";" in first else "," if "," in first else None
    try:
        return np.loadtxt(lines, np.float64, delimiter=delimiter, ndmin=2, comments=None)
    except ValueError as error:
        raise BadFile(f"{path} must hold rows of numbers: {error}") from None


def check_samples(path: Path, samples: NDArray[np.float64], wanted: int | None) -> NDArray[np.float64]:
    """The samples [n, axes] of a file, if they are finite, vary, and are as many as wanted.

    Raises:
        BadFile: If not.
    """
    if wanted is not None and len(samples) != wanted:
        raise BadFile(
            f"{path} holds {len(samples):,} samples, its rig records {wanted:,}; it may be cut off, get it again"
        )
    bad = ~np.isfinite(samples)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise BadFile(
            f"{path}: {int(bad.sum()):,} samples are NaN or infinite, the first is number {row + 1:,} of the "
            f"{AXES[column]} axis"
        )
    for axis, column in zip(AXES, samples.T, strict=True):
        if (column == column[0]).all():
            raise BadFile(f"{path}: all samples of the {axis} axis are {column[0]:g}; was its sensor connected?")
    return samples
