"""`Bar`: shows how far training is, on a terminal as a bar, in a file as lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import lightning as L

from nacre.train.lightning_module import TRAIN_LOSS, VALID_LOSS

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PAUSE = 10.0  # seconds between lines, at least


class Bar(L.Callback):
    """Moves a progress bar, whose total is the number of steps.

    Args:
        progress: The bars.
        bar: This one.
        say: Prints a line: that training goes on from an earlier one, and, where the output is no terminal, after
            rounds how far it is. None for no lines.
    """

    def __init__(self, progress: Progress, bar: TaskID, say: Callable[[str], None] | None = None) -> None:
        self.progress, self.bar, self.say = progress, bar, say
        self.step = 0  # taken
        self._total = 0
        self._spoke = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Set the number of steps."""
        self._total = int(trainer.num_training_batches) * (trainer.max_epochs or 1)
        self.step = trainer.global_step
        self.progress.update(self.bar, total=self._total, completed=self.step)
        if self.step and self.say is not None:
            self.say(f"{self._name} goes on from step {self.step:,} of {self._total:,}")

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """One step further."""
        self.step = trainer.global_step
        self.progress.update(self.bar, completed=self.step)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show the validation loss, or that of training where there is none."""
        known = trainer.callback_metrics
        name, word = (VALID_LOSS, "validation") if VALID_LOSS in known else (TRAIN_LOSS, "training")
        loss = f"{word} loss {float(known[name]):.4g}"
        self.progress.update(self.bar, loss=loss)
        now = time.monotonic()
        if self.say is not None and not self.progress.console.is_terminal and now - self._spoke >= PAUSE:
            self._spoke = now
            self.say(f"{self._name}: step {self.step:,} of {self._total:,}, {loss}")

    @property
    def _name(self) -> str:
        return next(task.description for task in self.progress.tasks if task.id == self.bar)
