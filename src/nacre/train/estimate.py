"""`Estimate`: how long the rest of a grid will take, from the cells that are done."""

from collections.abc import Sequence

from nacre.tasks.controls import CONTROLS
from nacre.train.cell import Cell


class Estimate:
    """Seconds of a grid's cells, one after the other."""

    def __init__(self) -> None:
        self._seconds: list[tuple[Cell, float]] = []

    def took(self, cell: Cell, seconds: float) -> None:
        """A cell was run."""
        self._seconds.append((cell, seconds))

    def left(self, cells: Sequence[Cell]) -> float | None:
        """Seconds that these cells will take; None as long as no model was trained.

        Each is taken to need the mean time of what is most like it: its model on its task, any model on its task,
        its model elsewhere, or any model. Controls are taken to need none.
        """
        trained = [(cell, seconds) for cell, seconds in self._seconds if cell.model not in CONTROLS]
        if not trained:
            return None
        return sum(_like(cell, trained) for cell in cells if cell.model not in CONTROLS)


def _like(cell: Cell, trained: list[tuple[Cell, float]]) -> float:
    task, model = cell.task.recipe.name, cell.model
    same_task = [(one, seconds) for one, seconds in trained if one.task.recipe.name == task]
    same_model = [(one, seconds) for one, seconds in trained if one.model == model]
    both = [pair for pair in same_task if pair[0].model == model]
    nearest = both or same_task or same_model or trained
    return sum(seconds for _, seconds in nearest) / len(nearest)


def in_words(seconds: float) -> str:
    """A duration, rounded.

    Example:
        >>> in_words(12), in_words(200), in_words(9000), in_words(300_000)
        ('12 s', '3 min', '2.5 h', '3.5 days')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
