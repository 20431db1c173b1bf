"""Finding results: of runs in their directories, and as lines of files. What is damaged is named and left out."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nacre._util.checks import there_are
from nacre.train.result import RESULT, Result, decode, parse
from nacre.train.run import Run

_LINES = ".jsonl"


class Found(NamedTuple):
    """What is under a directory."""

    results: list[Result]  # of all runs that can be read, in the order of their paths
    damaged: list[str]  # one line for each file, or line of a file, that cannot


def find_results(place: str | os.PathLike[str], task: str | None = None) -> Found:
    """Read every result under a directory, at any depth, or only those of a task; names damaged files.

    Results are those of run directories, and lines of files that `nacre results add` wrote. Final runs have no
    score, and are passed over.

    Args:
        place: The directory, or a single file of lines.
        task: Only this task.

    Raises:
        FileNotFoundError: If there is no result at all.
        ValueError: If there is none of this task.

    Example:
        >>> find_results(tmp / "runs")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: no results under ...; `nacre train TASK -m nac` makes some
    """
    root = Path(place)
    results, damaged = [], []
    for found in _read_all(root):
        if isinstance(found, Result):
            results.append(found)
        else:
            damaged.append(found)
    if not results:
        more = "".join(f"\n{line}" for line in damaged)
        raise FileNotFoundError(f"no results under {root}; `nacre train TASK -m nac` makes some{more}")
    if task is not None:
        known = sorted({r.task for r in results})
        if task not in known:
            raise ValueError(f"no results of task {task!r} under {root}; {there_are(task, known)}")
        results = [r for r in results if r.task == task]
    return Found(results, damaged)


def _read_all(root: Path) -> Iterator[Result | str]:
    """Results, and what to say of those that cannot be read."""
    files = [root] if root.is_file() else [*root.rglob(RESULT), *root.rglob(f"*{_LINES}")]
    for path in sorted(files, key=lambda path: path.with_suffix("")):
        try:
            if path.suffix == _LINES:
                yield from _read_lines(path)
            elif not (result := Run.open(path.parent).result).final:
                yield result
        except (ValueError, OSError) as error:
            yield f"left out: {error}"


def _read_lines(path: Path) -> Iterator[Result | str]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            yield parse(decode(line), path)
        except ValueError as error:
            yield f"left out: line {number} of {path} is damaged: {error}"
