"""What a grid says while it runs, and what it remembers of its cells. Needs rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nacre.tasks.task import Task
from nacre.train.cell import Cell

if TYPE_CHECKING:
    from rich.console import Console


class Report:
    """One line for each cell, and at the end all that failed.

    Args:
        console: Where lines go.

    Attributes:
        results: The results made now.
        failures: What went wrong, one line for each cell.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.results: list[dict[str, Any]] = []
        self.failures: list[str] = []

    def introduce(self, task: Task) -> None:
        """Say what a task is about."""
        data = task.data
        self.console.print(
            f"[bold]{task.recipe.name}[/]: {data.kind}, {len(data):,} sequences, features: {len(data.features)}, "
            f"folds: {len(task.splits)}; {data.form}",
            highlight=False,
        )
        for note in data.notes:
            self.note(f"  {note}")

    def made(self, cell: Cell, result: dict[str, Any]) -> None:
        """A cell has a result."""
        self.results.append(result)
        value = result["value"]
        figure = "diverged" if value is None else f"{result['metric']} {value:.4g}"
        self.console.print(f"{name_of(cell)}: [bold]{figure}[/], {result['seconds']:.0f} s", highlight=False)

    def done(self, cell: Cell) -> None:
        """A cell had a result before."""
        self.note(f"{name_of(cell)} is done")

    def busy(self, cell: Cell) -> None:
        """Somebody else is at work on a cell."""
        self.note(f"{name_of(cell)} is at work in another process")

    def failed(self, cell: Cell, why: object) -> None:
        """A cell has no result."""
        self.failures.append(f"{name_of(cell)}: {why}")
        self.console.print(f"[red]failed[/] {self.failures[-1]}", highlight=False)

    def note(self, text: str) -> None:
        """Something of less weight."""
        self.console.print(text, style="dim", highlight=False)

    def finish(self) -> list[dict[str, Any]]:
        """The results.

        Raises:
            ValueError: If cells failed.
        """
        if self.failures:
            raise ValueError(f"{len(self.failures)} of the cells failed:\n  " + "\n  ".join(self.failures))
        return self.results


def name_of(cell: Cell) -> str:
    """A cell in words."""
    seed = f", seed {cell.seed}" if cell.seed else ""
    return f"{cell.task.recipe.name}, {cell.model}, fold {cell.fold + 1} of {len(cell.task.splits)}{seed}"
