"""A grid of cells: tasks, models, folds, seeds. Cells that are done are skipped, so a grid resumes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from nacre._util.checks import there_are, whole
from nacre._util.files import named
from nacre._util.foreign_code import is_reference
from nacre._util.hearing import heard
from nacre._util.locks import LockedElsewhere
from nacre._util.progress import bars
from nacre.models._registry import list_models, model_info
from nacre.tasks.controls import CONTROLS, controls_for
from nacre.tasks.recipe import Precision, Profile, load_recipe
from nacre.tasks.task import Task, load_task
from nacre.train.cell import Cell
from nacre.train.estimate import Estimate, in_words
from nacre.train.final import final_cells
from nacre.train.report.cell_files import known_cells
from nacre.train.run_cell import help_with, run_cell
from nacre.train.scale.options import Executor, Scale
from nacre.train.scale.worker_group import FAILURES, WorkerGroup, join_group


@dataclass(frozen=True)
class Grid:
    """What to run."""

    tasks: Sequence[str | Task]  # names of tasks, recipe files, or tasks on data in memory
    models: Sequence[str] = ("nac",)  # names or patterns of models and controls
    profile: Profile = Profile.STANDARD
    folds: int | None = None  # how many of the recipe's folds, from the first on; None for all
    seeds: Sequence[int] = (0,)
    out: Path = Path("runs")
    data_dir: Path | None = None
    precision: Precision = Precision.FLOAT32
    controls: bool = True  # whether the controls of each task are run, too
    scale: Scale = field(default_factory=Scale)
    known: Sequence[Path] = ()  # where finished cells are, which are not run again: runs, or files of lines
    final: bool = False  # whether to train each model on all data, as long as its finished folds say


class GridReport:
    """What a grid prints while it runs: one line for each cell, and at the end all that failed."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.results: list[dict[str, Any]] = []
        self.failures: list[str] = []  # one line for each cell
        self.waiting: list[Cell] = []  # cells that are run after one another, and are not done
        self.steps_taken: Callable[[], int] = lambda: 0  # by the cell that is trained
        self._estimate = Estimate()
        self._heard: set[str] = set()

    def introduce(self, task: Task) -> None:
        """Say what a task is about."""
        data = task.data
        self.console.print(
            f"[bold]{task.recipe.name}[/]: {data.kind}, {len(data):,} sequences, features: {len(data.features)}, "
            f"folds: {len(task.splits)}; {data.form}",
            highlight=False,
        )
        for note in data.notes:
            if note not in self._heard:
                self.note(f"  {note}")

    def hear(self, text: str) -> None:
        """Print what a task says of itself while it is loaded: it may fail because of it."""
        self._heard.add(text)
        self.note(text)

    def made(self, cell: Cell, result: dict[str, Any]) -> None:
        """A cell has a result."""
        self.results.append(result)
        value = result["value"]
        lost = f"{result['metric']} undefined" if result.get("undefined") else "diverged"
        metric = lost if value is None else f"{result['metric']} {value:.4g}"
        metric = metric if cell.final is None else str(cell.final)
        self._estimate.took(cell, result["seconds"])
        left = self._estimate.left(self.waiting)
        rest = f"; {len(self.waiting)} to go, about {in_words(left)}" if self.waiting and left is not None else ""
        line = f"{name_of(cell)}: [bold]{metric}[/], {result['seconds']:.0f} s{rest}"
        self.console.print(line, highlight=False)

    def done(self, cell: Cell) -> None:
        """A cell had a result before."""
        self.note(f"{name_of(cell)} is done")

    def busy(self, cell: Cell) -> None:
        """Another process holds the lock of a cell."""
        self.note(f"{name_of(cell)} is at work in another process")

    def failed(self, cell: Cell, why: object) -> None:
        """A cell has no result."""
        self.failures.append(f"{name_of(cell)}: {why}")
        self.console.print(f"[red]failed[/] {self.failures[-1]}", highlight=False)

    def interrupted(self, cell: Cell) -> None:
        """The user has ended the grid while this cell was run."""
        text = f"interrupted at step {self.steps_taken():,} of {name_of(cell)}; the same command goes on"
        Console(stderr=True, quiet=self.console.quiet).print(f"nacre: {text}", highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a minor message."""
        self.console.print(text, style="dim", highlight=False)

    def finish(self) -> list[dict[str, Any]]:
        """The results; raises ValueError if cells failed."""
        if self.failures:
            raise ValueError(f"{len(self.failures)} of the cells failed:\n  " + "\n  ".join(self.failures))
        return self.results


def name_of(cell: Cell) -> str:
    """A cell in words."""
    seed = f", seed {cell.seed}" if cell.seed else ""
    part = f"fold {cell.fold + 1} of {len(cell.task.splits)}" if cell.final is None else "final"
    return f"{cell.task.recipe.name}, {cell.model}, {part}{seed}"


def run_grid(grid: Grid) -> list[dict[str, Any]]:
    """Run what is not done yet, and print each result.

    A cell that fails is reported and the rest goes on.

    Returns:
        The results made now, by this process if several share each cell.

    Raises:
        ValueError: Before anything is run, for a name or number that makes no sense; at the end, if cells failed.
    """
    with join_group(grid.scale.processes) as group:
        report = GridReport(Console(quiet=not group.leads))
        try:
            with group.in_step():
                todo = plan_cells(grid, report)
        except (*FAILURES, OSError):
            if group.leads:
                raise
            return []
        if not group.leads:
            for cell in todo:
                with suppress(*FAILURES):  # the leader reports them
                    help_with(cell, group)
        elif grid.scale.executor is Executor.RAY:
            from nacre.train.scale.ray_grid import run_ray

            run_ray(todo, grid.scale.cluster, grid.data_dir, report)
        else:
            _run_serial(todo, report, group)
    return report.finish()


def _run_serial(todo: Sequence[Cell], report: GridReport, group: WorkerGroup) -> None:
    """Run cell after cell in this process, which leads the group."""
    report.waiting = list(todo)
    for cell in todo:
        report.waiting.remove(cell)
        try:
            with bars(report.console) as progress:
                _run(cell, progress, report, group)
        except FAILURES as error:
            report.failed(cell, error)
        except KeyboardInterrupt:
            report.interrupted(cell)
            raise
        group.end()


def _run(cell: Cell, progress: Progress, report: GridReport, group: WorkerGroup) -> None:
    if cell.is_done():
        return report.done(cell)
    task = progress.add_task(name_of(cell), total=None, loss="", unit="steps")
    try:
        if cell.model in CONTROLS:
            result = run_cell(cell)
        else:
            from nacre.train.bar import Bar

            bar = Bar(progress, task, report.note)
            report.steps_taken = lambda: bar.step
            result = run_cell(cell, (bar,), group)
    except LockedElsewhere:
        return report.busy(cell)
    except OSError as error:  # of a full disk, torch and Lightning do not say where
        raise error if error.filename else named(error, cell.directory) from None
    finally:
        progress.remove_task(task)
    return report.made(cell, result)


def plan_cells(grid: Grid, report: GridReport) -> list[Cell]:
    """The cells of a grid, with their data; raises ValueError if a name or number makes no sense."""
    models = expand_models(grid.models)
    with heard(report.hear):
        tasks = [
            one if isinstance(one, Task) else load_task(load_recipe(one).at(grid.profile), grid.data_dir)
            for one in grid.tasks
        ]
    for task in tasks:
        report.introduce(task)
    todo = list(cells(grid, tasks, models))
    if grid.final:
        todo = final_cells(todo)
        report.note("final runs leave no data to score, so no controls are run")
    if len(todo) > 1:
        report.note(f"{len(todo)} cells, of which {sum(cell.has_result for cell in todo)} have results")
    idle = set(models) - {cell.model for cell in todo}
    if idle:
        names = ", ".join(dict.fromkeys(name for task in tasks for name in controls_for(task.data)))
        raise ValueError(f"{', '.join(sorted(idle))} makes no sense for these tasks; their controls are {names}")
    return unknown_cells(todo, grid.known, report)


def unknown_cells(todo: list[Cell], known: Sequence[Path], report: GridReport) -> list[Cell]:
    """Those of which no finished cell with the same fingerprint is at these places; says how many are."""
    if not known:
        return todo
    found = known_cells(known)
    for line in found.damaged:
        report.note(line)
    fingerprints = {result.fingerprint for result in found.results}
    left = [cell for cell in todo if cell.fingerprint() not in fingerprints]
    places = ", ".join(map(str, known))
    report.note(f"{len(todo) - len(left)} of {len(todo)} cells are in {places}; {len(left)} are left to run")
    return left


def cells(grid: Grid, tasks: Sequence[Task], models: Sequence[str]) -> Iterator[Cell]:
    """All cells: controls, then model after model, each over all tasks, so that a part of a grid is of use."""
    controls = [name for name in CONTROLS if grid.controls and not grid.final]
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
    """Names of models from names and patterns, each once, in the order given.

    Controls and models of others, package.module:factory, are named in full.

    Example:
        >>> expand_models(["sdpa", "nac-0*"])
        ['sdpa', 'nac-02s', 'nac-05sfc', 'nac-09s']
    """
    chosen: dict[str, None] = {}
    for name in names:
        found = [name] if name in CONTROLS or is_reference(name) else list_models(name)
        if is_reference(name):
            model_info(name)  # says what is wrong before anything is run
        if not found:
            raise ValueError(f"no model {name!r}; {there_are(name, [*list_models(), *CONTROLS])}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)
