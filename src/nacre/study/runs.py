"""What all studies have in common: many runs, one result file each, shared by as many processes as you like."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import Progress

from nacre._util.files import write_atomic
from nacre._util.locks import LockedElsewhere, hold_lock
from nacre._util.progress import bars

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OnStep = Callable[[int, float], None]


class Run(Protocol):
    """One run of a study; `str` names it for people."""

    @property
    def steps(self) -> int:
        """How many steps its progress bar has."""
        ...

    def path(self, out: Path) -> Path:
        """Its result file, one folder below `out`."""
        ...

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Do the work, tell the step and its loss after each, and return the result, plain data for JSON."""
        ...


class Ran(NamedTuple):
    """What became of some runs.

    Attributes:
        made: Results made now.
        failures: One line for each run that failed.
    """

    made: list[dict[str, Any]]
    failures: list[str]

    def require_success(self) -> None:
        """Refuse to go on after failures.

        Raises:
            ValueError: That lists them.
        """
        if self.failures:
            raise ValueError(f"{len(self.failures)} of the runs failed:\n  " + "\n  ".join(self.failures))


def run_all(runs: Sequence[Run], out: Path, console: Console, describe: Callable[[dict[str, Any]], str]) -> Ran:
    """Do what is not done yet, with progress bars. A run that fails is reported and the rest goes on.

    Args:
        runs: What to do.
        out: Where result files go.
        console: Where to print.
        describe: A result in a few words.
    """
    ran = Ran([], [])
    with bars(console) as progress:
        total = progress.add_task("runs", total=len(runs), loss="")
        for run in runs:
            try:
                result = _run(run, out, progress, console)
            except (RuntimeError, MemoryError) as error:  # of one model at one size
                ran.failures.append(f"{run}: {error}")
                console.print(f"[red]failed[/] {ran.failures[-1]}", highlight=False)
            else:
                if result is not None:
                    ran.made.append(result)
                    console.print(f"{run}: {describe(result)}", highlight=False)
            progress.advance(total)
    return ran


def _run(run: Run, out: Path, progress: Progress, console: Console) -> dict[str, Any] | None:
    bar = progress.add_task(str(run), total=run.steps, loss="")

    def show(step: int, loss: float) -> None:
        progress.update(bar, completed=step, loss=f"loss {loss:.3g}")

    try:
        result = run_once(run, out, show)
    except LockedElsewhere:
        console.print(f"{run} is at work in another process", style="dim", highlight=False)
        return None
    finally:
        progress.remove_task(bar)
    if result is None:
        console.print(f"{run} is done", style="dim", highlight=False)
    return result


def run_once(run: Run, out: Path, on_step: OnStep) -> dict[str, Any] | None:
    """Do a run and write its result file; None if that has been done.

    Raises:
        LockedElsewhere: If another process is at work on it.
    """
    path = run.path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path.with_suffix(".lock")):
        if path.exists():
            return None
        result = run.do(on_step)
        write_atomic(path, (json.dumps(result, indent=1) + "\n").encode())
    return result


def read_files(out: Path, is_whole: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """All result files below a folder.

    Args:
        out: The folder.
        is_whole: Whether a result holds what the study reads; may raise what reading raises.

    Raises:
        ValueError: If one of them cannot be read.
    """
    results = []
    for path in sorted(out.glob("*/*.json")):
        try:
            result = json.loads(path.read_bytes())
            damaged = not is_whole(result)
        except (ValueError, KeyError, IndexError, TypeError):  # no JSON, or something else than a result
            result, damaged = {}, True
        if damaged:
            raise ValueError(f"{path} is damaged; delete it and run again")
        results.append(result)
    return results


def csv_text(rows: Iterable[DataclassInstance], kind: type[DataclassInstance]) -> str:
    """Rows of a dataclass as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def write_files(files: dict[Path, bytes], console: Console) -> None:
    """Write tables and pictures, each whole, and say where."""
    for path, data in files.items():
        console.print(f"wrote {write_atomic(path, data)}", soft_wrap=True, highlight=False)
