"""What the paper's results table says: 32 models on nine columns. Its numbers are quoted, never measured."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from nacre._util.checks import choice
from nacre.tasks.paper_units import MINMAX, RAW

_FILE = "paper_table.csv"


class Column(NamedTuple):
    """A column of the paper's table."""

    name: str  # of the task, or of the data set where a task has several
    task: str  # what a recipe calls its column
    metric: str  # of a run, in the paper's unit
    better: str  # "lower" or "higher"
    places: int  # digits after the point that the paper prints


COLUMNS = (
    Column("event-mnist", "event-mnist", "accuracy", "higher", 2),
    Column("person-activity", "person-activity", "accuracy", "higher", 2),
    Column("ettm1", "ettm1", MINMAX, "lower", 4),
    Column("jena", "jena", MINMAX, "lower", 4),
    Column("carracing", "carracing", "accuracy", "higher", 2),
    Column("udacity", "udacity", RAW, "lower", 4),
    Column("PRONOSTIA", "bearings", "score PRONOSTIA", "lower", 2),
    Column("XJTU-SY", "bearings", "score XJTU-SY", "lower", 2),
    Column("HUST", "bearings", "score HUST", "lower", 2),
)


class ReportedMetric(NamedTuple):
    """A cell: mean and standard deviation over the paper's five folds, with its digits after the point."""

    mean: float
    std: float
    places: int

    def __str__(self) -> str:
        """As the paper prints it."""
        return f"{self.mean:.{self.places}f} ± {self.std:.{self.places}f}"


def reported(model: str, column: str) -> ReportedMetric | None:
    """The paper's metric of a model in one of `COLUMNS`; None for models and controls that it does not have.

    Example:
        >>> str(reported("nac", "ettm1"))
        '0.0258 ± 0.0012'
        >>> str(reported("nac", "HUST"))
        '27.82 ± 7.09'
    """
    choice("column", column, (c.name for c in COLUMNS))
    return _cells().get((model, column))


def paper_models() -> tuple[str, ...]:
    """The 32 models in the order of the paper's rows: 19 baselines, then the NAC family.

    Example:
        >>> paper_models()[0], paper_models()[18], paper_models()[-1]
        ('ct-rnn', 'pde-attention', 'nac')
    """
    return tuple(dict.fromkeys(model for model, _ in _cells()))


def paper_column(task: str) -> Column | None:
    """The paper's column of a task; None if it has none, or several, as of the bearings.

    Example:
        >>> paper_column("ettm1").metric, paper_column("bearings")
        ('minmax mse', None)
    """
    found = [c for c in COLUMNS if c.task == task]
    return found[0] if len(found) == 1 else None


@cache
def _cells() -> Mapping[tuple[str, str], ReportedMetric]:
    text = files("nacre.train.report").joinpath(_FILE).read_text(encoding="utf-8")
    places = {c.name: c.places for c in COLUMNS}
    return {
        (row["model"], row["column"]): ReportedMetric(float(row["mean"]), float(row["std"]), places[row["column"]])
        for row in csv.DictReader(text.splitlines())
    }
