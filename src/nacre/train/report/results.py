"""Reading the result files of a grid of runs. A damaged file is named and treated as missing."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nacre._util.checks import choice, there_are

FORMAT = 1
FILE = "result.json"


@dataclass(frozen=True)
class Result:
    """One run: a model on one fold of a task."""

    directory: Path  # with log and predictions
    task: str
    model: str  # or the control
    control: bool  # a trivial control gets no rank
    fold: int  # from 0
    seed: int  # of the weights
    folds: int  # of the task
    kind: str  # what is asked of a sequence
    metric: str  # that ranks
    better: str  # "lower" or "higher"
    value: float  # of that metric on the test part; not finite where training diverged
    metrics: dict[str, float]  # all of the test part
    parameters: int  # that are trained
    seconds: float  # time of the run
    profile: str  # name of the budget
    steps: int  # most that the budget allows
    batch_size: int
    form: str  # which form of the data was read
    data: str  # checksum
    train: int  # sequences
    test: int  # sequences
    split: str  # checksum of the sequences' assignment to parts
    recipe: str  # checksum
    classes: tuple[str, ...] = ()  # names; empty for regression
    confusion: tuple[tuple[int, ...], ...] | None = None  # counts [true class][answer]; None for regression

    @property
    def diverged(self) -> bool:
        """Whether training ended without a finite metric."""
        return not math.isfinite(self.value)

    def number(self, metric: str) -> float | None:
        """A metric of the test part by its name; None if the run has none of that name, NaN if it diverged."""
        if self.diverged:
            return math.nan
        return self.value if metric == self.metric else self.metrics.get(metric)


class Found(NamedTuple):
    """What is under a directory."""

    results: list[Result]  # of all runs that can be read, in the order of their paths
    damaged: list[str]  # one line for each file that cannot


def find_results(directory: str | os.PathLike[str], task: str | None = None) -> Found:
    """Read every result file under a directory, at any depth, or only those of a task; names damaged files.

    Raises:
        FileNotFoundError: If there is no result at all.
        ValueError: If there is none of this task.

    Example:
        >>> find_results(tmp / "runs")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: no results under ...; `nacre train TASK -m nac` makes some
    """
    root = Path(directory)
    results, damaged = [], []
    for path in sorted(root.rglob(FILE)):
        try:
            results.append(_read(path))
        except (ValueError, OSError) as error:
            damaged.append(f"{path} is left out: {error}")
    if not results:
        more = "".join(f"\n{line}" for line in damaged)
        raise FileNotFoundError(f"no results under {root}; `nacre train TASK -m nac` makes some{more}")
    if task is not None:
        known = sorted({r.task for r in results})
        if task not in known:
            raise ValueError(f"no results of task {task!r} under {root}; {there_are(task, known)}")
        results = [r for r in results if r.task == task]
    return Found(results, damaged)


def _read(path: Path) -> Result:
    try:
        data = json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply for a result") from None
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}, not the fields of a result")
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r}; this nacre reads format {FORMAT}")
    budget, source = _field(data, "budget", dict), _field(data, "data", dict)
    better = _field(data, "better", str)
    choice("better", better, ("lower", "higher"))
    classes = _field({"classes": [], **data}, "classes", list)
    return Result(
        directory=path.parent,
        task=_field(data, "task", str),
        model=_field(data, "model", str),
        control=_field({"control": False, **data}, "control", bool),
        fold=_whole(data, "fold"),
        seed=_whole(data, "seed"),
        folds=_whole(data, "folds"),
        kind=_field(data, "kind", str),
        metric=_field(data, "metric", str),
        better=better,
        value=_real(data, "value"),
        metrics={name: _real(data["metrics"], name) for name in _field(data, "metrics", dict)},
        parameters=_whole(data, "parameters"),
        seconds=_real(data, "seconds"),
        profile=_field(budget, "profile", str),
        steps=_whole(budget, "steps"),
        batch_size=_whole(budget, "batch_size"),
        form=_field(source, "form", str),
        data=_field(source, "digest", str),
        train=_whole(source, "train"),
        test=_whole(source, "test"),
        split=_field(data, "split", str),
        recipe=_field(data, "recipe", str),
        classes=tuple(str(name) for name in classes),
        confusion=_counts(data.get("confusion"), len(classes)),
    )


def _field(data: dict[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401
    if name not in data:
        raise ValueError(f"{name} is missing")
    if not isinstance(data[name], kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {data[name]!r}")
    return data[name]


def _whole(data: dict[str, Any], name: str) -> int:
    value = _field(data, name, int)
    if isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")
    return value


def _real(data: dict[str, Any], name: str) -> float:
    """A number; null, which JSON has in place of NaN, is NaN."""
    value = data.get(name, "missing")
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


def _counts(rows: Any, classes: int) -> tuple[tuple[int, ...], ...] | None:  # noqa: ANN401
    if rows is None:
        return None
    if not _is_list(rows, classes) or not all(_is_list(row, classes) and all(map(_is_count, row)) for row in rows):
        raise ValueError(f"confusion must hold {classes} rows of {classes} counts, one for each class")
    return tuple(tuple(row) for row in rows)


def _is_list(value: object, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _is_count(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= 0
