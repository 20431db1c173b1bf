"""Metrics beyond accuracy and squared errors. Every result has all of them; a recipe chooses the one that judges.

By scikit-learn, which the extra `train` has anyway and whose values papers report; torchmetrics, made to gather
states over batches and devices, would be one more dependency for the same values.

What is not defined, such as the area under a ROC curve where all answers are of one class, is NaN, with a note.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BINS = 15  # of the calibration error
_TINY = float(np.finfo(np.float32).eps)  # the least probability that the log loss knows: answers are float32
_Ranking = Callable[[NDArray, NDArray], float]  # from [m] bool and [m] scores


class Judged(NamedTuple):
    """Metrics by name, and what to know about them."""

    metrics: dict[str, float]
    notes: tuple[str, ...] = ()


def score_probabilities(probability: Tensor, truth: Tensor, classes: Sequence[str]) -> Judged:
    """Metrics for classes, from 0 to 1 but for the log loss.

    Args:
        probability: [m, C] of the classes.
        truth: [m] classes.
        classes: C names, for notes.

    Returns:
        `f1`, the mean over the classes that occur or are predicted; `auroc` and `auprc`, each class against the
        rest, the mean over the classes that occur (of two classes, the area under the precision-recall curve is
        that of the second one); `log loss`; `calibration error`: how far the confidence in the chosen class is
        from how often it is right, in 15 bins.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
        >>> found = score_probabilities(p, torch.tensor([0, 0, 1, 1]), ("calm", "storm")).metrics
        >>> {name: round(value, 3) for name, value in found.items()}
        {'f1': 0.733, 'auroc': 0.75, 'auprc': 0.833, 'log loss': 0.511, 'calibration error': 0.35}
    """
    from sklearn.metrics import f1_score

    p, true = probability.double().numpy(), truth.numpy()
    if not np.isfinite(p).all():
        names = ("f1", "auroc", "auprc", "log loss", "calibration error")
        return Judged(dict.fromkeys(names, math.nan), ("some answers are not finite",))
    is_class = np.eye(len(classes), dtype=bool)[true]  # [m, C]
    ranked = slice(int(len(classes) == 2), None)
    areas, notes = _areas(is_class[:, ranked], p[:, ranked], classes[ranked])
    right = p[np.arange(len(true)), true]
    chosen = p.argmax(1)
    found = {
        "f1": float(f1_score(true, chosen, average="macro")),
        **areas,
        "log loss": float(-np.log(right.clip(_TINY)).mean()),
        "calibration error": calibration_error(p.max(1), chosen == true),
    }
    return Judged(found, notes)


def score_labels(probability: Tensor, truth: Tensor, labels: Sequence[str]) -> Judged:
    """Metrics for labels: means over labels, `accuracy` in percent, the calibration error over all answers.

    Args:
        probability: [m, D] that each label is there; what lies outside of 0 to 1 counts as 0 or 1.
        truth: [m, D] 0 or 1.
        labels: D names, for notes.
    """
    p, there = probability.double().numpy(), truth.numpy() > 0.5
    if not np.isfinite(p).all():
        names = ("auroc", "auprc", "f1", "accuracy", "log loss", "calibration error")
        return Judged(dict.fromkeys(names, math.nan), ("some answers are not finite",))
    areas, notes = _areas(there, p, labels)
    p = p.clip(0, 1)
    said = p >= 0.5
    right = np.where(there, p, 1 - p)
    f1 = 2 * (said & there).sum(0) / (said.sum(0) + there.sum(0)).clip(1)  # [D]
    found = {
        **areas,
        "f1": float(f1.mean()),
        "accuracy": 100 * float((said == there).mean()),
        "log loss": float(-np.log(right.clip(_TINY)).mean()),
        "calibration error": calibration_error(p.ravel(), there.ravel()),
    }
    return Judged(found, notes)


def score_quantities(prediction: Tensor, truth: Tensor, unit: Tensor, levels: Sequence[float]) -> Judged:
    """Metrics for numbers: `rmse` and `quantile loss` in the unit, `raw mae` in the data's units, and `r2`.

    Args:
        prediction: [m, D], or [m, D * Q] with the Q quantiles of each number, in the data's units.
        truth: [m, D] likewise.
        unit: [D] what errors are measured in.
        levels: The quantiles; none counts as the median. One number stands for all of them.

    Returns:
        `r2` is 1 minus the squared error's share in the variance of these answers, the mean over the D numbers.

    Example:
        >>> low_and_high = torch.tensor([[0.0, 2.0], [0.0, 2.0]])
        >>> truth = torch.tensor([[1.0], [3.0]])
        >>> round(score_quantities(low_and_high, truth, torch.ones(1), [0.1, 0.9]).metrics["quantile loss"], 3)
        0.35
    """
    levels = levels or (0.5,)
    quantiles = prediction.double().unflatten(-1, (truth.shape[1], -1))  # [m, D, Q or 1]
    error = truth.double() - middle(prediction, truth.shape[1], levels).double()  # [m, D]
    miss = (truth.double().unsqueeze(-1) - quantiles) / unit.double().unsqueeze(-1)
    level = torch.tensor(levels, dtype=torch.float64)
    pinball = torch.maximum(level * miss, (level - 1) * miss)
    spread = (truth.double() - truth.double().nanmean(0)).square().nansum(0)  # [D]; of a forecast, some may be NaN
    constant = spread == 0
    share = torch.where(constant, math.nan, error.square().nansum(0) / spread)
    found = {
        "rmse": (error / unit.double()).square().nanmean().sqrt().item(),
        "raw mae": error.abs().nanmean().item(),
        "r2": 1 - share.mean().item(),
        "quantile loss": pinball.nanmean().item(),
    }
    return Judged(found, ("r2: the answers are all the same",) if bool(constant.any()) else ())


def middle(prediction: Tensor, numbers: int, levels: Sequence[float]) -> Tensor:
    """[m, D] of [m, D * Q] quantiles: the one nearest to the median; [m, D] stays as it is."""
    if prediction.shape[-1] == numbers:
        return prediction
    at = min(range(len(levels)), key=lambda i: abs(levels[i] - 0.5))
    return prediction.unflatten(-1, (numbers, -1))[..., at]


def calibration_error(confidence: NDArray, right: NDArray) -> float:
    """Mean distance of confidence [m] and how often it is right [m], in 15 bins of equal width, each by its size.

    Example:
        >>> round(calibration_error(np.array([0.8, 0.8, 0.8, 0.8]), np.array([True, True, True, False])), 3)
        0.05
    """
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = np.bincount(place, weights=confidence - right, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def _areas(there: NDArray, score: NDArray, names: Sequence[str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Areas under the curves of the columns [m, D] that have both answers, and a note on those that have not."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    both = [i for i in range(len(names)) if there[:, i].any() and not there[:, i].all()]
    lost = [name for i, name in enumerate(names) if i not in both]
    curves: dict[str, _Ranking] = {"auroc": roc_auc_score, "auprc": average_precision_score}
    areas = {name: _mean([area(there[:, i], score[:, i]) for i in both]) for name, area in curves.items()}
    if not lost:
        return areas, ()
    what = "the mean over the others" if both else "not defined"
    return areas, (f"auroc, auprc: {what}, because {', '.join(map(repr, lost))} is there always or never",)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
