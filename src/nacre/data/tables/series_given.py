"""Series as people hold them, arrays or frames, as rows with stamps: for forecasts and questions at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import there_are
from nacre.data.dataset import Dataset, Kind
from nacre.data.tables.arrays import ArrayRows, read_rows
from nacre.data.tables.columns import Clock, Columns
from nacre.data.tables.frames import are_frames, is_frame, pandas_of
from nacre.data.tables.given import SEQUENCE, TIME, Given, read_frame, regrouped
from nacre.data.tables.when import clock_of, seconds_by

if TYPE_CHECKING:
    import pandas as pd


class GivenSeries(NamedTuple):
    """Series, one after the other."""

    rows: ArrayRows
    clock: Clock
    names: tuple[str, ...]  # of the series
    time: str  # column of stamps
    group: str  # column that tells them apart

    @property
    def pieces(self) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float64]]]:
        """Values [T, F] and stamps [T] of each series."""
        cuts = self.rows.start[1:]
        return np.split(self.rows.values, cuts), np.split(self.rows.time, cuts)

    @property
    def step(self) -> float:
        """The median time from row to row."""
        steps = np.diff(self.rows.time)
        steps = np.delete(steps, self.rows.start[1:] - 1)
        return float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


def read_series(
    x: Any,  # noqa: ANN401
    time: Any,  # noqa: ANN401
    groups: Any = None,  # noqa: ANN401
    *,
    features: Sequence[str] | None = None,
    static: Sequence[str] = (),
    clock: Clock | None = None,
    gaps: bool = False,
) -> GivenSeries:
    """Series of arrays or frames.

    Args:
        x: [n, T, F], n items [T, F], a frame, or n frames.
        time: Stamps; of frames also the name of their column.
        groups: Of one frame, the column that tells its series apart; None if it is one series.
        features: Names of the columns that count; None for all, or numbered ones.
        static: Those that never change within a series.
        clock: How stamps become numbers; None to find out.
        gaps: Whether x may hold NaN.
    """
    names, when, which = None, TIME, SEQUENCE
    if is_frame(x):
        x, time, features, names, when, which = _of_frame(pandas_of(x), time, groups, features)
    elif are_frames(x):
        frames = [pandas_of(item) for item in x]
        if isinstance(time, str):
            when, time = time, [frame[_column(frame, "time", time)].to_numpy() for frame in frames]
        features = list(features or _numbers(frames[0], (when,)))
        x = [_values(frame, features) for frame in frames]
    elif isinstance(time, str):
        raise ValueError(f"time={time!r} names a column, but X holds arrays; give time as a list")
    clock = clock_of(time) if clock is None else clock
    rows = read_rows(x, None if time is None else seconds_by(clock, time), features, static, gaps=gaps)
    return GivenSeries(rows, clock, names or tuple(map(str, range(len(rows.length)))), when, which)


def read_forecasts(
    series: GivenSeries, labels: Sequence[str], target: int, given: Given
) -> tuple[Dataset, Columns]:
    """Windows of series, whose next rows are asked, and how new series are read in the same way."""
    import pandas as pd

    rows, name = series.rows, series.rows.features[target]
    frame = pd.DataFrame(rows.values, columns=list(rows.features))
    frame[series.time] = rows.time
    frame[series.group] = np.repeat(np.arange(len(rows.length)), rows.length)
    given = replace(given, features=rows.features)
    data, columns = read_frame(frame, name, Kind.FORECASTING, series.time, series.group, given)
    unit = "" if series.clock.origin is None else "seconds"
    return replace(regrouped(data, labels), time_unit=unit), replace(columns, clock=series.clock)


def new_series(x: Any, time: Any, columns: Columns) -> GivenSeries:  # noqa: ANN401
    """Series to answer for, read by the columns of training."""
    reading, frames = columns.reading, are_frames(x)
    one = is_frame(x)
    group = columns.group if one and columns.group in [str(name) for name in pandas_of(x).columns] else None
    when = columns.time if time is None and (one or (frames and columns.time in pandas_of(x[0]).columns)) else time
    features = columns.features if one or frames else None
    series = read_series(x, when, group, features=features, clock=columns.clock, gaps=reading.gaps)
    rows = series.rows
    if len(rows.features) != len(columns.features):
        raise ValueError(
            f"X has {len(rows.features)} features, but training had {len(columns.features)}: "
            f"{', '.join(columns.features[:8])}; give the same ones, in the same order"
        )
    return series._replace(rows=rows._replace(features=columns.features, static=columns.static_inputs))


def _of_frame(
    frame: pd.DataFrame,
    time: Any,  # noqa: ANN401
    groups: Any,  # noqa: ANN401
    features: Sequence[str] | None,
) -> tuple[list[NDArray], list[NDArray], list[str], tuple[str, ...], str, str]:
    import pandas as pd

    frame = frame.rename(columns=str)
    if not isinstance(time, str):
        raise ValueError(
            f"X is a frame, so time must be the name of its column of stamps, got {type(time).__name__}"
        )
    _column(frame, "time", time)
    group = SEQUENCE if groups is None else _column(frame, "groups", groups)
    code, names = (np.zeros(len(frame), int), ["all"]) if groups is None else pd.factorize(frame[group])
    chosen = list(features or _numbers(frame, (time, group)))
    table, stamps = _values(frame, chosen), frame[time].to_numpy()
    each = [np.flatnonzero(code == number) for number in range(len(names))]
    split = [table[rows] for rows in each], [stamps[rows] for rows in each]
    return *split, chosen, tuple(map(str, names)), time, group


def _column(frame: pd.DataFrame, argument: str, name: Any) -> str:  # noqa: ANN401
    if name not in frame.columns:
        raise ValueError(f"{argument}={name!r} is no column of X; {there_are(name, map(str, frame.columns))}")
    return name


def _numbers(frame: pd.DataFrame, without: Sequence[str]) -> list[str]:
    """Columns of numbers, but for some."""
    import pandas as pd

    return [str(c) for c in frame.columns if c not in without and pd.api.types.is_numeric_dtype(frame[c].dtype)]


def _values(frame: pd.DataFrame, features: Sequence[str]) -> NDArray[np.float64]:
    lost = [name for name in features if name not in frame.columns]
    if lost:
        raise ValueError(f"X lacks the column {lost[0]!r}; {there_are(lost[0], map(str, frame.columns))}")
    return frame[list(features)].to_numpy(np.float64, na_value=np.nan)
