"""Callbacks of training: a log, and early stopping. Both survive an interruption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import EarlyStopping

from nacre._util.files import write_atomic
from nacre._util.text import csv_text
from nacre.train.lightning_module import TRAIN_LOSS, VALID_LOSS

_COLUMNS = ("step", TRAIN_LOSS, VALID_LOSS)


class CsvLog(L.Callback):
    """One row for each round, in a CSV file; training ends where a loss is no longer finite.

    The rows are part of checkpoints, so that a resumed run has each of them once.
    """

    @property
    def state_key(self) -> str:
        """Key in checkpoints; those of older versions have it, too."""
        return "Log"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Add a row and write the file anew."""
        known = trainer.callback_metrics  # a final run has no validation
        losses = {name: float(known[name]) for name in (TRAIN_LOSS, VALID_LOSS) if name in known}
        self.rows.append({"step": trainer.global_step, **losses})
        if trainer.is_global_zero:
            write_atomic(self.path, csv_text(_COLUMNS, self.rows).encode())
        trainer.should_stop = trainer.should_stop or self.diverged

    @property
    def diverged(self) -> bool:
        """Whether a loss was not finite."""
        return not all(math.isfinite(value) for row in self.rows for value in row.values())

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stay stopped when a run is resumed that had diverged before it was interrupted."""
        trainer.should_stop = trainer.should_stop or self.diverged

    def state_dict(self) -> dict[str, Any]:
        """All rows so far."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.rows = list(state_dict["rows"])


class StopWhenStale(EarlyStopping):
    """Lightning's early stopping on the validation loss, which also stays stopped when a run is resumed."""

    def __init__(self, patience: int) -> None:
        super().__init__(VALID_LOSS, patience=patience, check_finite=False, check_on_train_epoch_end=True)

    @property
    def state_key(self) -> str:
        """Key in checkpoints; those of older versions have it, too."""
        return super().state_key.replace(type(self).__qualname__, "Patience")

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop at once if the run had stopped before it was interrupted."""
        if self.wait_count >= self.patience:
            trainer.should_stop = True
