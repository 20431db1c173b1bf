"""`Result`: what a finished run found, and the one reader of its file's contents."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacre._util.checks import choice

RESULT = "result.json"
FORMAT = 2  # 1 had other checksums of recipes and cells, see `nacre.train.format1`
READABLE = (1, FORMAT)


@dataclass(frozen=True)
class Result:
    """One run: a model on one fold of a task."""

    directory: Path  # with log and predictions; of results that came without, the file that holds them
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
    recipe: str  # checksum of what rows of a table share
    column: str = ""  # of the paper's results table; empty for tasks that it does not have
    version: int = 1  # of the model
    fingerprint: str = ""  # checksum of all that decides the result
    final: bool = False  # trained on all data: it has no score, and stands in no table
    classes: tuple[str, ...] = ()  # names; empty for regression
    confusion: tuple[tuple[int, ...], ...] | None = None  # counts [true class][answer]; None for regression

    record: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the file's contents

    @property
    def diverged(self) -> bool:
        """Whether training ended without a finite metric."""
        return not math.isfinite(self.value) and not self.undefined and not self.final

    @property
    def undefined(self) -> bool:
        """Whether the metric that ranks is not defined on the test part, such as an area where one class is."""
        return not math.isfinite(self.value) and bool(self.record.get("undefined"))

    def number(self, metric: str) -> float | None:
        """A metric of the test part by its name; None if the run has none of that name, NaN if it diverged."""
        if self.diverged:
            return math.nan
        return self.value if metric == self.metric else self.metrics.get(metric)


def decode(text: bytes) -> dict[str, Any]:
    """The fields in the text of a result; raises ValueError if there are none, or of a format not known here."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply for a result") from None
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}, not the fields of a result")
    if data.get("format") not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise ValueError(f"format {data.get('format')!r}; this nacre reads formats {known}")
    return data


def parse(data: dict[str, Any], directory: Path) -> Result:
    """The fields of a result, checked; raises ValueError that names the first one that is missing or wrong."""
    budget, source = _field(data, "budget", dict), _field(data, "data", dict)
    better = _field(data, "better", str)
    choice("better", better, ("lower", "higher"))
    classes = _field({"classes": [], **data}, "classes", list)
    return Result(
        directory=directory,
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
        column=_field({"column": "", **data}, "column", str),
        version=_whole({"version": 1, **data}, "version"),
        fingerprint=_field({"fingerprint": "", **data}, "fingerprint", str),
        final=bool(_field({"final": {}, **data}, "final", dict)),
        record=data,
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
