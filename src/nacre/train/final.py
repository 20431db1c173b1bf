"""Final runs: trained on all data, for as long as validation chose in the folds. Nothing is left to score them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING

import torch

from nacre.data.splits import Split
from nacre.tasks.controls import CONTROLS
from nacre.train.result import RESULT
from nacre.train.run import Run

if TYPE_CHECKING:  # cell.py imports this file
    from nacre.train.cell import Cell


@dataclass(frozen=True)
class Final:
    """How long a final run trains, and who says so.

    Example:
        >>> print(Final(rounds=20, round_steps=31, folds=(0, 1, 2)))
        trained on all data, 620 steps, the median of folds 0 to 2; its score is that of the folds
    """

    rounds: int
    round_steps: int
    folds: tuple[int, ...]  # whose validation parts chose

    @property
    def steps(self) -> int:
        """Steps in all; the learning rate ends there."""
        return self.rounds * self.round_steps

    def __str__(self) -> str:
        """What such a run is, in words."""
        said = f"trained on all data, {self.steps:,} steps, the median of {_folds(self.folds)}"
        return f"{said}; its score is that of the folds"


def final_cells(folds: Iterable[Cell]) -> list[Cell]:
    """A final cell for each task, model and seed among these cells, whose folds follow one another.

    Raises:
        ValueError: If the folds of one do not say how long to train, see `final_cell`.
    """
    return [final_cell(list(each)) for _, each in groupby(folds, lambda cell: (cell.directory.parent, cell.seed))]


def final_cell(folds: Sequence[Cell]) -> Cell:
    """The cell that trains on all data, for the median of the steps that validation chose in these folds.

    With an even number of folds, the median is rounded to whole rounds.

    Raises:
        ValueError: If it is a control, no fold is finished, or one was made with other settings, or diverged.
    """
    from nacre.train.fit import budget_of  # Lightning takes seconds to import

    first = folds[0]
    if first.model in CONTROLS:
        raise ValueError(f"{first.model} is a control, and --final trains models only; its folds can predict")
    done = [cell for cell in folds if cell.is_done()]  # raises if one is of other settings
    if not done:
        raise ValueError(
            f"no fold of {first.model}, seed {first.seed}, is finished in {first.directory.parent}, and folds say "
            "how long to train; run the same command without --final first"
        )
    chosen = sorted((_best_step(cell), cell.fold) for cell in done)
    middle = first.task.splits[chosen[(len(chosen) - 1) // 2][1]].train
    round_steps = budget_of(first.task.recipe.training, first.profile, len(middle)).steps
    rounds = max(1, round(median(step for step, _ in chosen) / round_steps))
    return on_all_data(first, Final(rounds, round_steps, tuple(cell.fold for cell in done)))


def on_all_data(cell: Cell, final: Final) -> Cell:
    """The cell with one split, whose training part is all that any fold trains on, validates on or scores."""
    parts = [part for split in cell.task.splits for part in (split.train, split.valid, split.test)]
    none = torch.empty(0, dtype=torch.int64)
    task = replace(cell.task, splits=[Split(torch.cat(parts).unique(), none, none)])
    return replace(cell, task=task, fold=0, final=final)


def _best_step(cell: Cell) -> int:
    """The step that validation chose in a finished fold."""
    result = Run.open(cell.directory).result
    budget = result.record["budget"]
    if result.diverged or budget.get("diverged"):
        raise ValueError(
            f"{cell.directory} diverged, so it does not say how long to train; lower the learning rate and train "
            "the folds again, or delete it to go by the other folds"
        )
    step = budget.get("best_step")
    if not isinstance(step, int) or step < 1:
        raise ValueError(
            f"{cell.directory / RESULT} does not say which step validation chose; delete {cell.directory} "
            "and train it again"
        )
    return step


def _folds(numbers: Sequence[int]) -> str:
    """In words.

    Example:
        >>> _folds([1]), _folds([0, 1, 2]), _folds([0, 2]), _folds([1, 3, 4])
        ('fold 1', 'folds 0 to 2', 'folds 0 and 2', 'folds 1, 3 and 4')
    """
    if len(numbers) == 1:
        return f"fold {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"folds {numbers[0]} to {numbers[-1]}"
    return f"folds {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
