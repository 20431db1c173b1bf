"""One trial: a recipe is trained, and judged on the validation part. The test part stays unseen."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import lightning as L

from nacre._util.files import write_atomic
from nacre._util.text import json_text
from nacre.models._search_space import Space
from nacre.tasks.recipe import Profile, Recipe
from nacre.tasks.task import Task
from nacre.train.callbacks import CsvLog
from nacre.train.cell import Cell
from nacre.train.lightning_module import VALID_LOSS
from nacre.train.run import CHECKPOINTS
from nacre.train.run_cell import fit_cell
from nacre.train.tuning.space import start_of

OnRound = Callable[[int, float], bool]

TRIED = "tried.json"


class Pruned(Exception):
    """The trial was pruned."""


@dataclass(frozen=True)
class Tried:
    """Result of a trial."""

    value: float  # best validation loss of a fold, in the mean over folds
    parameters: int  # of the network


@dataclass(frozen=True)
class SearchContext:
    """What all trials of a search have in common."""

    task: Task
    model: str
    profile: Profile
    folds: int  # how many a recipe is judged on
    seed: int  # of weights, order and dropout
    out: Path
    space: Space

    @property
    def start(self) -> dict[str, Any]:
        """The point of the space where the search begins: the recipe, or the nearest one."""
        return start_of(self.task.recipe, self.model, self.space)

    def describe(self) -> dict[str, Any]:
        """The search as plain data."""
        return {
            "task": self.task.recipe.name,
            "model": self.model,
            "profile": str(self.profile),
            "folds": self.folds,
            "seed": self.seed,
            "space": {name: str(dimension) for name, dimension in self.space.items()},
        }

    def cell(self, recipe: Recipe, fold: int) -> Cell:
        """The cell of a recipe. Equal values have the same directory, so that an interrupted trial resumes."""
        task = replace(self.task, recipe=recipe)
        return Cell(task, self.model, fold, self.seed, self.profile, self.out / "trials" / recipe.digest[:16])


def try_recipe(context: SearchContext, recipe: Recipe, on_round: OnRound) -> Tried:
    """Train a recipe fold by fold, or read the result if it is there.

    After each round of the first fold `on_round` gets its number, from 1 on, and its validation loss, and returns
    whether to stop.

    Raises:
        Pruned: If it was stopped.
        RuntimeError: If no round has a finite loss.
        LockedElsewhere: If another process is at work on the same recipe.
    """
    losses, parameters = [], 0
    for fold in range(context.folds):
        cell = context.cell(recipe, fold)
        cell.directory.mkdir(parents=True, exist_ok=True)
        with cell.lock():
            rounds, parameters = _rounds(cell, on_round if fold == 0 else lambda number, loss: False)
        finite = [loss for loss in rounds if math.isfinite(loss)]
        if not finite:
            raise RuntimeError("training diverged in its first round")
        losses.append(min(finite))
    return Tried(mean(losses), parameters)


def _rounds(cell: Cell, on_round: OnRound) -> tuple[list[float], int]:
    """Validation losses of all rounds, and the size of the network."""
    path = cell.directory / TRIED
    if path.exists():
        found = json.loads(path.read_bytes())
        rounds = [math.nan if loss is None else loss for loss in found["rounds"]]
        if any(on_round(i, loss) for i, loss in enumerate(rounds, 1)):
            raise Pruned
        return rounds, found["parameters"]
    cell.start()
    network = cell.task.network(cell.model, cell.fold, cell.seed)
    watch = _Watch(on_round)
    fit_cell(cell, network, (watch,))
    shutil.rmtree(cell.directory / CHECKPOINTS, ignore_errors=True)
    if watch.stopped:
        raise Pruned
    parameters = sum(p.numel() for p in network.parameters())
    write_atomic(path, json_text({"rounds": watch.losses, "parameters": parameters}).encode())
    return watch.losses, parameters


class _Watch(L.Callback):
    """Passes on the loss of each round, also of those before an interruption, and stops training if asked to."""

    def __init__(self, on_round: OnRound) -> None:
        self.on_round = on_round
        self.losses: list[float] = []
        self.stopped = False

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._pass_on(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._pass_on(trainer)

    def _pass_on(self, trainer: L.Trainer) -> None:
        log = next(c for c in trainer.callbacks if isinstance(c, CsvLog))  # pyright: ignore[reportAttributeAccessIssue]
        for row in log.rows[len(self.losses) :]:
            self.losses.append(row[VALID_LOSS])
            self.stopped = self.stopped or self.on_round(len(self.losses), row[VALID_LOSS])
        trainer.should_stop = trainer.should_stop or self.stopped
