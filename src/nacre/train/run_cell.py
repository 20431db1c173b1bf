"""`run_cell`: train and test one cell, and write its run directory."""

from __future__ import annotations

import io
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre.data.dataset import Kind
from nacre.io import save
from nacre.tasks.answers import answers_of
from nacre.tasks.controls.registry import CONTROLS, create_control
from nacre.tasks.metrics import metric_of
from nacre.tasks.network import TaskNetwork, answer_scale
from nacre.tasks.recipe import to_toml
from nacre.train.cell import CHECKPOINTS, RESULT, Cell
from nacre.train.evaluate import Scores, predict, score
from nacre.train.scale.worker_group import ALONE, Team

if TYPE_CHECKING:
    import lightning as L

    from nacre.train.fit import Budget, Fitted

FORMAT = 1
KEPT_PREDICTIONS = 500  # first test windows of a forecast, for pictures


def run_cell(cell: Cell, callbacks: tuple[L.Callback, ...] = (), team: Team = ALONE) -> dict[str, Any]:
    """Train and test, and write the run directory. The result file comes last and whole.

    Args:
        cell: What to run.
        callbacks: Further callbacks for training.
        team: The processes that train with this one, which leads; the others call `help_with`.

    Returns:
        What the result file holds.

    Raises:
        LockedElsewhere: If another process is at work on it.
    """
    directory = cell.directory
    directory.mkdir(parents=True, exist_ok=True)
    with cell.lock():
        if cell.is_done():  # by another process, since we looked
            return json.loads((directory / RESULT).read_bytes())
        cell.start()
        began = time.monotonic()
        found = _run_control(cell) if cell.model in CONTROLS else _run_model(cell, callbacks, team)
        result = _without_nan(_describe(cell, found, time.monotonic() - began))
        write_atomic(directory / "recipe.toml", to_toml(cell.task.recipe).encode())
        if cell.task.columns is not None:
            write_atomic(directory / "columns.json", json.dumps(cell.task.columns.to_dict(), indent=1).encode())
        write_atomic(directory / RESULT, json.dumps(result, indent=1, allow_nan=False).encode())
        shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)  # only now: the result stands without them
    return result


@dataclass(frozen=True)
class _Found:
    test: Scores
    valid: Scores
    parameters: int
    budget: dict[str, Any]


def help_with(cell: Cell, team: Team) -> None:
    """Train a cell with the process that leads, if it calls, and leave all the rest to it."""
    if team.called():
        with team.in_step():
            _fit(cell, cell.task.network(cell.model, cell.fold, cell.seed), (), team)


def _fit(cell: Cell, network: TaskNetwork, callbacks: tuple[L.Callback, ...], team: Team) -> tuple[Budget, Fitted]:
    from nacre.train.fit import budget_of, fit  # Lightning takes seconds to import

    training = cell.task.recipe.training
    budget = budget_of(training, cell.profile, len(cell.split.train))
    fitted = fit(
        network,
        cell.task.data,
        cell.split,
        training,
        budget,
        seed=cell.seed,
        directory=cell.directory,
        precision=cell.precision,
        callbacks=callbacks,
        team=team,
    )
    return budget, fitted


def _run_model(cell: Cell, callbacks: tuple[L.Callback, ...], team: Team) -> _Found:
    from nacre.train.fit import looked_at

    task, split = cell.task, cell.split
    network = task.network(cell.model, cell.fold, cell.seed)
    team.begin()
    with team.in_step():
        budget, fitted = _fit(cell, network, callbacks, team)
    outputs, unit = predict(network, task.data, split.test), _unit(cell)
    test = _scored(cell, outputs, partial(predict, network, task.data))
    looked = looked_at(split.valid, budget)
    valid = score(task.data, looked, predict(network, task.data, looked), unit)
    save(network, cell.directory / "model")
    _keep_predictions(cell, outputs)
    parameters = sum(p.numel() for p in network.parameters())
    return _Found(test, valid, parameters, _budget(cell, budget, fitted, team))


def _run_control(cell: Cell) -> _Found:
    task, split = cell.task, cell.split
    control = create_control(cell.model, task.data)
    control.fit(task.data, split.train)
    outputs, unit = control.predict(task.data, split.test), _unit(cell)
    test = _scored(cell, outputs, partial(control.predict, task.data))
    valid = score(task.data, split.valid, control.predict(task.data, split.valid), unit)
    _keep_predictions(cell, outputs)
    return _Found(test, valid, control.parameters, {"profile": str(cell.profile), "steps": 0, "batch_size": 0})


def _scored(cell: Cell, outputs: Tensor, answer: Callable[[Tensor], Tensor]) -> Scores:
    """Figures of the test part, and those that only this data set has, of other machines too."""
    data, split = cell.task.data, cell.split
    test = score(data, split.test, outputs, _unit(cell))
    if data.figures is None:
        return test
    everything = torch.cat([split.test, split.transfer])
    more = answer(split.transfer) if len(split.transfer) else outputs[:0]
    figures = data.figures.of(everything, torch.cat([outputs, more]), data.y[everything])
    return Scores({**test.metrics, **figures}, test.confusion)


def _unit(cell: Cell) -> Tensor:
    """[D] what errors are measured in: the spread of the answers outside the test part.

    Folds that are scored on one test part share it, so their figures differ by the models and not by the unit.
    """
    data, split = cell.task.data, cell.split
    if data.kind.has_classes:
        return torch.ones(1)
    return answer_scale(data, torch.cat([split.train, split.valid]).sort().values)[1]


def _budget(cell: Cell, budget: Budget, fitted: Fitted, team: Team) -> dict[str, Any]:
    several = {"processes": team.size, "strategy": "ddp"}
    return {
        "profile": str(budget.profile),
        "steps": budget.rounds * budget.steps,
        "batch_size": cell.task.recipe.training.batch_size,
        **asdict(fitted),
        **(several if team.size > 1 else {}),
    }


def _describe(cell: Cell, found: _Found, seconds: float) -> dict[str, Any]:
    task, data, split = cell.task, cell.task.data, cell.split
    metric = metric_of(data.kind)
    return {
        "format": FORMAT,
        "task": task.recipe.name,
        "column": task.recipe.column,
        "model": cell.model,
        "control": cell.model in CONTROLS,
        "fold": cell.fold,
        "folds": len(task.splits),
        "seed": cell.seed,
        "kind": str(data.kind),
        "metric": metric.name,
        "better": "higher" if metric.higher_is_better else "lower",
        "value": found.test.metrics[metric.name],
        "metrics": found.test.metrics,
        "valid": found.valid.metrics,
        "parameters": found.parameters,
        "seconds": round(seconds, 2),
        "budget": {**found.budget, "precision": cell.precision},
        "data": {
            "name": data.name,
            "form": data.form,
            "digest": data.digest,
            "files": data.files,
            "notes": list(data.notes),
            "train": len(split.train),
            "valid": len(split.valid),
            "test": len(split.test),
        },
        "split": split.digest,
        "recipe": task.recipe.digest,
        "fingerprint": cell.fingerprint(),
        "confusion": None if found.test.confusion is None else found.test.confusion.tolist(),
        "classes": list(data.classes),
        "targets": list(data.targets),
        "provenance": provenance(None),
    }


def _without_nan(value: Any) -> Any:  # noqa: ANN401
    """Plain data in which numbers that are not finite are None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _keep_predictions(cell: Cell, outputs: Tensor) -> None:
    """The first test windows of a forecast, for pictures."""
    data, test = cell.task.data, cell.split.test
    if data.kind is not Kind.FORECASTING:
        return
    first = test[:KEPT_PREDICTIONS]
    file = io.BytesIO()
    step = np.diff(data.time[: data.length[0]].numpy())
    np.savez_compressed(
        file,
        prediction=outputs[: len(first)].numpy(),
        truth=answers_of(data, first).numpy(),
        start=first.numpy(),
        step=np.median(step),
        unit=data.time_unit,
    )
    write_atomic(cell.directory / "predictions.npz", file.getvalue())
