"""What a prediction is worth."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nacre.data.dataset import Kind


@dataclass(frozen=True)
class Metric:
    """The figure that a task is judged by.

    Attributes:
        name: Name in result files.
        higher_is_better: Whether more is better.
    """

    name: str
    higher_is_better: bool


ACCURACY = Metric("accuracy", higher_is_better=True)
MSE = Metric("mse", higher_is_better=False)


def metric_of(kind: Kind) -> Metric:
    """The main figure of a kind of task: accuracy in percent, or squared error in units of the answers' spread."""
    return ACCURACY if kind.has_classes else MSE


def score_classes(scores: Tensor, truth: Tensor) -> dict[str, float]:
    """Figures for classes, in percent.

    Args:
        scores: [m, C], the largest wins.
        truth: [m] classes.

    Returns:
        `accuracy`, and `balanced accuracy`: the mean over the classes that occur of the share that was found.

    Example:
        >>> score_classes(torch.eye(2)[[0, 0, 0, 1]], torch.tensor([0, 0, 1, 1]))
        {'accuracy': 75.0, 'balanced accuracy': 75.0}
    """
    counts = confusion(scores, truth).double()
    present = counts.sum(1) > 0
    found = (counts.diagonal() / counts.sum(1))[present]
    return {
        "accuracy": 100 * (counts.diagonal().sum() / counts.sum()).item(),
        "balanced accuracy": 100 * found.mean().item(),
    }


def confusion(scores: Tensor, truth: Tensor) -> Tensor:
    """Counts [C, C]: rows are true classes, columns predicted ones."""
    classes = scores.shape[1]
    cell = truth * classes + scores.argmax(1)
    return torch.bincount(cell, minlength=classes * classes).view(classes, classes)


def score_numbers(prediction: Tensor, truth: Tensor, unit: Tensor) -> dict[str, float]:
    """Figures for numbers.

    Args:
        prediction: [m, D] in the data's units.
        truth: [m, D] likewise.
        unit: [D] what errors are measured in.

    Returns:
        `mse` and `mae` in that unit, `raw rmse` in the data's units.

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
