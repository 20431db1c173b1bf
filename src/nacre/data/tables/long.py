"""Long tables, one row for each observed value: made rows of one stamp, or kept as events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nacre.data.tables.cells import Table
from nacre.data.tables.columns import Columns
from nacre.data.tables.reading import Duplicates, Reading, runs_of_equal
from nacre.data.tables.sequences import CsvRows, order_rows

if TYPE_CHECKING:
    import pandas as pd

MOST_VARIABLES = 1000


@dataclass(frozen=True)
class Observations:
    """What was observed, in the order of the rows that it belongs to.

    Attributes:
        row: [M] rows of the table of stamps, ascending.
        variable: [M] what was observed, an index into `names`.
        value: [M] its value, float32.
        names: The variables.
    """

    row: NDArray[np.int32]
    variable: NDArray[np.int32]
    value: NDArray[np.float32]
    names: tuple[str, ...]


def read_long(
    table: Table,
    time: str,
    group: str | None,
    stamps: NDArray[np.float64],
    reading: Reading,
    names: tuple[str, ...] | None,
    targets: tuple[str, ...] = (),
) -> tuple[Table, Observations]:
    """A table with one row for each stamp of each group, without `variable` and `value`, and what these say.

    Rows of a group are sorted by their stamps. What other columns hold at a stamp is the first filled cell there;
    filled cells of inputs and targets must agree.

    Args:
        table: The long table.
        time: Its column of stamps.
        group: Its column of groups; None for one group.
        stamps: [N] its stamps as numbers.
        reading: How it is read.
        names: The variables that count, in order; None for all, sorted.
        targets: Columns to predict.
    """
    code, names = _variables(table, reading.variable, names)
    rows = order_rows(table, time, group, stamps, Reading(sort=True, duplicates=Duplicates.KEEP))
    first, row = runs_of_equal(rows.group, rows.time), rows.row
    run = np.repeat(np.arange(len(first), dtype=np.int32), np.diff(np.append(first, len(row))))
    del rows  # columns of millions of rows go as soon as they can
    code, value = code[row], table.numbers(reading.value, "value").astype(np.float32)[row]
    there = (code >= 0) & ~np.isnan(value)
    found = Observations(run[there], code[there], value[there], names)
    del code, value
    if reading.duplicates != Duplicates.KEEP:
        found = _once(table, found, row, there, reading)
    others = [name for name in table.frame.columns if name not in (reading.variable, reading.value)]
    frame = table.frame[others].iloc[row[first]].reset_index(drop=True)
    for name in others:
        if name not in (time, group):
            cells = table.cells(name).iloc[row]
            _first_filled(frame, name, cells, run)
            if name in (*reading.beside, *targets):
                _refuse_two(table, name, row, cells, frame[name].iloc[run])
    clash = next((name for name in names if name in others), None)
    if clash is not None:
        raise ValueError(f"{table.path}: {clash!r} is a column and a variable; rename one of them")
    return replace(table, frame=frame, origin=row[first]), found


def with_columns(table: Table, found: Observations) -> Table:
    """The table of stamps with a column for each variable, empty where it was not observed."""
    import pandas as pd

    wide = np.full((len(table.frame), len(found.names)), np.nan, np.float32)
    wide[found.row, found.variable] = found.value
    columns = pd.DataFrame(wide, columns=list(found.names), copy=False)
    return replace(table, frame=pd.concat([table.frame, columns], axis=1))


def event_rows(
    columns: Columns, rows: CsvRows, others: NDArray[np.float32], found: Observations
) -> tuple[CsvRows, NDArray[np.float32]]:
    """Rows that are events, and [M, 2] the input and the value of each.

    Static inputs come with the first row of their group, before what was observed there. A group of which nothing
    was observed is one event without a value.

    Args:
        columns: What the columns are.
        rows: The rows of the table of stamps.
        others: [R, F] static inputs of these rows, at their places among all inputs.
        found: What was observed, by rows of that table.
    """
    place = np.empty(len(rows.row), np.int32)
    place[rows.row] = np.arange(len(rows.row))  # where each row of the table lies among `rows`
    static = np.array(columns.static_inputs, np.int64)
    hot = np.isin(static, columns.one_hot)
    values = others[rows.first][:, static]  # [G, S]
    group, column = np.nonzero(~np.isnan(values) & (~hot | (values > 0)))
    shift = np.array([columns.inputs.index(name) for name in found.names], np.int32)
    first = rows.first.astype(np.int32)
    speaks = np.zeros(len(rows.groups), bool)
    speaks[group], speaks[rows.group[place[found.row]]] = True, True
    silent = np.flatnonzero(~speaks)
    row = np.concatenate([first[group], first[silent], place[found.row]])
    order = np.argsort(row, kind="stable")
    row = row[order]
    told = np.empty((len(row), 2), np.float32)
    told[:, 0] = np.concatenate([static[column], np.zeros_like(silent), shift[found.variable]])[order]
    told[:, 1] = np.concatenate([values[group, column], np.full(len(silent), np.nan), found.value])[order]
    return CsvRows(rows.row[row], rows.time[row], rows.group[row], rows.groups), told


def _variables(
    table: Table, name: str, known: tuple[str, ...] | None
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """[N] what each row observed, -1 for none of the variables that count, and their names."""
    import pandas as pd

    code, found = pd.factorize(table.filled(name, "variable").astype(str))
    listed = [str(variable) for variable in found]
    names = tuple(sorted(listed)) if known is None else known
    lost = [variable for variable in names if variable not in set(listed)]
    if known is not None and len(lost) == len(names):
        raise ValueError(
            f"{table.path}: column {name!r} holds none of the variables {', '.join(map(repr, names[:20]))}; "
            f"it holds {', '.join(map(repr, listed[:20]))}"
        )
    if len(names) > MOST_VARIABLES:
        raise ValueError(
            f"{table.path}: column {name!r} has {len(names):,} different variables, at most {MOST_VARIABLES:,} "
            "can be inputs; is it the right column?"
        )
    number = {variable: place for place, variable in enumerate(names)}
    return np.array([number.get(variable, -1) for variable in listed], np.int32)[code], names


def _once(
    table: Table, found: Observations, row: NDArray[np.int64], there: NDArray[np.bool_], reading: Reading
) -> Observations:
    """Each variable once at each stamp: the mean of its values, or refused if there are several.

    Args:
        table: The long table.
        found: What was observed.
        row: [N] the rows of the table in order.
        there: [N] bool, which of them observed it.
        reading: How the table is read.
    """
    cell = found.row.astype(np.int64) * len(found.names) + found.variable
    ordered = np.sort(cell)
    if not (ordered[1:] == ordered[:-1]).any():
        return found
    order = np.argsort(cell, kind="stable")
    twice = np.flatnonzero(np.diff(cell[order]) == 0)
    if reading.duplicates == Duplicates.ERROR:
        here = order[twice[0] + 1]
        more = f" ({len(twice) - 1:,} more rows like that)" if len(twice) > 1 else ""
        place, name = table.place(int(row[there][here])), found.names[found.variable[here]]
        raise ValueError(
            f"{place}: {name!r} has a value at this stamp already; keep one row, or say duplicates='mean', or "
            f"duplicates='keep' with missing='events'{more}"
        )
    first = np.flatnonzero(np.diff(cell[order], prepend=-1))
    sums = np.add.reduceat(found.value[order].astype(np.float64), first)
    value = (sums / np.diff(np.append(first, len(order)))).astype(np.float32)
    kept = order[first]
    return Observations(found.row[kept], found.variable[kept], value, found.names)


def _first_filled(frame: pd.DataFrame, name: str, cells: pd.Series, run: NDArray[np.int32]) -> None:
    """Fill the empty cells of a column by the first filled one of the same stamp."""
    empty = frame[name].isna().to_numpy()
    there = cells.notna().to_numpy() & empty[run]
    if there.any():
        runs, first = np.unique(run[there], return_index=True)
        column = frame[name].copy()
        column.iloc[runs] = cells.to_numpy()[there][first]
        frame[name] = column


def _refuse_two(table: Table, name: str, row: NDArray[np.int64], cells: pd.Series, one: pd.Series) -> None:
    """Refuse a filled cell of a column that is not what its stamp has; rows [N] of the table, cells, and these."""
    differs = cells.notna().to_numpy() & (cells.to_numpy() != one.to_numpy())
    if differs.any():
        here = int(differs.argmax())
        raise ValueError(
            f"{table.place(int(row[here]))}: {name!r} is {cells.iloc[here]} here and {one.iloc[here]} in another "
            "row of the same stamp; keep the right one"
        )
