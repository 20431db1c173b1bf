"""Tables of runs: on the console, in Markdown and in CSV. Needs rich.

Every block of comparable runs is a table of its own; its heading says what the runs share.
"""

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
from nacre.train.report.paper import paper_column, reported
from nacre.train.report.results import Found, find_results
from nacre.train.report.words import MISSING, best_of, heading, number, places_for, value_of

_LEVEL = 0.05  # of significance
_WIDE = 110  # columns of a console that has room for the spread of the paper's metrics
_CAPTION = (
    "± sample standard deviation over folds. rank: without controls, diverged models and those that lack folds. "
    f"vs {REFERENCE}: mean difference over common folds and seeds; p: two-sided corrected resampled t-test "
    f"(Nadeau and Bengio), with Holm's correction for the number of models; unclear: p of {_LEVEL} or more. "
    "Where all folds are scored on one test part (splits by time, official ones), p is about other training "
    "parts, not about other test data. {cost}. reported: the paper's figure, of other splits and budgets; "
    "it compares with the column before it where that has the paper's unit."
)
_SECONDS, _SIZE = "seconds: mean of a run", "size: parameters"

_CSV = (
    *("model", "control", "mean", "std", "diverged", "runs", "folds", "of", "rank"),
    *(f"difference to {REFERENCE}", "p", "pairs", "parameters", "seconds"),
    *("paper's metric", "mean of it", "std of it", "reported mean", "reported std"),
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
    paper_unit: str  # the paper's metric, where it has another one
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
    return markdown_of(find_results(directory, task))


def markdown_of(found: Found) -> str:
    """Tables of these results in Markdown."""
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
        lines += [[*shared, *_raw(row, block)] for row in rows_of(block)]
    return csv_text([*names, *_CSV], lines)


def lines_of(block: Block) -> list[TableLine]:
    """The rows of a block in words, with the same number of digits."""
    rows, column = rows_of(block), paper_column(block.column)
    places = places_for(block.setting.metric, [row.mean for row in rows])
    in_paper_unit = _in_paper_unit(block)
    lines = []
    for row in rows:
        quoted = reported(row.model, column.name) if column else None
        fewest, most = row.parameters
        line = TableLine(
            model=row.model,
            value=value_of(row, places),
            folds=_folds(row, block.setting.folds),
            rank=MISSING if row.rank is None else f"{row.rank:g}",
            against="" if row.model == REFERENCE else _against(row.against, block.setting.better, places),
            parameters=f"{fewest:,}" if fewest == most else f"{fewest:,}–{most:,}",  # noqa: RUF001  a range
            seconds="<0.1" if row.seconds < 0.1 else number(row.seconds, 1 if row.seconds < 100 else 0),
            paper_unit=in_paper_unit.get(row.model, ""),
            reported="" if quoted is None else str(quoted),
        )
        lines.append(line)
    return lines


def _in_paper_unit(block: Block) -> dict[str, str]:
    """The metric that the paper has instead of the one that ranks, by model; nothing where it has the same."""
    column = paper_column(block.column)
    if column is None or column.metric == block.setting.metric:
        return {}
    if not any(column.metric in r.metrics for r in block.results):  # made before that unit was recorded
        return {}
    rows = rows_of(block, column.metric)
    places = places_for(column.metric, [row.mean for row in rows])
    return {row.model: value_of(row, places) for row in rows}


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
    titles = _titles(block)
    shown = [i for i, name in enumerate(titles) if name and (wide or name != "seconds")]
    if not wide:
        titles = titles._replace(parameters="size", paper_unit=titles.paper_unit.replace(" ", "\n"))
    for name in (titles[i] for i in shown):
        left = name in ("model", f"vs {REFERENCE}")
        table.add_column(name, justify="left" if left else "right", no_wrap=True, overflow="fold")
    rows = rows_of(block)
    best = best_of(rows)
    controls = any(row.control for row in rows)
    for row, line in zip(rows, lines_of(block), strict=True):
        if row.control and controls:
            table.add_section()
            table.add_row(Text("controls", style="italic"))
            controls = False
        cells = line if wide else _narrow(line)
        style = "bold" if row.model in best else ""
        table.add_row(*(Text(cells[i], style if i == 1 else "") for i in shown))
    return table


def _narrow(line: TableLine) -> TableLine:
    """A line for 80 columns: broken where that is harmless, without the spread of what stands beside the paper."""
    return line._replace(
        value=line.value.replace(" ± ", "±").replace(" (", "\n("),
        against=line.against.replace(", ", "\n"),
        paper_unit=line.paper_unit.partition(" ")[0],
        reported=line.reported.partition(" ")[0],
    )


def _titles(block: Block) -> TableLine:
    """Headings of the columns; that of the paper's unit is empty where there is nothing to show."""
    column = paper_column(block.column)
    unit = column.metric if column and _in_paper_unit(block) else ""
    cost = ("parameters", "seconds")
    return TableLine("model", block.setting.metric, "folds", "rank", f"vs {REFERENCE}", *cost, unit, "reported")


def _markdown(block: Block) -> str:
    rows, titles = rows_of(block), _titles(block)
    best = best_of(rows)
    lines = []
    for row, line in zip(rows, lines_of(block), strict=True):
        value = f"**{line.value}**" if row.model in best else line.value
        line = line._replace(value=value, model=f"{line.model} (control)" if row.control else line.model)
        lines.append([cell for cell, title in zip(line, titles, strict=True) if title])
    return markdown_rows([title for title in titles if title], lines)


def _raw(row: ModelRow, block: Block) -> list[object]:
    against, column = row.against, paper_column(block.column)
    quoted = reported(row.model, column.name) if column else None
    same = [r for r in rows_of(block, column.metric) if r.model == row.model] if column else []
    in_paper_unit = (column.metric, same[0].mean, same[0].std) if column and same else ("", "", "")
    return [
        *(row.model, row.control, "" if row.diverged else row.mean, row.std, row.diverged, row.runs),
        *(len(row.folds), block.setting.folds, row.rank),
        *((against.difference, against.p, against.cells) if against else ("", "", "")),
        *(row.parameters[1], row.seconds),
        *in_paper_unit,
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
