"""Which answers of a data set are scored, in which order, and the metrics that judge predictions of them.

The order is that of `Dataset.batch`: sequences in the order of the index, the steps of each in order of time, and
only what is scored. A step that lies in two sequences is there twice, because it is asked twice.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nacre.data.dataset import UNSCORED, Dataset, Kind


class StepRows(NamedTuple):
    """Steps of some sequences, one after the other, without padding."""

    row: Tensor  # [m] row of each step in the table of the data set
    first: Tensor  # [m] row of the first step of the same sequence


def is_scored(y: Tensor, kind: Kind) -> Tensor:
    """Which answers count: classes [...] that are not `UNSCORED`, numbers [..., D] without NaN; never padding.

    Example:
        >>> is_scored(torch.tensor([[1, 0], [2, UNSCORED]]), Kind.STEP_CLASSIFICATION)
        tensor([[ True,  True],
                [ True, False]])
    """
    return y != UNSCORED if kind.has_classes else ~y.isnan().any(-1)


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


ACCURACY = Metric("accuracy", higher_is_better=True)
MSE = Metric("mse", higher_is_better=False)


def metric_of(kind: Kind) -> Metric:
    """The main metric of a kind of task: accuracy in percent, or squared error in units of the answers' spread."""
    return ACCURACY if kind.has_classes else MSE


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
        truth: [m, D] likewise.
        unit: [D] what errors are measured in.

    Example:
        >>> score_numbers(torch.tensor([[3.0]]), torch.tensor([[1.0]]), torch.tensor([2.0]))
        {'mse': 1.0, 'mae': 1.0, 'raw rmse': 2.0}
    """
    error = prediction.double() - truth.double()
    scaled = error / unit.double()
    return {
        "mse": scaled.square().mean().item(),
        "mae": scaled.abs().mean().item(),
        "raw rmse": error.square().mean().sqrt().item(),
    }
