"""One long series read from a table, and its windows, which never span a gap."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from nacre._util.checks import real, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import FormContents

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Series:
    """Rows of one series in order of time."""

    name: str  # of the data set
    values: np.ndarray  # [N, F] float32
    seconds: np.ndarray  # [N] int64 stamps, ascending
    step: int  # seconds between rows; more or less than that is a gap
    features: tuple[str, ...]  # names of the columns
    column: int  # the one that is forecast
    target: str  # its short name
    notes: tuple[str, ...] = ()  # what was left out or repaired


def forecasting(
    series: Series, source: FormContents, lookback: int, horizon: int, keep: float = 1.0, seed: int = 0
) -> Dataset:
    """All windows of a series, one at every row, the last one included.

    A window is `lookback` rows of input and the `horizon` rows after them as target. Windows overlap, so split
    them by time. Input rows are stored once; only targets are copied. With `keep` below 1, all other rows are lost
    as inputs: windows end at rows that are kept, and have as many rows as were kept of their time.
    """
    whole("lookback", lookback, 1)
    whole("horizon", horizon, 1)
    real("keep", keep, 0.0, 1.0, open_low=True)
    start = window_starts(series.seconds, series.step, lookback + horizon)
    if len(start) == 0:
        raise ValueError(
            f"{series.name}: lookback + horizon = {lookback + horizon:,} is longer than any stretch without a gap "
            f"in its {len(series.seconds):,} rows; use shorter windows"
        )
    gaps = int((np.diff(series.seconds) != series.step).sum())
    lost = max(len(series.seconds) - lookback - horizon + 1, 0) - len(start)
    gap_note = f"gaps in time: {gaps:,}; windows across them, left out: {lost:,}"
    values = torch.from_numpy(series.values)
    time = torch.from_numpy((series.seconds - series.seconds[0]) / 3600.0)  # hours, float64
    ahead = values[:, series.column].unfold(0, horizon, 1)  # [N - horizon + 1, horizon], a view
    first = torch.from_numpy(start)
    last = first + lookback - 1
    length = torch.full_like(first, lookback)
    y = ahead[last + 1]
    if keep < 1:
        draw = torch.rand(len(values), generator=torch.Generator().manual_seed(whole("seed", seed, 0)))
        kept = draw < keep
        number = kept.cumsum(0)  # of kept rows up to each row
        ends = kept[last]  # windows whose last row is kept
        first, last, y = first[ends], last[ends], y[ends]
        first = number[first] - kept[first].long()  # kept rows before the window
        length = number[last] - first
        values, time = values[kept], time[kept]
    return Dataset(
        name=series.name,
        kind=Kind.FORECASTING,
        values=values,
        time=time,
        start=first,
        length=length,
        y=y,
        group=torch.zeros_like(first),
        groups=(series.name,),
        features=series.features,
        targets=tuple(f"{series.target}+{ahead}" for ahead in range(1, horizon + 1)),
        target_column=series.column,
        window=(lookback, series.step / 3600.0),
        time_unit="hours",
        form=source.form,
        files=source.sha256,
        notes=series.notes if gaps == 0 else (*series.notes, gap_note),
    )


def window_starts(seconds: np.ndarray, step: int, size: int) -> np.ndarray:
    """First rows of all windows of `size` rows that are `step` seconds apart.

    Example:
        >>> window_starts(np.array([0, 10, 20, 50, 60, 70]), step=10, size=2)
        array([0, 1, 3, 4])
    """
    stretch = np.concatenate([[0], np.cumsum(np.diff(seconds) != step)])  # [N], one number for each stretch
    if size > len(seconds):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(stretch[: len(stretch) - size + 1] == stretch[size - 1 :])


def read_table(data: bytes, path: Path, columns: Sequence[str]) -> tuple[pd.Series, np.ndarray]:
    """Stamps [N] and numbers [N, F] of a table whose header starts with these names, that of the stamps first."""
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(data), encoding="utf-8", encoding_errors="replace")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path} is no table with a header: {str(error).strip()}") from None
    came = [str(name) for name in frame.columns[: len(columns)]]
    if came != list(columns):
        raise ValueError(f"{path}: columns must start {', '.join(columns)}; got {', '.join(came)}")
    if frame.empty:
        raise ValueError(f"{path} has a header and no rows")
    numeric = [pd.Series(pd.to_numeric(frame[name], errors="coerce")) for name in columns[1:]]
    numbers = np.stack([column.to_numpy(dtype=np.float64) for column in numeric], 1)  # [N, F]
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        name = columns[1 + column]
        raise ValueError(f"{path}, line {row + 2}: {name!r} must be a number, got {str(frame[name].iloc[row])!r}")
    return pd.Series(frame[columns[0]]), numbers


def read_stamps(column: pd.Series, form: str, path: Path) -> np.ndarray:
    """[N] int64 seconds since 1970 of stamps in this format of strptime."""
    import pandas as pd

    stamps = pd.to_datetime(column, format=form, errors="coerce")
    bad = stamps.isna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{path}, line {row + 2}: time {column.iloc[row]!r} is not written as {form}")
    return stamps.to_numpy().astype("datetime64[s]").astype(np.int64)
