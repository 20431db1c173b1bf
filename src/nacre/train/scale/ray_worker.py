"""What a Ray worker does: one cell. Ray itself is not needed here."""

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nacre._util.locks import LockedElsewhere
from nacre._version import __version__
from nacre.tasks.recipe import Precision, Profile, Recipe
from nacre.tasks.task import Task, load_task
from nacre.train.cell import Cell
from nacre.train.final import Final, on_all_data
from nacre.train.run_cell import run_cell
from nacre.train.scale.worker_group import FAILURES

SETTINGS = ("NACRE_DATA", "NACRE_CACHE")  # of the driver's environment; they say where data lies


@dataclass(frozen=True)
class Setup:
    """What all cells of a grid share: plain data, which is sent to workers; data sets are not."""

    data_dir: str | None
    threads: int  # of torch
    gpus: float  # of each cell
    command: tuple[str, ...]  # command line of the driver, for the result file
    settings: dict[str, str]  # of the driver's environment
    version: str = __version__  # of the driver's nacre


@dataclass(frozen=True)
class Job:
    """One cell as plain data."""

    recipe: Recipe
    model: str
    fold: int
    seed: int
    profile: Profile
    out: str  # the same on every node
    precision: Precision
    fingerprint: str  # of the driver's cell
    final: Final | None = None


@dataclass(frozen=True)
class CellOutcome:
    """What became of a cell. Without result and error, another process is at work on it."""

    node: str  # name of the machine
    result: dict[str, Any] | None = None
    error: str = ""


def job_of(cell: Cell) -> Job:
    """A cell as plain data."""
    return Job(
        cell.task.recipe,
        cell.model,
        cell.fold,
        cell.seed,
        cell.profile,
        str(cell.out.resolve()),
        cell.precision,
        cell.fingerprint(),
        cell.final,
    )


def run_job(job: Job, setup: Setup) -> CellOutcome:
    """Run a cell here. Errors are part of the outcome: only a cell whose process died is tried again."""
    node = platform.node()
    try:
        _prepare(setup)
        return CellOutcome(node, _run(job, setup))
    except LockedElsewhere:
        return CellOutcome(node)
    except (*FAILURES, OSError) as error:
        return CellOutcome(node, error=str(error) or type(error).__name__)


def _prepare(setup: Setup) -> None:
    if setup.version != __version__:
        raise ValueError(
            f"{platform.node()} has nacre {__version__}, not {setup.version}; install the same everywhere"
        )
    if not setup.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # or every cell would take the first one
    os.environ.update(setup.settings)
    sys.argv = list(setup.command)
    torch.set_num_threads(setup.threads)


def _run(job: Job, setup: Setup) -> dict[str, Any]:
    task = _task(job.recipe, setup.data_dir)
    cell = Cell(task, job.model, job.fold, job.seed, job.profile, Path(job.out), job.precision)
    if job.final is not None:
        cell = on_all_data(cell, job.final)
    if cell.fingerprint() != job.fingerprint:
        raise ValueError(f"{platform.node()} has other data for {job.recipe.name}; all nodes need the same files")
    return run_cell(cell)


_tasks: dict[tuple[str, str, str | None], Task] = {}


def _task(recipe: Recipe, data_dir: str | None) -> Task:
    """The task with its data, which this process reads once."""
    # The digest leaves out where a file of one's own lies.
    key = recipe.digest, str(recipe.data.get("csv", "")), data_dir
    if key not in _tasks:
        _tasks[key] = load_task(recipe, None if data_dir is None else Path(data_dir))
    return _tasks[key]
