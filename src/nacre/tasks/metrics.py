"""Which answers of a data set are scored, in which order, and the metrics that judge predictions of them.

The order is that of `Dataset.batch`: sequences in the order of the index, the steps of each in order of time, and
only what is scored. A step that lies in two sequences is there twice, because it is asked twice.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nacre._util.checks import choice
from nacre.data.dataset import Dataset, Kind, is_scored


class StepRows(NamedTuple):
    """Steps of some sequences, one after the other, without padding."""

    row: Tensor  # [m] row of each step in the table of the data set
    first: Tensor  # [m] row of the first step of the same sequence


def answers_of(data: Dataset, index: Tensor) -> Tensor:
    """The true answers of these sequences that are scored: [m] classes or [m, D] numbers.

    No batch is made for it, so it takes any number of sequences.
    """
    y = data.y[steps_of(data, index).row if data.kind.each_step else index]
    return y[is_scored(y, data.kind)]


def scored_sequences(data: Dataset, index: Tensor) -> Tensor:
    """Those of the sequences whose answer counts, for kinds with one answer for each sequence."""
    return index[is_scored(data.y[index], data.kind)]


def scored_steps(data: Dataset, index: Tensor) -> StepRows:
    """The steps of these sequences whose answers count, for kinds with an answer for each step."""
    steps = steps_of(data, index)
    keep = is_scored(data.y[steps.row], data.kind)
    return StepRows(steps.row[keep], steps.first[keep])


def steps_of(data: Dataset, index: Tensor) -> StepRows:
    """All steps of these sequences."""
    length = data.length[index]
    first = data.start[index].repeat_interleave(length)
    begin = (length.cumsum(0) - length).repeat_interleave(length)  # where the sequence begins among the m steps
    return StepRows(first + torch.arange(len(first)) - begin, first)


@dataclass(frozen=True)
class Metric:
    """The number that a task is judged by."""

    name: str  # in result files
    higher_is_better: bool


_SHARED = ("f1", "auroc", "auprc")  # of classes and labels; higher is better
METRICS_OF = {  # by kind; the first one judges, unless a recipe says otherwise
    **dict.fromkeys(
        (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION),
        ("accuracy", "balanced accuracy", *_SHARED, "log loss", "calibration error"),
    ),
    **dict.fromkeys(
        (Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.FORECASTING),
        ("mse", "mae", "rmse", "raw rmse", "raw mae", "r2", "quantile loss"),
    ),
    Kind.MULTI_LABEL: ("auroc", "auprc", "f1", "accuracy", "log loss", "calibration error"),
}
_HIGHER = {"accuracy", "balanced accuracy", *_SHARED, "r2"}


def metric_of(kind: Kind, name: str = "") -> Metric:
    """The metric of this name that judges a kind of task; without a name, the main one.

    The main metrics are accuracy in percent, squared error in units of the answers' spread, and, for labels, the
    area under the ROC curve.

    Example:
        >>> metric_of(Kind.CLASSIFICATION).name, metric_of(Kind.REGRESSION, "mae").higher_is_better
        ('accuracy', False)
    """
    name = name or METRICS_OF[kind][0]
    choice(f"metric of {kind}", name, METRICS_OF[kind])
    return Metric(name, higher_is_better=name in _HIGHER)


def score_classes(scores: Tensor, truth: Tensor) -> dict[str, float]:
    """Metrics for classes, in percent.

    Args:
        scores: [m, C], the largest wins.
        truth: [m] classes.

    Returns:
        `accuracy`, and `balanced accuracy`: the mean recall over the classes that occur.

    Example:
        >>> score_classes(torch.eye(2)[[0, 0, 0, 1]], torch.tensor([0, 0, 1, 1]))
        {'accuracy': 75.0, 'balanced accuracy': 75.0}
    """
    counts = confusion(scores, truth).double()
    present = counts.sum(1) > 0
    recall = (counts.diagonal() / counts.sum(1))[present]
    return {
        "accuracy": 100 * (counts.diagonal().sum() / counts.sum()).item(),
        "balanced accuracy": 100 * recall.mean().item(),
    }


def confusion(scores: Tensor, truth: Tensor) -> Tensor:
    """Counts [C, C]: rows are true classes, columns predicted ones."""
    classes = scores.shape[1]
    cell = truth * classes + scores.argmax(1)
    return torch.bincount(cell, minlength=classes * classes).view(classes, classes)


def score_numbers(prediction: Tensor, truth: Tensor, unit: Tensor) -> dict[str, float]:
    """Metrics for numbers: `mse` and `mae` in the unit, `raw rmse` in the data's units.

    Args:
        prediction: [m, D] in the data's units.
        truth: [m, D] likewise; NaN is not counted.
        unit: [D] what errors are measured in.

    Example:
        >>> score_numbers(torch.tensor([[3.0]]), torch.tensor([[1.0]]), torch.tensor([2.0]))
        {'mse': 1.0, 'mae': 1.0, 'raw rmse': 2.0}
    """
    error = prediction.double() - truth.double()
    known = ~truth.isnan()  # of a forecast, some numbers may not be
    scaled, error = (error / unit.double())[known], error[known]
    return {
        "mse": scaled.square().mean().item(),
        "mae": scaled.abs().mean().item(),
        "raw rmse": error.square().mean().sqrt().item(),
    }
