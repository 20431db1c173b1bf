"""`read_new`: a CSV file without answers, read like the training file, and a table for the predictions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.data.tables.cells import Table, read_table
from nacre.data.tables.columns import Columns
from nacre.data.tables.gaps import settle
from nacre.data.tables.long import event_rows, read_long, with_columns
from nacre.data.tables.reading import Duplicates, means, runs_of_equal
from nacre.data.tables.sequences import (
    CsvRows,
    cut_sequences,
    dataset_of,
    feature_values,
    order_rows,
    stamps_by,
    stamps_from,
)

if TYPE_CHECKING:
    import pandas as pd


def read_new(path: str | os.PathLike[str], columns: Columns) -> tuple[Dataset, pd.DataFrame]:
    """Read a file to predict on, by the columns of the training file.

    The target column may be missing and is ignored; only a forecast needs it, for its past. In forecasting each
    group is one sequence: its last `lookback` rows, or all if it has fewer.

    Returns:
        Sequences whose answers are all unscored (`UNSCORED` or NaN), and a table with one row for each answer:

        | kind | rows | columns |
        |---|---|---|
        | classification, regression | sequences | group |
        | of each step | rows of `Dataset.values` | group, time; the index is the row of the file |
        | forecasting | `horizon` for each sequence | group, time, which continues by the group's median step |

        The columns are named as in the file; without groups, group is left out.

    Example:
        >>> from nacre.data.tables.csv_dataset import read_csv_task
        >>> series = ["day,sales", *(f"{day},{day % 7}.5" for day in range(30))]
        >>> _ = (tmp / "sales.csv").write_text(chr(10).join(series))
        >>> _, columns = read_csv_task(tmp / "sales.csv", time="day", target="sales", lookback=7, horizon=2)
        >>> data, answers = read_new(tmp / "sales.csv", columns)
        >>> data.batch(torch.tensor([0])).time.tolist(), answers["day"].tolist()
        ([[23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]], [30.0, 31.0])
    """
    reading = columns.reading
    return new_data(read_table(path, columns.group, reading.texts, reading.decimal, reading.gaps), columns)


def new_data(table: Table, columns: Columns) -> tuple[Dataset, pd.DataFrame]:
    """As `read_new`, for a table that is in memory."""
    reading = columns.reading
    stamps = stamps_by(columns.clock, table, columns.time)
    found = None
    if reading.variable:
        names = tuple(name for name in columns.features if name not in reading.beside)
        table, found = read_long(table, columns.time, columns.group, stamps, reading, names)
        table = table if reading.is_events else with_columns(table, found)
        stamps = stamps_by(columns.clock, table, columns.time)
    rows = order_rows(table, columns.time, columns.group, stamps, reading)
    values = feature_values(table, rows, columns)
    if reading.duplicates == Duplicates.MEAN and found is None:
        first = runs_of_equal(rows.group, rows.time)
        rows, values = rows.only_at(first), means(values, first)
    if columns.kind is Kind.FORECASTING:
        answers = _future(columns, rows)
        last = rows.size[rows.group] - rows.position <= columns.lookback
        rows, values = rows.only(last), values[last]
    elif columns.kind.each_step:
        answers = _labels(columns, rows.groups, rows.group).set_index(rows.row)
        answers[columns.time] = table.cells(columns.time)  # aligned by the index
    else:
        answers = _labels(columns, rows.groups, np.arange(len(rows.groups)))
    if found is not None and reading.is_events:
        rows, values = event_rows(columns, rows, values, found)
    cut = cut_sequences(rows, columns)
    count = len(rows.row) if columns.kind.each_step else len(cut[0])
    if columns.kind.has_classes:
        y = torch.full((count,), UNSCORED)
    else:
        y = torch.full((count, len(columns.targets)), float("nan"))
    return settle(dataset_of(table, columns, rows, values, cut, y), reading.policy, known=False), answers


def _labels(columns: Columns, groups: tuple[str, ...], group: NDArray[np.int64]) -> pd.DataFrame:
    """One row for each answer, with the name of its `group` [answers] if there are groups."""
    import pandas as pd

    table = pd.DataFrame(index=range(len(group)))
    if columns.group is not None:
        table[columns.group] = [groups[number] for number in group]
    return table


def _future(columns: Columns, rows: CsvRows) -> pd.DataFrame:
    """[n * horizon] rows, sorted by group, with the stamps to be forecast."""
    import pandas as pd

    groups = np.arange(len(rows.groups))
    steps = pd.Series(rows.steps()).groupby(rows.group[1:][rows.is_step]).median()
    step = steps.reindex(groups).fillna(columns.step).to_numpy()  # [n]; a group of one row has no step of its own
    last = rows.time[rows.first + rows.size - 1]
    stamps = last[:, None] + step[:, None] * np.arange(1, columns.horizon + 1)  # [n, horizon]
    table = _labels(columns, rows.groups, groups.repeat(columns.horizon))
    table[columns.time] = stamps_from(columns.clock, stamps.ravel())
    return table
