"""Files of PRONOSTIA (FEMTO-ST, the IEEE PHM 2012 challenge): `acc_00001.csv`, ... and `temp_00001.csv`, ..."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nacre.data.rigs.rig import PRONOSTIA
from nacre.data.rigs.snapshot import BadFile, Snapshot, check_samples, numbers_of

_CLOCK = (24, 60, 60)  # hours, minutes and seconds are below these
DAY = 86_400.0  # seconds


def read_acceleration(path: Path) -> Snapshot:
    """One `acc_*.csv`: hour, minute, second, microsecond, horizontal, vertical; or the accelerations first.

    Fields are separated by commas, or by semicolons as in Bearing1_4. `start` counts from midnight.

    Raises:
        BadFile: If it holds something else.
    """
    rows = numbers_of(path)
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
    samples = check_samples(path, np.ascontiguousarray(samples), PRONOSTIA.samples)
    return Snapshot(samples, PRONOSTIA.rate, float(_seconds(clock[:1], 1e-6)[0]))


def read_temperature(paths: Iterable[Path]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All `temp_*.csv` of a run: seconds since midnight [n], as they are, and degrees Celsius [n].

    Rows are hour, minute, second, tenth of a second, temperature.

    Raises:
        BadFile: If one holds something else.
    """
    clocks, degrees = [np.empty(0)], [np.empty(0)]
    for path in paths:
        rows = numbers_of(path)
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
    days = np.cumsum(np.diff(seconds, prepend=seconds[:1]) < -DAY / 2)
    return seconds + DAY * days


def _is_clock(columns: NDArray[np.float64], parts: int) -> bool:
    """Whether columns [n, 4] are hour, minute, second, and parts of a second."""
    low, high = columns.min(0), columns.max(0)
    whole = (columns[:, :3] == np.floor(columns[:, :3])).all()
    return bool(whole and (low >= 0).all() and (high < [*_CLOCK, parts]).all())


def _seconds(clock: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    return clock[:, :4] @ np.array([3600.0, 60.0, 1.0, part])
