"""A grid of cells: tasks, models, folds, seeds. What is done is skipped: start it as often as you like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nacre._check import there_are, whole
from nacre.lock import Busy
from nacre.models.registry import list_models
from nacre.progress import bars
from nacre.tasks.controls import CONTROLS, controls_for
from nacre.tasks.recipe import Precision, Profile, load_recipe
from nacre.tasks.task import Task, load_task
from nacre.train.cell import Cell
from nacre.train.run import run_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import Progress


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


def run_grid(grid: Grid) -> list[dict[str, Any]]:
    """Run what is not done yet, and print each result.

    A cell that fails is reported and the rest goes on.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, for a name or number that makes no sense; at the end, if cells failed.
    """
    console = Console()
    models = expand_models(grid.models)
    tasks = [load_task(load_recipe(name), grid.data_dir) for name in grid.tasks]
    for task in tasks:
        _introduce(task, console)
    todo = list(cells(grid, tasks, models))
    idle = set(models) - {cell.model for cell in todo}
    if idle:
        names = ", ".join(dict.fromkeys(name for task in tasks for name in controls_for(task.data)))
        raise ValueError(f"{', '.join(sorted(idle))} makes no sense for these tasks; their controls are {names}")
    results, failures = [], []
    with bars(console) as progress:
        for cell in todo:
            try:
                result = _run(cell, progress, console)
            except (ValueError, RuntimeError, MemoryError) as error:
                failures.append(f"{_name(cell)}: {error}")
                console.print(f"[red]failed[/] {failures[-1]}", highlight=False)
            else:
                results += [result] if result else []
    if failures:
        raise ValueError(f"{len(failures)} of the cells failed:\n  " + "\n  ".join(failures))
    return results


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


def _run(cell: Cell, progress: Progress, console: Console) -> dict[str, Any] | None:
    if cell.is_done():
        console.print(f"{_name(cell)} is done", style="dim", highlight=False)
        return None
    bar = progress.add_task(_name(cell), total=None, loss="")
    try:
        if cell.model in CONTROLS:
            result = run_cell(cell)
        else:
            from nacre.train.callbacks import Bar

            result = run_cell(cell, (Bar(progress, bar),))
    except Busy:
        console.print(f"{_name(cell)} is at work in another process", style="dim", highlight=False)
        return None
    finally:
        progress.remove_task(bar)
    value = result["value"]
    figure = "diverged" if value is None else f"{result['metric']} {value:.4g}"
    console.print(f"{_name(cell)}: [bold]{figure}[/], {result['seconds']:.0f} s", highlight=False)
    return result


def _name(cell: Cell) -> str:
    seed = f", seed {cell.seed}" if cell.seed else ""
    return f"{cell.task.recipe.name}, {cell.model}, fold {cell.fold + 1} of {len(cell.task.splits)}{seed}"


def _introduce(task: Task, console: Console) -> None:
    data = task.data
    console.print(
        f"[bold]{task.recipe.name}[/]: {data.kind}, {len(data):,} sequences, features: {len(data.features)}, "
        f"folds: {len(task.splits)}; {data.form}",
        highlight=False,
    )
    for note in data.notes:
        console.print(f"  {note}", style="dim", highlight=False)
