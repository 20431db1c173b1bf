"""The paper's results table with our runs in it: nine columns, a row for each model. Needs rich."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nacre._util.text import console_table, csv_text, markdown_rows
from nacre.models._registry import list_models
from nacre.train.report.compare import Block, ModelRow, blocks_of, rows_of
from nacre.train.report.paper import COLUMNS, Column, paper_models, reported
from nacre.train.report.results import find_results
from nacre.train.report.tables import MISSING, best_of, heading, number, places_for, value_of

_CAPTION = "Each cell: ours, mean ± sample standard deviation over folds (reported by the paper)."
_CSV = (
    *("model", "control", "column", "mean", "std", "folds", "of", "diverged"),
    *("profile", "steps", "form", "reported mean", "reported std"),
)


class _Filled(NamedTuple):
    """A column with our rows by model, those that are best, and the digits to print."""

    column: Column
    block: Block | None
    rows: dict[str, ModelRow]
    best: set[str]
    places: int


class _Grid(NamedTuple):
    """All columns, the names of the rows, and notes."""

    columns: list[_Filled]
    models: list[str]
    controls: list[str]
    notes: list[str]


def print_paper_table(directory: str | os.PathLike[str], *, profile: str | None = None) -> None:
    """Print the paper's table with our metrics beside the reported ones.

    Of each task the block with the most runs is shown; with a profile, only runs of this budget count.
    """
    grid = _grid(directory, profile)
    console = Console(highlight=False)
    for columns in _fitting(grid, console.width):
        console.print(_rich(grid._replace(columns=columns)))
    for note in grid.notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


def markdown_paper_table(directory: str | os.PathLike[str], *, profile: str | None = None) -> str:
    """The same table in Markdown."""
    grid = _grid(directory, profile)
    rows = []
    for model in (*grid.models, *grid.controls):
        cells = [_ours(f, model, "**") + _paper(f, model) for f in grid.columns]
        rows.append([f"{model} (control)" if model in grid.controls else model, *cells])
    table = markdown_rows(["model", *(_title(f.column) for f in grid.columns)], rows)
    return f"{table}\n\n" + "\n".join(f"- {note}" for note in grid.notes) + "\n"


def csv_paper_table(directory: str | os.PathLike[str], *, profile: str | None = None) -> str:
    """The same values in CSV, unrounded, a line for each model and column."""
    grid = _grid(directory, profile)
    lines = [
        [model, model in grid.controls, filled.column.name, *_raw(filled, model)]
        for model in (*grid.models, *grid.controls)
        for filled in grid.columns
    ]
    return csv_text(_CSV, lines)


def _grid(directory: str | os.PathLike[str], profile: str | None) -> _Grid:
    found = find_results(directory)
    results = [r for r in found.results if r.control or profile is None or r.profile == profile]
    if not any(not r.control for r in results) and profile is not None:
        known = sorted({r.profile for r in found.results if not r.control})
        raise ValueError(
            f"no results of profile {profile!r} under {directory}; there are {', '.join(known) or 'none'}"
        )
    blocks = blocks_of(results)
    columns = [_fill(column, blocks) for column in COLUMNS]
    used = dict.fromkeys(f.block.setting for f in columns if f.block)
    rows = {name: row for f in columns for name, row in f.rows.items()}
    models = dict.fromkeys((*paper_models(), *list_models(), *(n for n, row in rows.items() if not row.control)))
    controls = [name for name, row in rows.items() if row.control]
    notes = [_CAPTION, *(heading(setting) for setting in used)]
    notes += [f"not shown: {heading(b.setting)}" for b in blocks if b.setting not in used]
    return _Grid(columns, list(models), controls, [*notes, *found.damaged])


def _fill(column: Column, blocks: Sequence[Block]) -> _Filled:
    """Of the blocks of a column's task, take the one with the most runs: budgets are not mixed in a column."""
    candidates = [b for b in blocks if b.setting.task == column.task and _has(b, column)]
    block = max(candidates, key=lambda b: sum(not r.control for r in b.results), default=None)
    rows = [] if block is None else rows_of(block, column.metric)
    places = max(column.places, places_for(column.metric, [row.mean for row in rows])) if rows else column.places
    return _Filled(column, block, {row.model: row for row in rows}, best_of(rows), places)


def _has(block: Block, column: Column) -> bool:
    return any(r.metric == column.metric or column.metric in r.metrics for r in block.results)


def _title(column: Column) -> str:
    return f"{column.name} {'↑' if column.better == 'higher' else '↓'}"


def _rich(grid: _Grid) -> Table:
    table = console_table(["model", *(_title(filled.column) for filled in grid.columns)])
    for names, title in ((grid.models, ""), (grid.controls, "controls")):
        if title and names:
            table.add_section()
            table.add_row(Text(title, style="italic"))
        for model in names:
            ours = [Text(_ours(f, model), "bold" if model in f.best else "") for f in grid.columns]
            cells = [text + Text(_paper(f, model)) for text, f in zip(ours, grid.columns, strict=True)]
            table.add_row(Text(model), *cells)
    return table


def _fitting(grid: _Grid, width: int) -> list[list[_Filled]]:
    """Columns in groups that fit a console, each beside the names of the models."""
    names = (*grid.models, *grid.controls)
    parts: list[list[_Filled]] = []
    room = 0
    for filled in grid.columns:
        cells = (_ours(filled, name) + _paper(filled, name) for name in names)
        wanted = 2 + max(len(_title(filled.column)), *map(len, cells))
        if not parts or wanted > room:
            parts.append([])
            room = width - 2 - max(map(len, names))
        parts[-1].append(filled)
        room -= wanted
    return parts


def _ours(filled: _Filled, model: str, mark: str = "") -> str:
    """Our metric, between marks if it is the best one."""
    row = filled.rows.get(model)
    if row is None or filled.block is None:
        return MISSING
    folds = filled.block.setting.folds
    value = value_of(row, filled.places) + (f" [{len(row.folds)}/{folds}]" if len(row.folds) < folds else "")
    return f"{mark}{value}{mark}" if model in filled.best else value


def _paper(filled: _Filled, model: str) -> str:
    quoted = reported(model, filled.column.name)
    return "" if quoted is None else f" ({number(quoted.mean, quoted.places)})"


def _raw(filled: _Filled, model: str) -> list[object]:
    row, quoted, block = filled.rows.get(model), reported(model, filled.column.name), filled.block
    ours: list[object] = [""] * 8
    if row is not None and block is not None:
        s = block.setting
        mean = "" if row.diverged else row.mean
        ours = [mean, row.std, len(row.folds), s.folds, row.diverged, s.profile, s.steps, s.form]
    return [*ours, *((quoted.mean, quoted.std) if quoted else ("", ""))]
