"""`read_new`: a CSV file without answers, read as the training file was, and a table that awaits the answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.data.tables.cells import read_table
from nacre.data.tables.columns import Columns
from nacre.data.tables.sequences import (
    Rows,
    dataset_of,
    feature_values,
    order_rows,
    pieces,
    stamps_by,
    stamps_from,
    whole_groups,
)

if TYPE_CHECKING:
    import pandas as pd


def read_new(path: str | os.PathLike[str], columns: Columns) -> tuple[Dataset, pd.DataFrame]:
    """Read a file to predict on.

    The target column may be missing, and is not looked at if it is there; a forecast needs it, for its past. In
    forecasting each group is one sequence: its last `lookback` rows, or all it has if it has fewer.

    Args:
        path: The file, as for `nacre.data.from_csv`.
        columns: How the training file was read.

    Returns:
        Sequences whose answers are all unscored (`UNSCORED` or NaN), and a table with one row for each answer:

        | kind | rows | columns |
        |---|---|---|
        | classification, regression | sequences | group |
        | of each step | rows of `Dataset.values` | group, time; the index is the row of the file |
        | forecasting | `horizon` for each sequence | group, time, which goes on by the group's median step |

        The columns bear the names that they have in the file; without groups, group is left out.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If something is wrong with the file, with its line and what to do; or if a column is not there.

    Example:
        >>> from nacre.data.tables.csv_dataset import read_csv_task
        >>> series = ["day,sales", *(f"{day},{day % 7}.5" for day in range(30))]
        >>> _ = (tmp / "sales.csv").write_text(chr(10).join(series))
        >>> _, columns = read_csv_task(tmp / "sales.csv", time="day", target="sales", lookback=7, horizon=2)
        >>> data, answers = read_new(tmp / "sales.csv", columns)
        >>> data.batch(torch.tensor([0])).time.tolist(), answers["day"].tolist()
        ([[23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0]], [30.0, 31.0])
    """
    table = read_table(path, columns.group)
    rows = order_rows(table, columns.time, columns.group, stamps_by(columns.clock, table, columns.time))
    values = feature_values(table, rows, columns.features)
    if columns.kind is Kind.FORECASTING:
        answers = _future(columns, rows)
        last = rows.size[rows.group] - rows.position <= columns.lookback
        rows, values = rows.only(last), values[last]
    elif columns.kind.each_step:
        answers = _labels(columns, rows.groups, rows.group).set_index(rows.row)
        answers[columns.time] = table.cells(columns.time)  # by the index, so that each row gets its own stamp
    else:
        answers = _labels(columns, rows.groups, np.arange(len(rows.groups)))
    cut = pieces(rows, columns.lookback) if columns.pieces else whole_groups(rows)
    y = _unscored(columns, len(rows.row) if columns.kind.each_step else len(cut[0]))
    return dataset_of(table, columns, rows, values, cut, y), answers


def _unscored(columns: Columns, answers: int) -> torch.Tensor:
    """[answers] classes or [answers, D] numbers that nobody knows."""
    if columns.kind.has_classes:
        return torch.full((answers,), UNSCORED)
    return torch.full((answers, len(columns.targets)), float("nan"))


def _labels(columns: Columns, groups: tuple[str, ...], group: NDArray[np.int64]) -> pd.DataFrame:
    """One row for each answer, with the name of its group if there are groups; group is [answers]."""
    import pandas as pd

    table = pd.DataFrame(index=range(len(group)))
    if columns.group is not None:
        table[columns.group] = [groups[number] for number in group]
    return table


def _future(columns: Columns, rows: Rows) -> pd.DataFrame:
    """[n * horizon] rows, group after group, with the stamps to be forecast."""
    import pandas as pd

    groups = np.arange(len(rows.groups))
    within = np.diff(rows.group) == 0
    steps = pd.Series(rows.steps()).groupby(rows.group[1:][within]).median()
    step = steps.reindex(groups).fillna(columns.step).to_numpy()  # [n]; a group of one row has no step of its own
    last = rows.time[rows.first + rows.size - 1]
    stamps = last[:, None] + step[:, None] * np.arange(1, columns.horizon + 1)  # [n, horizon]
    table = _labels(columns, rows.groups, groups.repeat(columns.horizon))
    table[columns.time] = stamps_from(columns.clock, stamps.ravel())
    return table
