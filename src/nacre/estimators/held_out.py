"""Train a network on data in memory: a held-out part chooses the checkpoint, and controls are scored on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from nacre.data.examples import examples_of
from nacre.estimators.trained import TrainedRun
from nacre.tasks.controls import controls_for, create_control
from nacre.tasks.metrics import metric_of
from nacre.train.cell import Cell
from nacre.train.evaluate import Scores, predict
from nacre.train.ranges import ranges_of
from nacre.train.run_cell import CellScores, describe, judged

if TYPE_CHECKING:
    import lightning as L

    from nacre.train.fit import Budget, Setting

EXAMPLES = 16  # held-out sequences that are kept


def train_held_out(
    cell: Cell, steps: int | None, setting: Setting, callbacks: Sequence[L.Callback] = (), told: str = ""
) -> TrainedRun:
    """Train the network of a cell whose split scores nothing, and judge it and the controls on the held-out part.

    Args:
        cell: What to train.
        steps: How many steps at most; None for those of the recipe.
        setting: Where and how.
        callbacks: Further callbacks.
        told: Who asks, for the record.

    Raises:
        ValueError: If training diverged.
    """
    from nacre.train.fit import fit  # Lightning takes seconds to import

    began = time.monotonic()
    task, split = cell.task, cell.split
    network = task.network(cell.model, cell.fold, cell.seed)
    budget = _budget(cell, steps)
    with TemporaryDirectory(prefix="nacre-") as folder:
        fitted = fit(
            network,
            task.data,
            split,
            task.recipe.training,
            budget,
            seed=cell.seed,
            directory=Path(folder),
            precision=cell.precision,
            callbacks=tuple(callbacks),
            setting=setting,
        )
        log = (Path(folder) / "log.csv").read_text()
    if fitted.diverged:
        raise ValueError(
            f"training diverged: the loss was not finite after {fitted.steps_taken:,} steps; lower learning_rate, "
            "and look for values of X or y that are far from all others"
        )
    planned = budget.rounds * budget.steps
    spent = {
        "profile": str(budget.profile),
        "steps": planned,
        "batch_size": task.recipe.training.batch_size,
        **asdict(fitted),
        **({} if fitted.stopped_early or fitted.steps_taken >= planned else {"interrupted": True}),
    }
    scores = judged(cell, split.valid, predict(network, task.data, split.valid))
    parameters = sum(p.numel() for p in network.parameters())
    found = CellScores(Scores({}, None), scores, parameters, spent)
    record = describe(cell, found, time.monotonic() - began)
    # Like a run on all data it has no test part: what chose the checkpoint is no fair score, and in no table.
    record |= {"final": {"held_out": len(split.valid), "by": told}, "controls": _controls(cell)}
    examples = examples_of(task.data, split.valid, EXAMPLES)
    ranges = ranges_of(task.data, split.train)
    return TrainedRun(network, task.recipe, task.columns, record, log, ranges, examples)


def _budget(cell: Cell, steps: int | None) -> Budget:
    """The budget of the recipe, or of so many steps at most in rounds of equal length."""
    from nacre.train.fit import budget_of

    budget = budget_of(cell.task.recipe.training, cell.profile, len(cell.split.train))
    if steps is None:
        return budget
    each = -(-steps // budget.rounds)
    return replace(budget, steps=each, rounds=steps // each)


def _controls(cell: Cell) -> dict[str, float]:
    """The metric that judges, of each control on the held-out part."""
    data, split = cell.task.data, cell.split
    name = metric_of(data.kind, cell.task.recipe.metric).name
    found = {}
    for control_name in controls_for(data):
        control = create_control(control_name, data)
        control.fit(data, split.train)
        found[control_name] = judged(cell, split.valid, control.predict(data, split.valid)).metrics[name]
    return found


def lost_to(record: dict) -> tuple[str, float] | None:
    """The best control, and what it reaches, if the network of a record does not beat it on the held-out part.

    Example:
        >>> lost_to({"metric": "mse", "better": "lower", "valid": {"mse": 0.5}, "controls": {"linear": 0.4}})
        ('linear', 0.4)
    """
    sign = 1 if record["better"] == "higher" else -1
    known = {name: value for name, value in record["controls"].items() if value == value}
    if not known:
        return None
    best = max(known, key=lambda name: sign * known[name])
    return None if sign * record["valid"][record["metric"]] > sign * known[best] else (best, known[best])
