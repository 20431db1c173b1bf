"""Raw files of the three rigs: PRONOSTIA (FEMTO-ST, the IEEE PHM 2012 challenge), XJTU-SY and HUST."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU

AXES = ("horizontal", "vertical")
_DAY = 86_400.0  # seconds
_MINUTE = XJTU.period or 0.0
_FEWEST = 1000  # samples that make a signal in a MAT file
_SLOWEST, _FASTEST = 100.0, 1e7  # Hz
_RATES = ("fs", "rate", "sampling_rate")  # variable names of a rate in a MAT file


class BadFile(ValueError):
    """A file with wrong contents; its message names the file. It can be left out on request."""


@dataclass(frozen=True)
class Snapshot:
    """What the sensors recorded without a pause: the checked samples of one file."""

    samples: NDArray[np.float64]  # [n, 2] horizontal and vertical acceleration in g
    rate: float  # samples a second
    start: float  # when the first sample was taken, in seconds: of the day, or since the recording began


def read_acceleration(path: Path) -> Snapshot:
    """PRONOSTIA's `acc_*.csv`: hour, minute, second, microsecond, horizontal, vertical; or accelerations first.

    Fields are separated by commas, or by semicolons as in Bearing1_4. `start` counts from midnight.
    """
    rows = _numbers_of(path)
    if rows.shape[1] != 6:
        raise BadFile(
            f"{path} has {rows.shape[1]} columns; wanted hour, minute, second, microsecond, horizontal and "
            "vertical acceleration"
        )
    if _is_clock(rows[:, :4], 1_000_000):
        clock, samples = rows[:, :4], rows[:, 4:]
    elif _is_clock(rows[:, 2:], 1_000_000):
        clock, samples = rows[:, 2:], rows[:, :2]
    else:
        raise BadFile(
            f"{path}: neither the first four columns nor the last four are hour, minute, second and microsecond; "
            "are columns swapped?"
        )
    samples = _checked(path, np.ascontiguousarray(samples), PRONOSTIA.samples)
    return Snapshot(samples, PRONOSTIA.rate, float(_seconds(clock[:1], 1e-6)[0]))


def read_temperature(paths: Iterable[Path]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """PRONOSTIA's `temp_*.csv` of one bearing: seconds since midnight [n], and degrees Celsius [n].

    Rows are hour, minute, second, tenth of a second, temperature.
    """
    clocks, degrees = [np.empty(0)], [np.empty(0)]
    for path in paths:
        rows = _numbers_of(path)
        if rows.shape[1] != 5 or not _is_clock(rows[:, :4], 10):
            raise BadFile(f"{path}: wanted hour, minute, second, tenth of a second, temperature in each row")
        if not np.isfinite(rows[:, 4]).all():
            raise BadFile(f"{path}: a temperature is NaN or infinite")
        clocks.append(_seconds(rows, 0.1))
        degrees.append(rows[:, 4])
    return np.concatenate(clocks), np.concatenate(degrees)


def past_midnight(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of day [n] in order -> seconds since the first day began: a step back by half a day is a new day.

    Example:
        >>> past_midnight(np.array([86_390.0, 0.0, 10.0])).tolist()
        [86390.0, 86400.0, 86410.0]
    """
    days = np.cumsum(np.diff(seconds, prepend=seconds[:1]) < -_DAY / 2)
    return seconds + _DAY * days


def read_minute(path: Path) -> Snapshot:
    """XJTU-SY's `1.csv`, `2.csv`, ..., one each minute; the header names the axes, in any order.

    `start` counts from the beginning of minute 1, where the first file should start.
    """
    with path.open("rb") as file:
        head = file.readline(200).decode("ascii", "replace").strip().lower()
    names = head.replace('"', "").split(",")
    places = [[i for i, name in enumerate(names) if name.startswith(axis)] for axis in AXES]
    if len(names) != 2 or any(len(found) != 1 for found in places):
        raise BadFile(
            f"{path} must begin with Horizontal_vibration_signals,Vertical_vibration_signals, got {head[:60]!r}"
        )
    rows = _numbers_of(path, skip=1)
    if rows.shape[1] != 2:
        raise BadFile(f"{path} has {rows.shape[1]} columns below its header of 2")
    samples = rows[:, [found[0] for found in places]]
    return Snapshot(_checked(path, samples, XJTU.samples), XJTU.rate, (int(path.stem) - 1) * _MINUTE)


def read_mat(path: Path, rate: float | None = None) -> Snapshot:
    """The one signal of a MAT file, as HUST has one for each bearing and load. Needs scipy.

    It has one axis or two; one axis stands for both. `rate` is used if the file has no sampling rate.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(str(path), squeeze_me=False, struct_as_record=False)
    except NotImplementedError:
        raise BadFile(f"{path} is a MAT file of version 7.3; save it as version 7 (MATLAB: save -v7)") from None
    # What scipy raises for a file that is cut off or no MAT file at all.
    except (MatReadError, ValueError, TypeError, OSError, KeyError, IndexError, MemoryError) as error:
        raise BadFile(f"{path} is damaged or no MAT file: {error}") from None
    numbers = {k: v for k, v in found.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiu"}
    signals = {name: value for name, value in numbers.items() if value.size >= _FEWEST}
    if len(signals) != 1:
        names = ", ".join(signals) or "none"
        raise BadFile(f"{path} must hold one signal of {_FEWEST:,} samples or more, found {names}")
    ((name, signal),) = signals.items()
    if signal.ndim != 2 or min(signal.shape) > 2:
        raise BadFile(f"{path}: {name} has shape {signal.shape}; wanted samples of one axis or two")
    columns = signal if signal.shape[0] >= signal.shape[1] else signal.T  # [n, 1] or [n, 2]
    samples = np.ascontiguousarray(np.broadcast_to(columns, (len(columns), 2)), np.float64)
    return Snapshot(_checked(path, samples, None), _rate(path, numbers, rate), 0.0)


def _rate(path: Path, numbers: dict[str, NDArray[np.float64]], given: float | None) -> float:
    """The sampling rate in the file, else the given one."""
    for name, value in numbers.items():
        if name.lower() in _RATES:
            if value.size == 1 and _SLOWEST <= float(value.item()) <= _FASTEST:
                return float(value.item())
            raise BadFile(f"{path}: {name} must be one sampling rate in Hz, got {value.ravel()[:3].tolist()}")
    if given is None:
        raise BadFile(f"{path} does not say how fast it was sampled; give --rate, {HUST.rate:g} for HUST")
    return given


def _is_clock(columns: NDArray[np.float64], parts: int) -> bool:
    """Whether columns [n, 4] are hour, minute, second, and parts of a second."""
    low, high = columns.min(0), columns.max(0)
    whole = (columns[:, :3] == np.floor(columns[:, :3])).all()
    return bool(whole and (low >= 0).all() and (high < [24, 60, 60, parts]).all())


def _seconds(clock: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    return clock[:, :4] @ np.array([3600.0, 60.0, 1.0, part])


def _numbers_of(path: Path, skip: int = 0) -> NDArray[np.float64]:
    """[rows, columns] numbers of a text file, separated by comma, semicolon or blanks."""
    try:
        lines = path.read_text("ascii").splitlines()[skip:]
    except UnicodeDecodeError:
        raise BadFile(f"{path} is no text; wanted rows of numbers") from None
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise BadFile(f"{path} holds no numbers; it may be cut off, get it again")
    delimiter = ";" if ";" in first else "," if "," in first else None
    try:
        return np.loadtxt(lines, np.float64, delimiter=delimiter, ndmin=2, comments=None)
    except ValueError as error:
        raise BadFile(f"{path} must hold rows of numbers: {error}") from None


def _checked(path: Path, samples: NDArray[np.float64], wanted: int | None) -> NDArray[np.float64]:
    """The samples [n, axes] of a file, if they are finite, vary, and are as many as wanted."""
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
