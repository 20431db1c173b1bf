"""The paper's results table with our runs in it: nine columns, a row for each model. Needs rich."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nacre._util.text import console_table, csv_text, markdown_rows
from nacre.models._registry import list_models, model_info
from nacre.train.report.compare import Block, BlockSetting, ModelRow, blocks_of, rows_of
from nacre.train.report.paper import COLUMNS, Column, paper_models, reported
from nacre.train.report.results import find_results
from nacre.train.report.words import MISSING, best_of, heading, number, places_for, value_of
from nacre.train.result import Result

OTHER = "†"  # stands at runs of another budget or recipe than the rest of their column
OLD = "‡"  # stands at runs of an older version of the model
_CAPTION = "Each cell: ours, mean ± sample standard deviation over folds (reported by the paper)."
_CSV = (
    *("model", "control", "column", "mean", "std", "folds", "of", "diverged"),
    *("profile", "steps", "form", "reported mean", "reported std"),
)


class _Cell(NamedTuple):
    """Our figure of a model in a column."""

    row: ModelRow
    setting: BlockSetting  # of the runs
    sign: str  # OTHER, OLD, or nothing for those that are like the rest of the column
    best: bool

    def text(self, places: int, mark: str = "") -> str:
        """In words, between marks if it is the best one."""
        row, folds = self.row, self.setting.folds
        value = value_of(row, places) + (f" [{len(row.folds)}/{folds}]" if len(row.folds) < folds else "")
        return f"{mark}{value}{mark}" if self.best else value + self.sign


class _Filled(NamedTuple):
    """A column with our cells by model, and the digits to print."""

    column: Column
    cells: dict[str, _Cell]
    places: int


class _Grid(NamedTuple):
    """All columns, the names of the rows, and notes."""

    columns: list[_Filled]
    models: list[str]
    controls: list[str]
    notes: list[str]


def print_paper_table(directory: str | os.PathLike[str]) -> None:
    """Print the paper's table with our metrics, in the paper's units, beside the reported ones.

    Of each column the block of the largest budget is shown. Models that are not in it are shown with runs of other
    blocks, or of older versions of theirs, marked, and never as the best.
    """
    grid = _grid(directory)
    console = Console(highlight=False)
    for columns in _fitting(grid, console.width):
        console.print(_rich(grid._replace(columns=columns)))
    for note in grid.notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


def markdown_paper_table(directory: str | os.PathLike[str]) -> str:
    """The same table in Markdown."""
    grid = _grid(directory)
    rows = []
    for model in (*grid.models, *grid.controls):
        cells = [_ours(f, model, "**") + _paper(f, model) for f in grid.columns]
        rows.append([f"{model} (control)" if model in grid.controls else model, *cells])
    table = markdown_rows(["model", *(_title(f.column) for f in grid.columns)], rows)
    return f"{table}\n\n" + "\n".join(f"- {note}" for note in grid.notes) + "\n"


def csv_paper_table(directory: str | os.PathLike[str]) -> str:
    """The same values in CSV, unrounded, a line for each model and column."""
    grid = _grid(directory)
    lines = [
        [model, model in grid.controls, filled.column.name, *_raw(filled, model)]
        for model in (*grid.models, *grid.controls)
        for filled in grid.columns
    ]
    return csv_text(_CSV, lines)


def _grid(directory: str | os.PathLike[str]) -> _Grid:
    found = find_results(directory)
    old = [r for r in found.results if _is_outdated(r)]
    blocks, old_blocks = blocks_of(r for r in found.results if not _is_outdated(r)), blocks_of(old)
    columns = [_fill(column, blocks, old_blocks) for column in COLUMNS]
    cells = [(name, cell) for filled in columns for name, cell in filled.cells.items()]
    models = dict.fromkeys(
        (*paper_models(), *list_models(), *(name for name, cell in cells if not cell.row.control))
    )
    controls = dict.fromkeys(name for name, cell in cells if cell.row.control)
    return _Grid(columns, list(models), list(controls), [_CAPTION, *_notes(columns), *found.damaged])


def _is_outdated(result: Result) -> bool:
    return result.model in list_models() and result.version < model_info(result.model).version


def _fill(column: Column, blocks: Sequence[Block], old: Sequence[Block]) -> _Filled:
    """Take the block of the task itself, of the largest budget, with the most runs; fill gaps from the others."""

    def weight(block: Block) -> tuple[bool, int, int]:
        runs = sum(not r.control for r in block.results)
        return block.setting.task == column.task, block.setting.steps, runs

    cells: dict[str, _Cell] = {}
    for group in (blocks, old):
        mine = [b for b in group if b.column == column.task and _has(b, column)]
        for i, block in enumerate(sorted(mine, key=weight, reverse=True)):
            rows = rows_of(block, column.metric)
            sign = OLD if group is old else OTHER if i else ""
            best = set() if sign else best_of(rows)
            for row in rows:
                cells.setdefault(row.model, _Cell(row, block.setting, sign, row.model in best))
    means = [cell.row.mean for cell in cells.values() if not cell.row.control]
    return _Filled(column, cells, max(column.places, places_for(column.metric, means)))


def _notes(columns: Sequence[_Filled]) -> list[str]:
    """What the runs of the columns are, in which unit; then those that have a sign."""
    metrics: dict[tuple[str, BlockSetting], dict[str, None]] = {}
    models: dict[tuple[str, BlockSetting], dict[str, None]] = {}
    for filled in columns:
        for model, cell in filled.cells.items():
            metrics.setdefault((cell.sign, cell.setting), {})[filled.column.metric] = None
            models.setdefault((cell.sign, cell.setting), {})[model] = None
    notes = []
    for sign, setting in sorted(metrics, key=lambda key: ("", OTHER, OLD).index(key[0])):
        text = heading(setting._replace(metric=", ".join(metrics[sign, setting])))
        older = f"; older versions of {', '.join(models[sign, setting])}" if sign == OLD else ""
        notes.append(f"{sign} {text}{older}".lstrip())
    return notes


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
            table.add_row(Text(model), *(_styled(filled, model) for filled in grid.columns))
    return table


def _styled(filled: _Filled, model: str) -> Text:
    cell = filled.cells.get(model)
    return Text(_ours(filled, model), "bold" if cell and cell.best else "") + Text(_paper(filled, model))


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
    cell = filled.cells.get(model)
    return MISSING if cell is None else cell.text(filled.places, mark)


def _paper(filled: _Filled, model: str) -> str:
    quoted = reported(model, filled.column.name)
    return "" if quoted is None else f" ({number(quoted.mean, quoted.places)})"


def _raw(filled: _Filled, model: str) -> list[object]:
    cell, quoted = filled.cells.get(model), reported(model, filled.column.name)
    ours: list[object] = [""] * 8
    if cell is not None:
        row, setting = cell.row, cell.setting
        mean = "" if row.diverged else row.mean
        ours = [mean, row.std, len(row.folds), setting.folds, row.diverged]
        ours += [setting.profile, setting.steps, setting.form]
    return [*ours, *((quoted.mean, quoted.std) if quoted else ("", ""))]
