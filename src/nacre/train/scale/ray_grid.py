"""The cells of a grid as tasks of a Ray cluster, as many at a time as it has room for. Needs ray."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nacre._util.progress import bars
from nacre.train.cell import Cell
from nacre.train.grid import GridReport, name_of
from nacre.train.result import RESULT
from nacre.train.scale.options import Cluster
from nacre.train.scale.ray_cluster import joined
from nacre.train.scale.ray_worker import SETTINGS, CellOutcome, Setup, job_of, run_job
from nacre.train.scale.worker_group import FAILURES

RETRIES = 2  # of a cell whose process died
_VISIBLE = 5.0  # seconds for a network file system to show what another node wrote


def run_ray(todo: Sequence[Cell], cluster: Cluster, data_dir: Path | None, report: GridReport) -> None:
    """Run what is not done yet. A cell that fails is reported and the rest goes on.

    Raises:
        ValueError: Before anything is run, if there is no such cluster or too little room in it.
    """
    with joined(cluster):
        left = _not_done(todo, report)
        queue = _Queue(_setup(cluster, data_dir), cluster)
        try:
            with bars(report.console) as progress:
                bar = progress.add_task("cells", total=len(left), loss="")
                for cell in left:
                    queue.submit(cell)
                while queue.running:
                    for cell, outcome in queue.finished(report):
                        _tell(cell, outcome, report)
                        progress.update(bar, advance=1)
        except BaseException:  # Ctrl-C above all
            queue.cancel()
            raise


def _not_done(todo: Sequence[Cell], report: GridReport) -> list[Cell]:
    left = []
    for cell in todo:
        try:
            done = cell.is_done()
        except FAILURES as error:
            report.failed(cell, error)
            continue
        if done:
            report.done(cell)
        else:
            left.append(cell)
    return left


def _setup(cluster: Cluster, data_dir: Path | None) -> Setup:
    settings = {name: str(Path(os.environ[name]).resolve()) for name in SETTINGS if os.environ.get(name)}
    place = None if data_dir is None else str(data_dir.resolve())
    return Setup(place, cluster.cpus, cluster.gpus, tuple(sys.argv), settings)


def _tell(cell: Cell, outcome: CellOutcome, report: GridReport) -> None:
    if outcome.error:
        return report.failed(cell, outcome.error)
    if outcome.result is None:
        return report.busy(cell)
    path = cell.directory / RESULT
    if not _seen(path):
        return report.failed(
            cell,
            f"{outcome.node} has written {path.resolve()}, but it is not there on this machine; --out must lie on "
            "a file system that all nodes see",
        )
    return report.made(cell, outcome.result)


def _seen(path: Path) -> bool:
    deadline = time.monotonic() + _VISIBLE
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


class _Queue:
    """Cells that Ray has been given."""

    def __init__(self, setup: Setup, cluster: Cluster) -> None:
        import ray

        self.ray: Any = ray
        # Retries are ours: Ray's own would go on without end where memory is short.
        limits = {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus, "max_retries": 0}
        self._run = self.ray.remote(run_job).options(**limits)
        self._setup = self.ray.put(setup)
        self.running: dict[Any, tuple[Cell, int]] = {}  # and how often its process died

    def submit(self, cell: Cell, deaths: int = 0) -> None:
        """Submit a cell to Ray."""
        self.running[self._run.remote(job_of(cell), self._setup)] = cell, deaths

    def finished(self, report: GridReport) -> list[tuple[Cell, CellOutcome]]:
        """Cells that end within the next second; those whose process died are submitted again."""
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=1.0)
        ended = []
        for reference in ready:
            cell, deaths = self.running.pop(reference)
            try:
                ended.append((cell, self.ray.get(reference)))
            except self.ray.exceptions.RayTaskError as error:  # an error that `run_job` does not expect
                ended.append((cell, CellOutcome("", error=str(error.cause or error).strip())))
            except self.ray.exceptions.RayError as error:
                if deaths < RETRIES:
                    report.note(f"{name_of(cell)}: its process died, trying again ({deaths + 1} of {RETRIES})")
                    self.submit(cell, deaths + 1)
                else:
                    ended.append((cell, CellOutcome("", error=_death(error))))
        return ended

    def cancel(self) -> None:
        """Stop all, by force: a cell resumes from its last checkpoint, and its lock ends with its process.

        Without force, a cell that ends in that moment makes Ray 2.60 abort the driver ("not pending").
        """
        for reference in self.running:
            self.ray.cancel(reference, force=True)


def _death(error: Exception) -> str:
    first = " ".join(str(error).split(".")[0].split())
    return f"its process died {RETRIES + 1} times (out of memory, or killed?): {first or type(error).__name__}"
