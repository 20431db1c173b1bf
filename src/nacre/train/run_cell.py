"""`run_cell`: train and test one cell, and write its run directory."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre.data.dataset import Dataset, Kind
from nacre.data.splits import Split
from nacre.io import save
from nacre.tasks.controls import CONTROLS, create_control
from nacre.tasks.controls.saved import save_control
from nacre.tasks.further_metrics import middle
from nacre.tasks.metrics import answers_of, metric_of
from nacre.tasks.network import TaskNetwork
from nacre.tasks.paper_units import paper_metrics
from nacre.tasks.scaling import answer_scale
from nacre.train.cell import Cell
from nacre.train.evaluate import Scores, predict, score
from nacre.train.ranges import write_ranges
from nacre.train.result import FORMAT
from nacre.train.run import CHECKPOINTS, CONTROL, MODEL, Run
from nacre.train.scale.worker_group import ALONE, WorkerGroup

if TYPE_CHECKING:
    import lightning as L

    from nacre.train.fit import Budget, Fitted

KEPT_PREDICTIONS = 500  # first test windows of a forecast, for figures


def run_cell(cell: Cell, callbacks: tuple[L.Callback, ...] = (), group: WorkerGroup = ALONE) -> dict[str, Any]:
    """Train and test, and write the run directory. The result file, which is returned, comes last and whole.

    Args:
        cell: What to run.
        callbacks: Further callbacks for training.
        group: The processes that train with this one, which leads; the others call `help_with`.

    Raises:
        LockedElsewhere: If another process is at work on it.
    """
    directory = cell.directory
    directory.mkdir(parents=True, exist_ok=True)
    with cell.lock():
        if cell.is_done():  # by another process, since we looked
            return Run.open(directory).result.record
        cell.start()
        began = time.monotonic()
        found = _run_control(cell) if cell.model in CONTROLS else _run_model(cell, callbacks, group)
        write_ranges(directory, cell.task.data, cell.split.train)
        result = describe(cell, found, time.monotonic() - began)
        result = Run.write(directory, result, cell.task.recipe, cell.task.columns)
        shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)  # only now: the result stands without them
    return result


@dataclass(frozen=True)
class CellScores:
    """What a cell found, and what it took."""

    test: Scores
    valid: Scores
    parameters: int
    budget: dict[str, Any]


def help_with(cell: Cell, group: WorkerGroup) -> None:
    """Train a cell with the leader, if it calls, and leave all the rest to it."""
    if group.called():
        with group.in_step():
            fit_cell(cell, cell.task.network(cell.model, cell.fold, cell.seed), (), group)


def fit_cell(
    cell: Cell, network: TaskNetwork, callbacks: tuple[L.Callback, ...] = (), group: WorkerGroup = ALONE
) -> tuple[Budget, Fitted]:
    """Train the network of a cell, without testing it."""
    from nacre.train.fit import budget_of, fit  # Lightning takes seconds to import

    training = cell.task.recipe.training
    budget = budget_of(training, cell.profile, len(cell.split.train))
    if cell.final is not None:
        budget = replace(budget, rounds=cell.final.rounds, steps=cell.final.round_steps)
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
        group=group,
    )
    return budget, fitted


def _run_model(cell: Cell, callbacks: tuple[L.Callback, ...], group: WorkerGroup) -> CellScores:
    from nacre.train.fit import looked_at

    task, split = cell.task, cell.split
    network = task.network(cell.model, cell.fold, cell.seed)
    group.begin()
    with group.in_step():
        budget, fitted = fit_cell(cell, network, callbacks, group)
    if cell.final is not None and fitted.diverged:
        raise ValueError(f"training on all data diverged at step {fitted.steps_taken:,}; lower the learning rate")
    test, valid = _scores(cell, partial(predict, network, task.data), looked_at(split.valid, budget))
    save(network, cell.directory / MODEL)
    parameters = sum(p.numel() for p in network.parameters())
    spent = {
        "profile": str(budget.profile),
        "steps": budget.rounds * budget.steps,
        "batch_size": task.recipe.training.batch_size,
        **asdict(fitted),
        **({"processes": group.size, "strategy": "ddp"} if group.size > 1 else {}),
    }
    return CellScores(test, valid, parameters, spent)


def _run_control(cell: Cell) -> CellScores:
    task, split = cell.task, cell.split
    control = create_control(cell.model, task.data)
    control.fit(task.data, split.train)
    test, valid = _scores(cell, partial(control.predict, task.data), split.valid)
    save_control(control, cell.directory / CONTROL)
    return CellScores(test, valid, control.parameters, {"profile": str(cell.profile), "steps": 0, "batch_size": 0})


def _scores(cell: Cell, answer: Callable[[Tensor], Tensor], validation: Tensor) -> tuple[Scores, Scores]:
    """Metrics of the test part, with those that only this data set has, and of the validation part."""
    if cell.final is not None:
        return Scores({}, None), Scores({}, None)
    data, split = cell.task.data, cell.split
    levels = cell.task.recipe.training.levels
    outputs = answer(split.test)
    point = middle(outputs, data.outputs, levels)
    _keep_predictions(cell, point)
    test = judged(cell, split.test, outputs)
    if data.metrics is not None:
        everything = torch.cat([split.test, split.transfer])
        more = middle(answer(split.transfer), data.outputs, levels) if len(split.transfer) else point[:0]
        test.metrics.update(data.metrics.of(everything, torch.cat([point, more]), data.y[everything]))
    return test, judged(cell, validation, answer(validation))


def judged(cell: Cell, index: Tensor, outputs: Tensor) -> Scores:
    """Metrics of outputs for these sequences, in our unit and in those of the paper."""
    data, split, levels = cell.task.data, cell.split, cell.task.recipe.training.levels
    scores = score(data, index, outputs, unit_of(data, split), levels)
    known, point = torch.cat([split.train, split.valid]), middle(outputs, data.outputs, levels)
    scores.metrics.update(paper_metrics(data, known, point, answers_of(data, index)))
    return scores


def unit_of(data: Dataset, split: Split) -> Tensor:
    """[D] what errors are measured in: the spread of the answers outside the test part.

    Folds that are scored on one test part share it, so their metrics differ by the models and not by the unit.
    """
    if not data.kind.has_numbers:
        return torch.ones(1)
    return answer_scale(data, torch.cat([split.train, split.valid]).sort().values)[1]


def describe(cell: Cell, found: CellScores, seconds: float) -> dict[str, Any]:
    """The fields of a result file."""
    task, data, split = cell.task, cell.task.data, cell.split
    metric = metric_of(data.kind, task.recipe.metric)
    return {
        "format": FORMAT,
        "task": task.recipe.name,
        "column": task.recipe.column,
        "model": cell.model,
        "version": cell.version,
        **({} if cell.stranger is None else {"source": cell.stranger.describe()}),
        **({} if cell.final is None else {"final": {"folds": list(cell.final.folds)}}),
        "control": cell.model in CONTROLS,
        "fold": cell.fold,
        "folds": len(task.splits),
        "seed": cell.seed,
        "kind": str(data.kind),
        "metric": metric.name,
        "better": "higher" if metric.higher_is_better else "lower",
        "value": found.test.metrics[metric.name] if len(split.test) else None,
        "metrics": found.test.metrics,
        "valid": found.valid.metrics,
        **({"undefined": list(found.test.notes)} if found.test.notes else {}),
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
        "recipe": cell.identity.settings,
        "fingerprint": cell.fingerprint(),
        "confusion": None if found.test.confusion is None else found.test.confusion.tolist(),
        "classes": list(data.classes),
        "targets": list(data.targets),
        "provenance": provenance(None),
    }


def _keep_predictions(cell: Cell, outputs: Tensor) -> None:
    """Write the first test windows of a forecast, for figures."""
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
