"""`read_task`: a data set from a table and what is said of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.tables.cells import Table
from nacre.data.tables.columns import Columns
from nacre.data.tables.gaps import settle, unscored
from nacre.data.tables.long import Observations, event_rows, read_long, with_columns
from nacre.data.tables.reading import Duplicates, Reading, means, runs_of_equal, vocabulary
from nacre.data.tables.roles import (
    check_roles,
    check_static,
    check_target,
    choose_features,
    choose_kind,
    target_cells,
    without_gaps,
)
from nacre.data.tables.sequences import (
    CsvRows,
    cut_sequences,
    dataset_of,
    feature_values,
    order_rows,
    read_clock,
    stamps_by,
)
from nacre.data.tables.targets import classes_of

FEW_GROUPS = 3  # fewer groups than this cannot be split by group, so series of steps are cut into pieces


@dataclass(frozen=True)
class Asked:
    """What users say of the columns of a table: see `from_csv`."""

    time: str
    target: str | Sequence[str]
    group: str | None
    kind: str | None
    features: Sequence[str] | None
    lookback: int
    horizon: int
    reading: Reading

    def __post_init__(self) -> None:
        """Check what needs no table."""
        whole("lookback", self.lookback, 1)
        whole("horizon", self.horizon, 1)
        if self.kind is not None:
            choice("kind", self.kind, list(Kind))

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns to predict."""
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)


def read_task(table: Table, asked: Asked) -> tuple[Dataset, Columns]:
    """The data set of a table, and how to read new tables in the same way."""
    reading, time, group, targets = asked.reading, asked.time, asked.group, asked.targets
    clock, stamps = read_clock(table, time)
    found = None
    if reading.variable:
        names = _variables_of(asked)
        table, found = read_long(table, time, group, stamps, reading, names, targets)
        table = table if reading.is_events else with_columns(table, found)
        stamps = stamps_by(clock, table, time)
    check_roles(table, time, targets, group, reading.categories)
    check_static(table, time, targets, group, reading)
    rows = order_rows(table, time, group, stamps, reading)
    answers, unknown = table, []
    for name in targets:
        answers, empty = without_gaps(answers, name, group)
        unknown.append(empty[rows.row])
    cells = [target_cells(answers, name, asked.kind)[rows.row] for name in targets]
    kind, notes = choose_kind(asked.kind, targets, cells, rows)
    check_target(answers, rows, kind, targets, cells)
    if found is None:
        inputs, left_out = choose_features(
            table, asked.features, kind, {time, group}, targets, reading.categories, reading.static
        )
    else:
        inputs, left_out = (*found.names, *reading.beside), ()

    columns = Columns(
        kind=kind,
        time=time,
        target=targets,
        group=group,
        features=inputs,
        classes=classes_of(cells[0])[1] if kind.has_classes else (),
        lookback=asked.lookback,
        horizon=asked.horizon,
        pieces=kind.each_step and len(rows.groups) < FEW_GROUPS,
        clock=clock,
        step=float(np.median(rows.steps())) if len(rows.steps()) else 1.0,
        reading=reading,
        vocabulary={name: vocabulary(table, name) for name in reading.categories},
    )
    data = _build(table, columns, rows, Answers(cells, unknown), found)
    notes = (*notes, *left_out, *data.notes, *_nameless(table, rows, reading))
    return settle(replace(data, notes=notes), reading.policy), columns


def _nameless(table: Table, rows: CsvRows, reading: Reading) -> Iterator[str]:
    """Notes on how many names are missing in columns of categories; of static ones, in how many groups."""
    for name in reading.categories if reading.gaps else ():
        empty = table.cells(name).isna().to_numpy()[rows.row]
        if name in reading.static:
            empty = np.logical_and.reduceat(empty, rows.first)
        if empty.any():
            share = f"{100 * empty.mean():.1f} % of {len(empty):,} names of {name!r}"
            yield f"Missing: {share}; they are like no name."


def _variables_of(asked: Asked) -> tuple[str, ...] | None:
    """The variables of a long table that are inputs; None for all."""
    if asked.features is None:
        return None
    if isinstance(asked.features, str):
        raise ValueError(f"features must be a list of variables, got {asked.features!r}")
    beside = asked.reading.beside
    return tuple(name for name in dict.fromkeys(asked.features) if name not in beside)


class Answers(NamedTuple):
    """Target cells of all rows, some known one where a cell is empty, and which are empty."""

    cells: list[NDArray]
    unknown: list[NDArray[np.bool_]]

    def only(self, kept: NDArray) -> Answers:
        """Those of some rows."""
        return Answers([cell[kept] for cell in self.cells], [unknown[kept] for unknown in self.unknown])

    @property
    def numbers(self) -> NDArray[np.float32]:
        """[N, D] numbers, NaN where they are unknown."""
        return np.where(np.stack(self.unknown, -1), np.nan, np.stack(self.cells, -1).astype(np.float32))


def _build(table: Table, columns: Columns, rows: CsvRows, answers: Answers, found: Observations | None) -> Dataset:
    """Cut the rows into sequences with their answers."""
    kind, notes = columns.kind, ()
    values = feature_values(table, rows, columns)
    if columns.reading.duplicates == Duplicates.MEAN and found is None:
        rows, values, answers = _merged(table, columns, rows, values, answers)
    if kind is Kind.FORECASTING:
        kept, notes = _long_enough(table, rows, columns.lookback + columns.horizon)
        rows, values = rows.only(kept), values[kept]
        target = values[:, columns.inputs.index(columns.target[0])]
        start = np.flatnonzero(rows.position <= rows.size[rows.group] - columns.lookback - columns.horizon)
        length = np.full(len(start), columns.lookback, np.int64)
        ahead = np.lib.stride_tricks.sliding_window_view(target, columns.horizon)  # [N - horizon + 1, horizon]
        y = torch.from_numpy(ahead[start + columns.lookback])
    else:
        y = _answers(columns, rows, answers)
        if found is not None and columns.reading.is_events:
            rows, values = event_rows(columns, rows, values, found)
        start, length = cut_sequences(rows, columns)
    if columns.pieces:
        notes += (f"Cut {len(rows.groups)} long series into {len(start):,} pieces of {columns.lookback:,} rows.",)
    return replace(dataset_of(table, columns, rows, values, (start, length), y), notes=notes)


def _answers(columns: Columns, rows: CsvRows, answers: Answers) -> Tensor:
    """Answers of groups, or of rows, those that are unknown as `UNSCORED` or NaN."""
    if not columns.kind.each_step:  # constant within groups
        nowhere = [np.logical_and.reduceat(unknown, rows.first) for unknown in answers.unknown]
        answers = Answers([cell[rows.first] for cell in answers.cells], nowhere)
    if columns.kind.has_classes:
        return unscored(torch.from_numpy(classes_of(answers.cells[0])[0]), answers.unknown[0])
    return torch.from_numpy(answers.numbers)


def _merged(
    table: Table, columns: Columns, rows: CsvRows, values: NDArray, answers: Answers
) -> tuple[CsvRows, NDArray, Answers]:
    """Rows, values and targets with one row for each stamp: numbers are means, classes must agree."""
    first = runs_of_equal(rows.group, rows.time)
    if not columns.kind.has_classes:
        merged = means(answers.numbers, first).T
        found = Answers([np.nan_to_num(column) for column in merged], [np.isnan(column) for column in merged])
        return rows.only_at(first), means(values, first), found
    classes, unknown = answers.cells[0], answers.unknown[0]
    run = np.searchsorted(first, np.arange(len(classes)), side="right") - 1
    one, known = first.copy(), np.flatnonzero(~unknown)[::-1]
    one[run[known]] = known  # the first known one of each run is written last
    differs = (classes != classes[one[run]]) & ~unknown
    if differs.any():
        here = int(differs.argmax())
        raise ValueError(
            f"{table.place(int(rows.row[here]))}: target {columns.target[0]!r} is "
            f"{classes[here]!s} here and {classes[one[run[here]]]!s} in another row of the same stamp; "
            "classes have no mean, so keep the right row, or say duplicates='keep'"
        )
    return rows.only_at(first), means(values, first), answers.only(one)


def _long_enough(table: Table, rows: CsvRows, needed: int) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """[N] mask of the rows of groups that hold a window, and a note on the groups that do not."""
    enough = rows.size >= needed
    if not enough.any():
        longest = int(rows.size.max())
        raise ValueError(
            f"{table.path}: lookback + horizon is {needed:,} rows, but the longest series has {longest:,}; "
            "choose a smaller lookback or horizon"
        )
    short = int((~enough).sum())
    notes = (f"Left out {short:,} of {len(enough):,} groups with fewer than {needed:,} rows.",) if short else ()
    return enough[rows.group], notes
