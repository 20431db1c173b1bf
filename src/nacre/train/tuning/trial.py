"""One trial: a recipe is trained, and judged on the validation part. The test part stays unseen."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import lightning as L

from nacre._util.files import write_atomic
from nacre.tasks.recipe import Profile, Recipe
from nacre.tasks.task import Task
from nacre.train.callbacks import Log
from nacre.train.cell import CHECKPOINTS, Cell
from nacre.train.fit import budget_of, fit
from nacre.train.lightning_module import VALID_LOSS

OnRound = Callable[[int, float], bool]

TRIED = "tried.json"


class Pruned(Exception):
    """The trial was not worth going on with."""


@dataclass(frozen=True)
class Tried:
    """What became of a recipe.

    Attributes:
        value: Best validation loss of a fold, in the mean over folds.
        parameters: Trainable numbers of the network.
    """

    value: float
    parameters: int


@dataclass(frozen=True)
class Setting:
    """What all trials of a search have in common.

    Attributes:
        task: The task.
        model: Name of the model.
        profile: How much to train.
        folds: How many folds a recipe is judged on.
        seed: Seed of weights, order and dropout.
        out: Where trials go.
    """

    task: Task
    model: str
    profile: Profile
    folds: int
    seed: int
    out: Path

    def cell(self, recipe: Recipe, fold: int) -> Cell:
        """Where a recipe is trained. It is found again by its values, so that a trial that was cut off goes on."""
        task = replace(self.task, recipe=recipe)
        return Cell(task, self.model, fold, self.seed, self.profile, self.out / "trials" / recipe.digest[:16])


def try_recipe(setting: Setting, recipe: Recipe, on_round: OnRound) -> Tried:
    """Train a recipe fold by fold, or read what became of it.

    Args:
        setting: Task, model and budget.
        recipe: The recipe.
        on_round: Is told the number of a round of the first fold, from 1 on, and its validation loss, and says
            whether to stop.

    Raises:
        Pruned: If it was stopped.
        RuntimeError: If no round has a finite loss.
        LockedElsewhere: If another process is at work on the same recipe.
    """
    losses, parameters = [], 0
    for fold in range(setting.folds):
        cell = setting.cell(recipe, fold)
        cell.directory.mkdir(parents=True, exist_ok=True)
        with cell.lock():
            rounds, parameters = _rounds(cell, on_round if fold == 0 else _never)
        finite = [loss for loss in rounds if math.isfinite(loss)]
        if not finite:
            raise RuntimeError("training diverged in its first round")
        losses.append(min(finite))
    return Tried(mean(losses), parameters)


def _never(number: int, loss: float) -> bool:
    return False


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
    task, recipe = cell.task, cell.task.recipe
    network = task.network(cell.model, cell.fold, cell.seed)
    budget = budget_of(recipe.training, cell.profile, len(cell.split.train))
    watch = _Watch(on_round)
    fit(
        network,
        task.data,
        cell.split,
        recipe.training,
        budget,
        seed=cell.seed,
        directory=cell.directory,
        callbacks=(watch,),
    )
    shutil.rmtree(cell.directory / CHECKPOINTS, ignore_errors=True)
    if watch.stopped:
        raise Pruned
    parameters = sum(p.numel() for p in network.parameters())
    plain = [loss if math.isfinite(loss) else None for loss in watch.losses]
    write_atomic(path, json.dumps({"rounds": plain, "parameters": parameters}).encode())
    return watch.losses, parameters


class _Watch(L.Callback):
    """Passes the loss of each round on, also of those before an interruption, and stops when told to."""

    def __init__(self, on_round: OnRound) -> None:
        self.on_round = on_round
        self.losses: list[float] = []
        self.stopped = False

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._pass_on(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._pass_on(trainer)

    def _pass_on(self, trainer: L.Trainer) -> None:
        log = next(c for c in trainer.callbacks if isinstance(c, Log))  # pyright: ignore[reportAttributeAccessIssue]
        for row in log.rows[len(self.losses) :]:
            self.losses.append(row[VALID_LOSS])
            self.stopped = self.stopped or self.on_round(len(self.losses), row[VALID_LOSS])
        trainer.should_stop = trainer.should_stop or self.stopped
