"""`fit`: train a network with Lightning, resumable to the last bit."""

import logging
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from torch import Tensor
from torch.utils.data import DataLoader

from nacre.data.batches import Augmented, Indexed, Rounds, by_length, steps_of_epoch
from nacre.data.dataset import Dataset
from nacre.data.splits import Split, spread
from nacre.tasks.augment import augmentation_of
from nacre.tasks.losses import loss_of
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Precision, Profile
from nacre.tasks.recipe_sections import TrainingRecipe
from nacre.train.callbacks import CsvLog, StopWhenStale
from nacre.train.lightning_module import VALID_LOSS, Training
from nacre.train.scale.worker_group import ALONE, WorkerGroup

ROUNDS = {Profile.QUICK: 6, Profile.STANDARD: 20}  # validation, log and checkpoint come at the end of each
EVAL_BATCH = 256
_LAST = "last.ckpt"


@dataclass(frozen=True)
class Budget:
    """How long to train. A round ends with validation and a checkpoint."""

    profile: Profile
    rounds: int
    steps: int  # of a round
    patience: int  # rounds without a better validation loss before training ends
    valid: int | None  # sequences of the validation part that are used, at most


def budget_of(recipe: TrainingRecipe, profile: Profile, sequences: int) -> Budget:
    """The budget of a profile for so many training sequences, the same for every model."""
    if profile is Profile.PAPER:
        epoch = steps_of_epoch(sequences, recipe.batch_size)
        return Budget(profile, recipe.epochs, epoch, recipe.patience, None)
    rounds = ROUNDS[profile]
    steps = recipe.quick_steps if profile is Profile.QUICK else recipe.steps
    return Budget(profile, rounds, -(-steps // rounds), recipe.patience, recipe.quick_valid)


@dataclass(frozen=True)
class Fitted:
    """How training went."""

    steps_taken: int
    best_step: int  # of the checkpoint with the best validation loss, whose weights are kept
    stopped_early: bool  # by early stopping
    diverged: bool  # stopped by a loss that was not finite


@dataclass(frozen=True)
class Setting:
    """Where and how a network is trained, which does not change what is trained."""

    accelerator: str = "auto"  # one of Lightning's
    logger: Logger | Literal[False] | None = None  # of Lightning; None for TensorBoard in the directory
    keeps: bool = False  # whether Ctrl-C ends training with the best weights so far, if there are any


COMMAND = Setting()


def fit(
    network: TaskNetwork,
    data: Dataset,
    split: Split,
    recipe: TrainingRecipe,
    budget: Budget,
    *,
    seed: int,
    directory: Path,
    precision: Precision = Precision.FLOAT32,
    callbacks: tuple[L.Callback, ...] = (),
    group: WorkerGroup = ALONE,
    setting: Setting = COMMAND,
) -> Fitted:
    """Train a network on the training part and leave it with the weights that were best on the validation part.

    Where the validation part is empty, these are the last ones, and nothing stops training early.

    The scale of the network is fitted before. The seed is that of order, augmentation and dropout. If the
    directory holds a checkpoint of an interrupted run, training resumes from it; on a CPU the outcome is the same
    to the last bit. Every process of a group calls this, and ends with the same weights.
    """
    checkpoints = directory / "checkpoints"
    train, valid = _loaders(data, split, recipe, budget, seed)
    loss = loss_of(recipe, network, data, split.train)
    # Two callbacks: `save_last` of a single one would write only when the best is written.
    best, last = (
        ModelCheckpoint(
            checkpoints, name, monitor=monitor, enable_version_counter=False, save_on_train_epoch_end=True
        )
        for name, monitor in (("best", VALID_LOSS), ("last", None))
    )
    if precision is Precision.FLOAT64:
        network.double()  # Lightning converts only after it has loaded a checkpoint or broadcast weights
    stale, log = StopWhenStale(budget.patience), CsvLog(directory / "log.csv")
    judges, kept_by = ([stale, best], best) if valid is not None else ([], last)
    with _quiet():
        trainer = L.Trainer(
            accelerator=setting.accelerator,
            devices=group.processes.devices,
            num_nodes=group.processes.nodes,
            strategy="auto" if group.size == 1 else "ddp",
            precision=precision,  # pyright: ignore[reportArgumentType]
            max_epochs=budget.rounds,
            gradient_clip_val=recipe.clip,
            logger=TensorBoardLogger(directory, "tensorboard", "") if setting.logger is None else setting.logger,
            callbacks=[log, *judges, last, *callbacks],  # `last` comes after them, to hold their states
            log_every_n_steps=budget.steps,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        before = group.broadcast(_usable(checkpoints / _LAST, network) if group.leads else "") or None
        with _keyboard_interrupt(trainer, lambda: setting.keeps and bool(kept_by.best_model_path)):
            trainer.fit(
                Training(network, recipe, seed, budget.rounds * budget.steps, group, loss),
                train,
                valid,
                ckpt_path=before,
                weights_only=True,
            )
    kept = torch.load(kept_by.best_model_path, weights_only=True, map_location="cpu")
    network.cpu().load_state_dict({k.removeprefix("network."): v for k, v in kept["state_dict"].items()})
    stopped = stale.wait_count >= stale.patience
    return Fitted(trainer.global_step, kept["global_step"], stopped, log.diverged)


def looked_at(valid: Tensor, budget: Budget) -> Tensor:
    """The sequences of the validation part that a budget uses."""
    return valid if budget.valid is None else spread(valid, budget.valid)


def _loaders(
    data: Dataset, split: Split, recipe: TrainingRecipe, budget: Budget, seed: int
) -> tuple[DataLoader, DataLoader | None]:
    valid = looked_at(split.valid, budget)
    rounds = Rounds(data.length[split.train], split.train, recipe.batch_size, budget.steps, seed)
    batches = by_length(data.length[valid], valid, EVAL_BATCH)
    source = Indexed(data)
    changed = Augmented(data, augmentation_of(recipe.augment, data), seed) if recipe.augment else source
    train = DataLoader(changed, sampler=rounds, batch_size=None)
    if not len(valid):
        return train, None
    return train, DataLoader(source, sampler=batches, batch_size=None)  # pyright: ignore[reportArgumentType]


def _usable(checkpoint: Path, network: TaskNetwork) -> str:
    """The path of the checkpoint if it can be read, is of this network, and lies where it was written.

    The latter because it knows the best one by path. If not, all checkpoints are deleted and training starts
    again: the path is empty.
    """
    if not checkpoint.exists():
        return ""
    try:
        saved = torch.load(checkpoint, weights_only=True, map_location="cpu")
        fits = saved["state_dict"].keys() == {f"network.{name}" for name in network.state_dict()}
        places = {state["dirpath"] for state in saved["callbacks"].values() if "dirpath" in state}
    except Exception:  # whatever a damaged archive makes torch raise
        fits, places = False, set()
    if fits and places == {str(checkpoint.parent.resolve())}:
        return str(checkpoint)
    for file in checkpoint.parent.glob("*.ckpt"):
        file.unlink()
    return ""


@contextmanager
def _keyboard_interrupt(trainer: L.Trainer, enough: Callable[[], bool]) -> Iterator[None]:
    """Lightning turns Ctrl-C into exit code 1 and ignores the next one; make it KeyboardInterrupt again.

    Where there is `enough` already, training just ends.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit:
        if trainer.interrupted:
            signal.signal(signal.SIGINT, before)
            if enough():
                return
            raise KeyboardInterrupt from None
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's advertisements, and its advice on data workers: batches are cut from memory."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
