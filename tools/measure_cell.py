"""Measure where the time of cells goes, into results/cell-time.json: python tools/measure_cell.py [TASK ...].

Fold 0 in the standard profile, on one thread, in seconds of the processor, so that other work hardly counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import lightning as L
import torch
from lightning.pytorch.profilers import Profiler
from measured import provenance, write_result

from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.cell import Cell
from nacre.train.run_cell import run_cell

TASKS = ("ettm1-irregular", "ettm1-gaps", "spiral", "person-activity")
MODELS = ("sdpa", "nac-plus")
# Parts of a cell, by how the names that Lightning gives to its actions end.
PARTS = {
    "network": ("Training.optimizer_step",),  # with the forward and backward pass
    "data": ("train_dataloader_next", ".batch_to_device"),
    "validation": (".validation_step", "val_next"),
    "checkpoints": (".on_train_epoch_end",),
}


class Seconds(Profiler):
    """Processor time of Lightning's actions."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[str, float] = {}
        self.total: dict[str, float] = {}

    def start(self, action_name: str) -> None:
        """An action begins."""
        self.begun[action_name] = time.process_time()

    def stop(self, action_name: str) -> None:
        """An action ends."""
        taken = time.process_time() - self.begun.pop(action_name)
        self.total[action_name] = self.total.get(action_name, 0.0) + taken


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    result: dict[str, Any] = provenance()
    result["command"] = " ".join([result["command"], *sys.argv[1:]])
    result["cells"] = [of_cell(task, model) for task in sys.argv[1:] or TASKS for model in MODELS]
    write_result("cell-time.json", result)


def of_cell(name: str, model: str) -> dict[str, Any]:
    """Shares of the parts of one cell."""
    task = load_task(load_recipe(name).at(Profile.STANDARD))
    profiler, trainer = Seconds(), L.Trainer
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        with mock.patch("lightning.Trainer", lambda **words: trainer(**words, profiler=profiler)):
            run_cell(Cell(task, model, 0, 0, Profile.STANDARD, Path(folder)))
        whole = time.process_time() - began
    parts = {
        part: sum(taken for action, taken in profiler.total.items() if action.endswith(ends))
        for part, ends in PARTS.items()
    }
    parts["rest"] = whole - sum(parts.values())
    return {"task": name, "model": model, "seconds": {part: round(taken, 2) for part, taken in parts.items()}}


if __name__ == "__main__":
    main()
