"""What all studies share: many runs with one result file each, shared by any number of processes, and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import Progress

from nacre._util.files import write_atomic
from nacre._util.locks import LockedElsewhere, hold_lock
from nacre._util.progress import bars
from nacre._util.provenance import provenance
from nacre._util.text import csv_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OnStep = Callable[[int, float], None]


class StudyRun(Protocol):
    """One run of a study; `str` names it for people."""

    @property
    def steps(self) -> int:
        """Length of its progress bar."""
        ...

    def path(self, out: Path) -> Path:
        """Its result file, one folder below `out`."""
        ...

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Do the work, call `on_step` with the number and loss of each step, and return plain data for JSON."""
        ...


def run_study(
    runs: Sequence[StudyRun],
    out: Path,
    describe: Callable[[dict[str, Any]], str],
    report: Callable[[Console], None],
) -> list[dict[str, Any]]:
    """Do the runs that are not done yet, with progress bars, then report on all of them.

    Args:
        runs: What to do. A run that fails is named, and the others are still done.
        out: Where result files go.
        describe: A result in a few words.
        report: Prints tables and writes files.

    Returns:
        The results made now.

    Raises:
        ValueError: At the end, if runs failed.
    """
    console = Console()
    made, failures = [], []
    with bars(console) as progress:
        total = progress.add_task("runs", total=len(runs), loss="")
        for run in runs:
            try:
                result = _run(run, out, progress, console)
            except (RuntimeError, MemoryError) as error:  # of one model at one size
                failures.append(f"{run}: {error}")
                console.print(f"[red]failed[/] {failures[-1]}", highlight=False)
            else:
                if result is not None:
                    made.append(result)
                    console.print(f"{run}: {describe(result)}", highlight=False)
            progress.advance(total)
    report(console)
    if failures:
        raise ValueError(f"{len(failures)} of the runs failed:\n  " + "\n  ".join(failures))
    return made


def _run(run: StudyRun, out: Path, progress: Progress, console: Console) -> dict[str, Any] | None:
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


def run_once(run: StudyRun, out: Path, on_step: OnStep) -> dict[str, Any] | None:
    """Do a run and write its result file, with its time and provenance; None if it is already there.

    Raises:
        LockedElsewhere: If another process is at work on it.
    """
    path = run.path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path.with_suffix(".lock")):
        if path.exists():
            return None
        start = time.perf_counter()
        result = run.do(on_step)
        result |= {"seconds": time.perf_counter() - start, "provenance": provenance()}
        write_atomic(path, (json.dumps(result, indent=1) + "\n").encode())
    return result


def read_files(out: Path, is_complete: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """All result files below a folder.

    Args:
        out: The folder.
        is_complete: Whether a result holds what the study reads; may raise what reading raises.

    Raises:
        ValueError: If one of them cannot be read.
    """
    results = []
    for path in sorted(out.glob("*/*.json")):
        try:
            result = json.loads(path.read_bytes())
            damaged = not is_complete(result)
        except (ValueError, KeyError, IndexError, TypeError):  # no JSON, or something else than a result
            result, damaged = {}, True
        if damaged:
            raise ValueError(f"{path} is damaged; delete it and run again")
        results.append(result)
    return results


def write_report(stem: Path, rows: Sequence[DataclassInstance], figure: bytes | None, console: Console) -> None:
    """Write the rows to `<stem>.csv` and the figure, where there is one, to `<stem>.png`."""
    names = [field.name for field in fields(rows[0])]
    files = {".csv": csv_text(names, map(vars, rows)).encode(), ".png": figure}
    for suffix, data in files.items():
        if data is not None:
            path = write_atomic(stem.with_suffix(suffix), data)
            console.print(f"wrote {path}", soft_wrap=True, highlight=False)
