"""A grid of cells: tasks, models, folds, seeds. What is done is skipped: start it as often as you like."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import there_are, whole
from nacre.models._registry import list_models
from nacre.tasks.controls.registry import CONTROLS, controls_for
from nacre.tasks.recipe import Precision, Profile, load_recipe
from nacre.tasks.task import Task, load_task
from nacre.train.cell import Cell
from nacre.train.grid_serial import follow, run_serial
from nacre.train.progress_report import Report
from nacre.train.scale.options import Executor, Scale
from nacre.train.scale.worker_group import FAILURES, team_of


@dataclass(frozen=True)
class Grid:
    """What to run.

    Attributes:
        tasks: Names of tasks, or recipe files.
        models: Names or patterns of models and controls.
        profile: How much to train.
        folds: How many of the recipe's folds, from the first on; None for all.
        seeds: Seeds.
        out: Directory of runs.
        data_dir: Where data files lie.
        precision: As in Lightning.
        controls: Whether the controls of each task are run, too.
        scale: Who runs it.
    """

    tasks: Sequence[str]
    models: Sequence[str] = ("nac",)
    profile: Profile = Profile.PAPER
    folds: int | None = None
    seeds: Sequence[int] = (0,)
    out: Path = Path("runs")
    data_dir: Path | None = None
    precision: Precision = Precision.FLOAT32
    controls: bool = True
    scale: Scale = field(default_factory=Scale)


def run_grid(grid: Grid) -> list[dict[str, Any]]:
    """Run what is not done yet, and print each result.

    A cell that fails is reported and the rest goes on.

    Returns:
        The results made now, by this process if several share each cell.

    Raises:
        ValueError: Before anything is run, for a name or number that makes no sense; at the end, if cells failed.
    """
    with team_of(grid.scale.processes) as team:
        report = Report(Console(quiet=not team.leads))
        try:
            with team.in_step():
                todo = plan(grid, report)
        except (*FAILURES, OSError):
            if team.leads:
                raise
            return []
        if not team.leads:
            follow(todo, team)
        elif grid.scale.executor is Executor.RAY:
            from nacre.train.scale.ray_grid import run_ray

            run_ray(todo, grid.scale.cluster, grid.data_dir, report)
        else:
            run_serial(todo, report, team)
    return report.finish()


def plan(grid: Grid, report: Report) -> list[Cell]:
    """The cells of a grid, with their data.

    Raises:
        ValueError: If a name or number makes no sense.
    """
    models = expand_models(grid.models)
    tasks = [load_task(load_recipe(name), grid.data_dir) for name in grid.tasks]
    for task in tasks:
        report.introduce(task)
    todo = list(cells(grid, tasks, models))
    idle = set(models) - {cell.model for cell in todo}
    if idle:
        names = ", ".join(dict.fromkeys(name for task in tasks for name in controls_for(task.data)))
        raise ValueError(f"{', '.join(sorted(idle))} makes no sense for these tasks; their controls are {names}")
    return todo


def cells(grid: Grid, tasks: Sequence[Task], models: Sequence[str]) -> Iterator[Cell]:
    """All cells: controls, then model after model, each over all tasks, so that a part of a grid is of use."""
    controls = [name for name in CONTROLS if grid.controls]
    for model in dict.fromkeys([*controls, *models]):
        for task in tasks:
            if model in CONTROLS and model not in controls_for(task.data):
                continue
            folds = len(task.splits) if grid.folds is None else whole("folds", grid.folds, 1)
            if folds > len(task.splits):
                raise ValueError(f"folds must be at most {len(task.splits)} for {task.recipe.name}, got {folds}")
            for seed in grid.seeds:
                for fold in range(folds):
                    yield Cell(task, model, fold, seed, grid.profile, grid.out, grid.precision)


def expand_models(names: Iterable[str]) -> list[str]:
    """Names of models from names and patterns, and controls that are named in full, each once, in the order given.

    Example:
        >>> expand_models(["sdpa", "nac-0*"])
        ['sdpa', 'nac-02s', 'nac-05sfc', 'nac-09s']
    """
    chosen: dict[str, None] = {}
    for name in names:
        found = [name] if name in CONTROLS else list_models(name)
        if not found:
            raise ValueError(f"no model {name!r}; {there_are(name, [*list_models(), *CONTROLS])}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)
