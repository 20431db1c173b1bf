"""Reading the result files of a grid of runs. A damaged file is named and treated as missing."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nacre._util.checks import choice, there_are

FORMAT = 1
FILE = "result.json"


@dataclass(frozen=True)
class Result:
    """One run: a model on one fold of a task.

    Attributes:
        directory: The run, with its log and predictions.
        task: Name of the task.
        model: Name of the model or of the control.
        control: Whether it is a trivial control, which gets no rank.
        fold: Number of the fold, from 0.
        seed: Seed of the weights.
        folds: How many folds the task is cut into.
        kind: What is asked of a sequence.
        metric: Name of the number that ranks.
        better: "lower" or "higher".
        value: That number on the test part; not finite where training diverged.
        metrics: Every number of the test part by name.
        parameters: Trainable numbers.
        seconds: Time of the run.
        profile: Name of the budget.
        steps: Most training steps that it allows.
        batch_size: Sequences of a step.
        form: Which form of the data was read.
        data: Checksum of the data.
        train: Sequences that trained.
        test: Sequences that were scored.
        split: Checksum of who was where.
        recipe: Checksum of the recipe.
        classes: Names of the classes; empty for numbers.
        confusion: Counts, a row for each true class and a column for each answer; None for numbers.
    """

    directory: Path
    task: str
    model: str
    control: bool
    fold: int
    seed: int
    folds: int
    kind: str
    metric: str
    better: str
    value: float
    metrics: dict[str, float]
    parameters: int
    seconds: float
    profile: str
    steps: int
    batch_size: int
    form: str
    data: str
    train: int
    test: int
    split: str
    recipe: str
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] | None = None

    @property
    def diverged(self) -> bool:
        """Whether the run ended without a number."""
        return not math.isfinite(self.value)

    def number(self, metric: str) -> float | None:
        """A number of the test part by its name; None if the run has none of that name.

        Of a run that diverged, every number is lost.
        """
        if self.diverged:
            return math.nan
        return self.value if metric == self.metric else self.metrics.get(metric)


class Found(NamedTuple):
    """What lies under a directory.

    Attributes:
        results: Of all runs that can be read, in the order of their paths.
        damaged: One line for each file that cannot.
    """

    results: list[Result]
    damaged: list[str]


def find_results(directory: str | os.PathLike[str], task: str | None = None) -> Found:
    """Read every result file under a directory, at any depth, and say which are damaged.

    Args:
        directory: A grid of runs, or a part of one.
        task: Only results of this task.

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
        results = _of_task(results, task, root)
    return Found(results, damaged)


def _of_task(results: list[Result], task: str, root: Path) -> list[Result]:
    chosen = [r for r in results if r.task == task]
    if not chosen:
        known = sorted({r.task for r in results})
        raise ValueError(f"no results of task {task!r} under {root}; {there_are(task, known)}")
    return chosen


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


def _counts(rows: object, classes: int) -> tuple[tuple[int, ...], ...] | None:
    if rows is None:
        return None
    if not isinstance(rows, list) or not all(_is_row(row, classes) for row in rows) or len(rows) != classes:
        raise ValueError(f"confusion must hold {classes} rows of {classes} counts, one for each class")
    return tuple(tuple(row) for row in rows)


def _is_row(row: object, classes: int) -> bool:
    """Whether it is a list of so many counts."""
    if not isinstance(row, list):
        return False
    counts: Sequence[object] = row
    return len(counts) == classes and all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts
    )
