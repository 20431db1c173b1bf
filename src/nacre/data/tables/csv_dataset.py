"""`from_csv`: a data set from a CSV file of your own, one row for each observation."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.tables.cells import Table, read_table
from nacre.data.tables.columns import Columns
from nacre.data.tables.reading import Duplicates, Reading, means, runs_of_equal, vocabulary
from nacre.data.tables.roles import check_roles, check_target, choose_features, choose_kind, target_cells
from nacre.data.tables.sequences import CsvRows, cut_sequences, dataset_of, feature_values, order_rows, read_clock
from nacre.data.tables.targets import classes_of

FEW_GROUPS = 3  # fewer groups than this cannot be split by group, so series of steps are cut into pieces


def from_csv(
    path: str | os.PathLike[str],
    *,
    time: str,
    target: str | Sequence[str],
    group: str | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    lookback: int = 48,
    horizon: int = 24,
    sort: bool = False,
    duplicates: str = "error",
    decimal: str = ".",
    categories: Sequence[str] = (),
) -> Dataset:
    """Read a CSV file: one row for each observation, groups one after the other or mixed.

    Args:
        path: The file: UTF-8, with a header; separated by commas, semicolons or tabs; `.gz` is unpacked.
        time: Column of stamps, numbers or dates; dates become seconds since the earliest one of the file. Within a
            group stamps must ascend, unless `sort` and `duplicates` say otherwise.
        target: Column to predict; for regressions it may be several.
        group: Column that names the sequence of a row: patient, machine, recording; None if there is one only.
        kind: What is asked, one of `nacre.data.Kind`; None infers it by the table at
            `nacre.data.tables.targets.infer_kind`, and says so in the log and in the notes of the data set.
        features: Input columns. None takes all columns of numbers, without time, group and target. In forecasting
            the past of the target is always an input.
        lookback: In forecasting, the rows a forecast sees. Where every step has an answer and there are fewer than
            three groups, series are cut into pieces of this many rows.
        horizon: In forecasting, the rows that are forecast.
        sort: Whether to sort rows by time within their group; otherwise stamps that go back are refused.
        duplicates: What becomes of equal stamps within a group: "error", "keep" (each row is a step of its own) or
            "mean" (one row, the mean of their numbers).
        decimal: What stands between a number's whole part and its fraction, "." or ",".
        categories: Columns that hold names, such as a machine's type. Each name becomes an input, 1 or 0; of names
            that a fold's training part lacks, its network learns nothing, and they count as unknown.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If something is wrong with the file, with its line and what to do; or if a column is not there.

    Example:
        >>> rows = ["who,second,pulse,state", "ann,0,61,calm", "ann,9,64,calm", "bob,0,90,tense", "bob,4,97,tense"]
        >>> _ = (tmp / "pulse.csv").write_text(chr(10).join(rows))
        >>> data = from_csv(tmp / "pulse.csv", time="second", target="state", group="who")
        >>> print(data.kind, data.features, data.classes, data.length.tolist())
        classification ('pulse',) ('calm', 'tense') [2, 2]
    """
    options = kind, features, lookback, horizon, sort, duplicates, decimal, categories
    return read_csv_task(path, time, target, group, *options)[0]


def read_csv_task(
    path: str | os.PathLike[str],
    time: str,
    target: str | Sequence[str],
    group: str | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    lookback: int = 48,
    horizon: int = 24,
    sort: bool = False,
    duplicates: str = "error",
    decimal: str = ".",
    categories: Sequence[str] = (),
) -> tuple[Dataset, Columns]:
    """As `from_csv`, and how to read new files in the same way."""
    if isinstance(categories, str):
        raise ValueError(f"categories must be a list of columns, got {categories!r}; write [{categories!r}]")
    reading = Reading(sort, duplicates, decimal, tuple(categories))
    whole("lookback", lookback, 1)
    whole("horizon", horizon, 1)
    if kind is not None:
        choice("kind", kind, list(Kind))
    targets = (target,) if isinstance(target, str) else tuple(target)
    table = read_table(path, group, reading.categories, decimal)
    check_roles(table, time, targets, group, reading.categories)
    clock, stamps = read_clock(table, time)
    rows = order_rows(table, time, group, stamps, reading)
    cells = [target_cells(table, name, kind)[rows.row] for name in targets]
    found, notes = choose_kind(kind, targets, cells, rows)
    check_target(table, rows, found, targets, cells)
    inputs, left_out = choose_features(table, features, found, {time, group}, targets, reading.categories)

    columns = Columns(
        kind=found,
        time=time,
        target=targets,
        group=group,
        features=inputs,
        classes=classes_of(cells[0])[1] if found.has_classes else (),
        lookback=lookback,
        horizon=horizon,
        pieces=found.each_step and len(rows.groups) < FEW_GROUPS,
        clock=clock,
        step=float(np.median(rows.steps())) if len(rows.steps()) else 1.0,
        reading=reading,
        vocabulary={name: vocabulary(table, name) for name in reading.categories},
    )
    return _build(table, columns, rows, cells, notes + left_out), columns


def _build(table: Table, columns: Columns, rows: CsvRows, cells: list[NDArray], notes: tuple[str, ...]) -> Dataset:
    """Cut the rows into sequences with their answers."""
    kind = columns.kind
    values = feature_values(table, rows, columns)
    if columns.reading.duplicates == Duplicates.MEAN:
        rows, values, cells = _merged(table, columns, rows, values, cells)
    if kind is Kind.FORECASTING:
        kept, short = _long_enough(table, rows, columns.lookback + columns.horizon)
        rows, values, notes = rows.only(kept), values[kept], notes + short
        target = values[:, columns.inputs.index(columns.target[0])]
        start = np.flatnonzero(rows.position <= rows.size[rows.group] - columns.lookback - columns.horizon)
        length = np.full(len(start), columns.lookback, np.int64)
        ahead = np.lib.stride_tricks.sliding_window_view(target, columns.horizon)  # [N - horizon + 1, horizon]
        y = ahead[start + columns.lookback]
    else:
        start, length = cut_sequences(rows, columns)
        answers = classes_of(cells[0])[0] if kind.has_classes else np.stack(cells, -1).astype(np.float32)
        y = answers if kind.each_step else answers[rows.first]
    if columns.pieces:
        notes += (f"Cut {len(rows.groups)} long series into {len(start):,} pieces of {columns.lookback:,} rows.",)
    return replace(dataset_of(table, columns, rows, values, (start, length), torch.from_numpy(y)), notes=notes)


def _merged(
    table: Table, columns: Columns, rows: CsvRows, values: NDArray, cells: list[NDArray]
) -> tuple[CsvRows, NDArray, list[NDArray]]:
    """Rows, values and targets with one row for each stamp: numbers are means, classes must agree."""
    first = runs_of_equal(rows.group, rows.time)
    if not columns.kind.has_classes:
        return rows.only_at(first), means(values, first), [means(column, first) for column in cells]
    classes = cells[0]
    run = np.searchsorted(first, np.arange(len(classes)), side="right") - 1
    differs = classes != classes[first[run]]
    if differs.any():
        here = int(differs.argmax())
        raise ValueError(
            f"{table.path}, line {table.line(int(rows.row[here])):,}: target {columns.target[0]!r} is "
            f"{classes[here]!s} here and {classes[first[run[here]]]!s} in another row of the same stamp; "
            "classes have no mean, so keep the right row, or say duplicates='keep'"
        )
    return rows.only_at(first), means(values, first), [classes[first]]


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
