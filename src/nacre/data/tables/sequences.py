"""Rows of a CSV file sorted by group, their stamps as numbers, and the sequences cut out of them."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import Missing
from nacre.data.tables.cells import Table
from nacre.data.tables.columns import Clock, Columns
from nacre.data.tables.gaps import spread_static
from nacre.data.tables.reading import Duplicates, Reading, one_hot

if TYPE_CHECKING:
    import pandas as pd

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap]\.?[Mm]\.?)?")


@dataclass(frozen=True)
class CsvRows:
    """Rows sorted by group, in the file's order within each."""

    row: NDArray[np.int64]  # [N] place of each row in the file, blank lines and header not counted
    time: NDArray[np.float64]  # [N] stamps, ascending within each group
    group: NDArray[np.int64]  # [N] index into `groups`, ascending
    groups: tuple[str, ...]  # names, in the order in which they first appear in the file

    @property
    def size(self) -> NDArray[np.int64]:
        """[G] rows of each group."""
        return np.bincount(self.group, minlength=len(self.groups))

    @property
    def first(self) -> NDArray[np.int64]:
        """[G] where each group begins."""
        return np.cumsum(self.size) - self.size

    @property
    def position(self) -> NDArray[np.int64]:
        """[N] rows of the same group before each row."""
        return np.arange(len(self.row)) - self.first[self.group]

    def only(self, kept: NDArray[np.bool_]) -> CsvRows:
        """The rows where `kept` [N] is True; groups without a row are dropped."""
        present, group = np.unique(self.group[kept], return_inverse=True)
        names = tuple(self.groups[number] for number in present)
        return CsvRows(self.row[kept], self.time[kept], group, names)

    def only_at(self, place: NDArray[np.int64]) -> CsvRows:
        """The rows at these places, of which every group has one."""
        return CsvRows(self.row[place], self.time[place], self.group[place], self.groups)

    def steps(self) -> NDArray[np.float64]:
        """Times from row to row, within groups, without those between rows of one stamp."""
        return np.diff(self.time)[self.is_step]

    @property
    def is_step(self) -> NDArray[np.bool_]:
        """[N - 1] whether a row is followed by a later one of its group."""
        return (np.diff(self.group) == 0) & (np.diff(self.time) > 0)


def order_rows(
    table: Table, time: str, group: str | None, stamps: NDArray[np.float64], reading: Reading
) -> CsvRows:
    """Sort rows by group, without one into a group "all", and by stamps [N] if so wanted.

    Refuses stamps that go back or repeat within a group, unless `reading` allows it.
    """
    import pandas as pd

    if group is None:
        code, groups = np.zeros(len(stamps), np.int64), ("all",)
    else:
        code, names = pd.factorize(table.filled(group, "group"))  # in the order of appearance
        groups = tuple(map(str, names))
    row = np.lexsort((stamps, code)) if reading.sort else np.argsort(code, kind="stable")
    rows = CsvRows(row, stamps[row], code[row], groups)
    step = np.diff(rows.time)
    late = (step < 0 if reading.duplicates != Duplicates.ERROR else step <= 0) & (np.diff(rows.group) == 0)
    if late.any():
        raise _out_of_order(table, time, group, rows, late)
    return rows


def _out_of_order(table: Table, time: str, group: str | None, rows: CsvRows, late: NDArray) -> ValueError:
    here, more = int(late.argmax()) + 1, int(late.sum()) - 1
    cells = table.cells(time)
    now, before = cells.iloc[rows.row[here]], cells.iloc[rows.row[here - 1]]
    same = rows.time[here] == rows.time[here - 1]
    happened = f"repeats the stamp {now}" if same else f"goes back from {before} to {now}"
    equal = "keep one row for each stamp, or say duplicates='keep' (each is a step) or duplicates='mean'"
    fix = equal if same else f"sort the rows by {time!r}, or say sort=True (sort = true in a recipe)"
    where = "" if group is None else f" in group {rows.groups[rows.group[here]]!r}"
    other = ", or name the column that tells the series apart (group=...)" if group is None else ""
    others = f" ({more:,} more row{'s' if more > 1 else ''} like that)" if more else ""
    place = table.place(int(rows.row[here]))
    return ValueError(f"{place}: time {time!r} {happened}{where}; {fix}{other}{others}")


def read_clock(table: Table, time: str) -> tuple[Clock, NDArray[np.float64]]:
    """How to read the stamps of a file, and the stamps [N]: numbers, or seconds since the earliest date.

    Dates are ISO, or all in one other format that pandas knows. If it stays open whether 01.02.2020 is in January
    or in February, the file is refused.
    """
    table.require("time", time)
    if table.is_dates(time):
        clock = Clock(_origin(table.cells(time), str(table.cells(time).iloc[0])))
        return clock, stamps_by(clock, table, time)
    if not table.is_text(time):
        return Clock(), table.numbers(time, "time")
    example = str(table.cells(time).iloc[0])
    if _TIME_OF_DAY.fullmatch(example.strip()):
        raise ValueError(
            f"{table.path}: time {time!r} is a time of day without a date ({example!r}); "
            "add the date, or write seconds"
        )
    attempts = {form: _dates(table, time, form) for form in _forms(table, time, example)}
    form = min(attempts, key=lambda form: attempts[form].isna().sum())
    whole = [dates for dates in attempts.values() if not dates.isna().any()]
    if len(whole) > 1 and not whole[0].equals(whole[1]):
        raise ValueError(
            f"{table.path}: time {time!r} can be read with the day or the month first (such as {example!r}); "
            "write ISO dates, such as 2020-12-31 23:59"
        )
    clock = Clock(_origin(attempts[form], example), form)
    return clock, stamps_by(clock, table, time)


def stamps_by(clock: Clock, table: Table, time: str) -> NDArray[np.float64]:
    """[N] stamps of a file, read by a known clock."""
    import pandas as pd

    table.require("time", time)
    if clock.origin is None:
        return table.numbers(time, "time")
    if not (table.is_dates(time) or table.is_text(time)):
        raise ValueError(f"{table.path}: time {time!r} holds numbers; dates were wanted, as in {clock.origin}")
    table.filled(time, "time")
    dates = _dates(table, time, clock.form)
    lost = dates.isna().to_numpy()
    if lost.any():
        raise table.bad_cells(time, lost, f"a date in the form {clock.form}", "time")
    return (dates - pd.to_datetime(clock.origin, utc=True)).dt.total_seconds().to_numpy(np.float64)


def _forms(table: Table, time: str, example: str) -> list[str]:
    """Formats that dates may have: ISO, or that of the first date, with the day or the month first."""
    from pandas.tseries.api import guess_datetime_format

    if not _dates(table, time, Clock.form).isna().all():
        return [Clock.form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the day and the month
        guesses = [guess_datetime_format(example, dayfirst=day_first) for day_first in (False, True)]
    return [form for form in guesses if form is not None] or [Clock.form]


def _dates(table: Table, time: str, form: str) -> pd.Series:
    """[N] dates in UTC, NaT where a cell does not have this format."""
    import pandas as pd

    if table.is_dates(time):
        return pd.to_datetime(table.cells(time), utc=True)
    return pd.to_datetime(table.cells(time).astype(str), format=form, errors="coerce", utc=True)


def _origin(dates: pd.Series, example: str) -> str:
    """The earliest date in ISO form, with a time zone only if the file has one."""
    import pandas as pd

    earliest = dates.min()
    if pd.isna(earliest):  # no date at all; `stamps_by` refuses the first cell
        return pd.Timestamp(0).isoformat()
    try:
        zoned = pd.Timestamp(example).tzinfo is not None
    except ValueError:
        zoned = False
    return (earliest if zoned else earliest.tz_localize(None)).isoformat()


def stamps_from(clock: Clock, numbers: NDArray[np.float64]) -> NDArray | pd.DatetimeIndex:
    """The inverse of `stamps_by`: dates, to the microsecond, if the clock reads dates."""
    import pandas as pd

    if clock.origin is None:
        return numbers
    since = pd.to_timedelta(np.rint(numbers * 1e6).astype(np.int64), unit="us")
    return pd.DatetimeIndex(pd.Timestamp(clock.origin) + since)


def feature_values(table: Table, rows: CsvRows, columns: Columns) -> NDArray[np.float32]:
    """[N, F] the inputs, in the order of the rows."""
    values = np.empty((len(rows.row), len(columns.inputs)), np.float32)
    place = 0
    for name in columns.features:
        if table.gaps and columns.reading.is_events and name not in columns.reading.static:
            values[:, place], place = np.nan, place + 1  # a variable, which is no column
            continue
        table.require("features", name)
        known = columns.vocabulary.get(name)
        block = table.numbers(name)[:, None] if known is None else one_hot(table, name, known)
        values[:, place : place + block.shape[1]] = block[rows.row]
        place += block.shape[1]
    static = columns.static_inputs
    changed = spread_static(values, rows.first, static)
    if changed is not None:
        row, column = changed
        raise ValueError(
            f"{table.place(int(rows.row[row]))}: static: {columns.inputs[column]!r} changes within group "
            f"{rows.groups[rows.group[row]]!r}; leave it out of static"
        )
    hot = list(columns.one_hot)
    if hot and table.gaps:
        values[:, hot] = np.nan_to_num(values[:, hot])  # a name that is missing is like no name
    return values


def cut_sequences(rows: CsvRows, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[n] first rows and [n] lengths: each group is a sequence, or is cut into pieces; the last may be shorter."""
    if not columns.pieces:
        return rows.first, rows.size
    position, length = rows.position, columns.lookback
    start = np.flatnonzero(position % length == 0)
    rest = rows.size[rows.group[start]] - position[start]
    return start, np.minimum(rest, length)


def dataset_of(
    table: Table,
    columns: Columns,
    rows: CsvRows,
    values: NDArray[np.float32],
    cut: tuple[NDArray, NDArray],
    y: Tensor,
) -> Dataset:
    """The data set of a file, for training and for prediction; `cut` is that of `cut_sequences`."""
    start, length = cut
    inputs = columns.inputs
    forecast = columns.kind is Kind.FORECASTING
    return Dataset(
        name=table.path.name.removesuffix(".gz").removesuffix(".csv"),
        kind=columns.kind,
        values=torch.from_numpy(values),
        time=torch.from_numpy(rows.time),
        start=torch.from_numpy(start),
        length=torch.from_numpy(length),
        y=y,
        group=torch.from_numpy(rows.group[start]),
        groups=rows.groups,
        features=inputs,
        one_hot=columns.one_hot,
        static=columns.static_inputs,
        missing=Missing.EVENTS if columns.reading.is_events else Missing.ERROR,
        classes=columns.classes,
        targets=columns.targets,
        target_column=inputs.index(columns.target[0]) if forecast else None,
        time_unit="" if columns.clock.origin is None else "seconds",
        form="your own",
        files={table.path.name: table.sha256} if table.sha256 else {},
    )
