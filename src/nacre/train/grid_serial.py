"""The cells of a grid one after the other, in this process or in several that keep step."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rich.progress import Progress, TaskID

from nacre._util.locks import LockedElsewhere
from nacre._util.progress import bars
from nacre.tasks.controls.registry import CONTROLS
from nacre.train.cell import Cell
from nacre.train.progress_report import Report, name_of
from nacre.train.run_cell import help_with, run_cell
from nacre.train.scale.worker_group import ALONE, FAILURES, Team


def run_serial(todo: Sequence[Cell], report: Report, team: Team = ALONE) -> None:
    """Run what is not done yet. A cell that fails is reported and the rest goes on.

    Args:
        todo: The cells.
        report: Who is told.
        team: The processes that train with this one, which leads.
    """
    with bars(report.console) as progress:
        for cell in todo:
            try:
                _run(cell, progress, report, team)
            except FAILURES as error:
                report.failed(cell, error)
            team.end()


def follow(todo: Sequence[Cell], team: Team) -> None:
    """Train with the process that leads, cell after cell. It reports what fails."""
    for cell in todo:
        with suppress(*FAILURES):
            help_with(cell, team)


def _run(cell: Cell, progress: Progress, report: Report, team: Team) -> None:
    if cell.is_done():
        return report.done(cell)
    bar = progress.add_task(name_of(cell), total=None, loss="")
    try:
        result = _run_with_bar(cell, progress, bar, team)
    except LockedElsewhere:
        return report.busy(cell)
    finally:
        progress.remove_task(bar)
    return report.made(cell, result)


def _run_with_bar(cell: Cell, progress: Progress, bar: TaskID, team: Team) -> dict[str, Any]:
    if cell.model in CONTROLS:
        return run_cell(cell)
    from nacre.train.callbacks import Bar

    return run_cell(cell, (Bar(progress, bar),), team)
