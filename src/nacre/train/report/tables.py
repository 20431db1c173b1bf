"""Tables of runs: on the console, in Markdown and in CSV. Needs rich.

Every block of comparable runs is a table of its own; its heading says what the runs share.
"""

import math
import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nacre._util.text import csv_text, markdown_rows
from nacre.train.report.compare import REFERENCE, Block, BlockSetting, Comparison, ModelRow, blocks_of, rows_of
from nacre.train.report.paper import ReportedMetric, paper_column, reported
from nacre.train.report.results import find_results

MISSING = "–"  # noqa: RUF001  a dash
_LEVEL = 0.05  # of significance
_WIDE = 110  # columns of a console that has room for the spread of the paper's metrics
_CAPTION = (
    "± sample standard deviation over folds. rank: without controls, diverged models and those that lack folds. "
    f"vs {REFERENCE}: mean difference over common folds and seeds; p: two-sided corrected resampled t-test "
    f"(Nadeau and Bengio), with Holm's correction for the number of models; unclear: p of {_LEVEL} or more. "
    "Where all folds are scored on one test part (splits by time, official ones), p is about other training "
    "parts, not about other test data. {cost}. reported: the paper's metric, of other splits and budgets."
)
_SECONDS, _SIZE = "seconds: mean of a run", "size: parameters"

_CSV = (
    *("model", "control", "mean", "std", "diverged", "runs", "folds", "of", "rank"),
    *(f"difference to {REFERENCE}", "p", "pairs", "parameters", "seconds", "reported mean", "reported std"),
)


class TableLine(NamedTuple):
    """A row of a table in words."""

    model: str
    value: str
    folds: str
    rank: str
    against: str
    parameters: str
    seconds: str
    reported: str


def print_table(directory: str | os.PathLike[str], *, task: str | None = None) -> None:
    """Print a table for each block of comparable runs under a directory; with a task, only of this one."""
    found = find_results(directory, task)
    console = Console(highlight=False)
    wide = console.width >= _WIDE
    blocks = blocks_of(found.results)
    for block in blocks:
        console.print(_rich(block, wide=wide))
    console.print(_CAPTION.format(cost=_SECONDS if wide else _SIZE), style="dim")
    for line in (*_left_out(blocks), *found.damaged):
        console.print(line, style="yellow", markup=False, soft_wrap=True)


def markdown_table(directory: str | os.PathLike[str], *, task: str | None = None) -> str:
    """The same tables in Markdown; the best value of each is bold."""
    found = find_results(directory, task)
    blocks = blocks_of(found.results)
    parts = [part for block in blocks for part in (f"**{heading(block.setting)}**", _markdown(block))]
    notes = [f"- {line}" for line in (*_left_out(blocks), *found.damaged)]
    return "\n\n".join([*parts, _CAPTION.format(cost=_SECONDS), *(["\n".join(notes)] if notes else [])]) + "\n"


def csv_table(directory: str | os.PathLike[str], *, task: str | None = None) -> str:
    """The same values in CSV, unrounded, a line for each model of each block; empty where there is none."""
    names = [name for name in BlockSetting._fields if name != "folds"]
    lines = []
    for block in blocks_of(find_results(directory, task).results):
        shared = [getattr(block.setting, name) for name in names]
        lines += [[*shared, *_raw(row, block.setting)] for row in rows_of(block)]
    return csv_text([*names, *_CSV], lines)


def heading(setting: BlockSetting) -> str:
    """What the runs of a block share.

    Example:
        >>> budget = ("quick", 300, 64, "0123456789")
        >>> heading(BlockSetting("jena", "mse", "lower", *budget, "official", "fedcba98", 5))
        'jena: mse, lower is better; quick: 300 steps of 64; recipe 0123456; official data fedcba9'
    """
    budget = f"{setting.profile}: {setting.steps:,} steps of {setting.batch_size:,}; recipe {setting.recipe[:7]}"
    form = setting.form if setting.form.endswith("data") else f"{setting.form} data"
    return f"{setting.task}: {setting.metric}, {setting.better} is better; {budget}; {form} {setting.data[:7]}"


def lines_of(rows: Sequence[ModelRow], setting: BlockSetting) -> list[TableLine]:
    """The rows of a block in words, with the same number of digits."""
    places = places_for(setting.metric, [row.mean for row in rows])
    lines = []
    for row in rows:
        quoted = _reported(row, setting)
        fewest, most = row.parameters
        line = TableLine(
            model=row.model,
            value=value_of(row, places),
            folds=_folds(row, setting.folds),
            rank=MISSING if row.rank is None else f"{row.rank:g}",
            against="" if row.model == REFERENCE else _against(row.against, setting.better, places),
            parameters=f"{fewest:,}" if fewest == most else f"{fewest:,}–{most:,}",  # noqa: RUF001  a range
            seconds="<0.1" if row.seconds < 0.1 else number(row.seconds, 1 if row.seconds < 100 else 0),
            reported="" if quoted is None else str(quoted),
        )
        lines.append(line)
    return lines


def _reported(row: ModelRow, setting: BlockSetting) -> ReportedMetric | None:
    column = paper_column(setting.task, setting.metric)
    return reported(row.model, column.name) if column else None


def best_of(rows: Sequence[ModelRow]) -> set[str]:
    """Models of the best rank."""
    first = min((row.rank for row in rows if row.rank is not None), default=None)
    return {row.model for row in rows if row.rank is not None and row.rank == first}


def places_for(metric: str, values: Sequence[float]) -> int:
    """Digits after the point: 2 for percentages, else 4, fewer for large numbers and more for small ones.

    Example:
        >>> places_for("accuracy", [96.3]), places_for("mse", [0.03, 1.2]), places_for("mse", [0.00031])
        (2, 4, 6)
    """
    if metric.startswith("accuracy"):
        return 2
    smallest = min((abs(v) for v in values if math.isfinite(v) and v), default=1.0)
    return min(6, max(4, 2 - math.floor(math.log10(smallest)))) if smallest < 10 else 2


def number(value: float, places: int) -> str:
    """A number with so many digits after the point, but never rounded to nothing.

    Example:
        >>> number(0.03124, 4), number(0.0000012, 4), number(12345.6, 2), number(0.0, 2)
        ('0.0312', '1.2e-06', '12,345.60', '0.00')
    """
    text = f"{value:,.{places}f}"
    lost = value != 0 and not any(digit in "123456789" for digit in text)
    return f"{value:.1e}" if lost or abs(value) >= 1e7 else text


def with_std(mean: float, std: float | None, places: int) -> str:
    """Mean ± standard deviation, where there is one.

    Example:
        >>> with_std(0.5, 0.01, 3), with_std(0.5, None, 3)
        ('0.500 ± 0.010', '0.500')
    """
    return number(mean, places) + ("" if std is None else f" ± {number(std, places)}")


def value_of(row: ModelRow, places: int) -> str:
    """The mean with its spread, or how many runs diverged."""
    if row.diverged:
        return "diverged" if row.diverged == row.runs else f"diverged ({row.diverged} of {row.runs})"
    return with_std(row.mean, row.std, places)


def _folds(row: ModelRow, folds: int) -> str:
    seeds = row.runs / len(row.folds)
    return f"{len(row.folds)}/{folds}" + (f" × {seeds:.3g}" if seeds > 1 else "")  # noqa: RUF001  times


def _against(compared: Comparison | None, better: str, places: int) -> str:
    if compared is None:
        return MISSING
    sign = "+" if compared.difference >= 0 else ""
    difference = sign + number(compared.difference, places)
    if compared.p is None:
        return f"{difference}, no test"
    worse = (compared.difference > 0) == (better == "lower")
    word = "unclear" if compared.p >= _LEVEL else "worse" if worse else "better"
    return f"{difference} {word}, " + ("p<0.001" if compared.p < 0.001 else f"p={compared.p:.2g}")


def _rich(block: Block, *, wide: bool) -> Table:
    # Not `console_table`: 80 columns leave no room for padding.
    title, padding = Text(heading(block.setting), style="bold"), (0, int(wide), 0, 0)
    table = Table(box=box.SIMPLE_HEAD, padding=padding, pad_edge=False, title=title, title_justify="left")
    for name in _titles(block.setting) if wide else _narrow_cells(_titles(block.setting)):
        left = name in ("model", f"vs {REFERENCE}")
        table.add_column(name, justify="left" if left else "right", no_wrap=True, overflow="fold")
    rows = rows_of(block)
    best = best_of(rows)
    controls = any(row.control for row in rows)
    for row, line in zip(rows, lines_of(rows, block.setting), strict=True):
        if row.control and controls:
            table.add_section()
            table.add_row(Text("controls", style="italic"))
            controls = False
        cells = line if wide else _narrow_cells(line)
        style = "bold" if row.model in best else ""
        table.add_row(*(Text(cell, style if i == 1 else "") for i, cell in enumerate(cells)))
    return table


def _narrow_cells(cells: Sequence[str]) -> list[str]:
    """Cells or titles for 80 columns: broken where that is harmless, without seconds and the paper's spread."""
    line = TableLine(*cells)
    value, against = line.value.replace(" ± ", "±").replace(" (", "\n("), line.against.replace(", ", "\n")
    size, quoted = line.parameters.replace("parameters", "size"), line.reported.partition(" ")[0]
    return [line.model, value, line.folds, line.rank, against, size, quoted]


def _titles(setting: BlockSetting) -> list[str]:
    return ["model", setting.metric, "folds", "rank", f"vs {REFERENCE}", "parameters", "seconds", "reported"]


def _markdown(block: Block) -> str:
    rows = rows_of(block)
    best = best_of(rows)
    lines = []
    for row, line in zip(rows, lines_of(rows, block.setting), strict=True):
        value = f"**{line.value}**" if row.model in best else line.value
        lines.append(line._replace(value=value, model=f"{line.model} (control)" if row.control else line.model))
    return markdown_rows(_titles(block.setting), lines)


def _raw(row: ModelRow, setting: BlockSetting) -> list[object]:
    quoted, against = _reported(row, setting), row.against
    return [
        *(row.model, row.control, "" if row.diverged else row.mean, row.std, row.diverged, row.runs),
        *(len(row.folds), setting.folds, row.rank),
        *((against.difference, against.p, against.cells) if against else ("", "", "")),
        *(row.parameters[1], row.seconds),
        *((quoted.mean, quoted.std) if quoted else ("", "")),
    ]


def _left_out(blocks: Sequence[Block]) -> list[str]:
    """What is not in the tables, and why."""
    lines = [
        f"{r.directory} is left out: there is another run of {r.model}, fold {r.fold}, seed {r.seed}"
        for block in blocks
        for r in block.repeated
    ]
    for block in blocks:
        for (model, version), count in Counter((r.model, r.version) for r in block.outdated).items():
            runs = "1 run" if count == 1 else f"{count} runs"
            what = f"{runs} of {model} on {block.setting.task}"
            lines.append(f"{what}: left out, version {version} of the model, of which there is a newer one")
    return lines
