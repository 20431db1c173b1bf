"""What a degradation curve is worth: the paper's score, that of the PHM 2012 challenge, and its shape."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def paper_score(predicted: ArrayLike, actual: ArrayLike) -> float:
    """The paper's Score, lower is better: a sum over all windows of exp(e / 10) - 1, or exp(-e / 13) - 1 if e < 0.

    The error e is that of a degradation from 0 to 1, so each window adds about |e| / 10 or |e| / 13: longer
    recordings score worse, and late and early answers count nearly alike.

    Example:
        >>> round(paper_score([0.5, 0.5], [0.4, 0.6]), 4)
        0.0178
    """
    found, true = _pair(predicted, actual)
    error = found - true
    with np.errstate(over="ignore"):  # of a network that has diverged: infinity
        return float(np.where(error < 0, np.expm1(-error / 13), np.expm1(error / 10)).sum())


def phm_accuracy(predicted: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """The accuracy of remaining useful lives by the rules of the PHM 2012 challenge, from 0 to 1, the best.

    With the error in percent of what is left, 1 halves every 20 percent too early, and every 5 percent too late.
    The challenge's score is the mean over bearings.

    Args:
        predicted: [n] remaining useful lives.
        actual: [n] true ones, all positive, in the same unit.

    Example:
        >>> phm_accuracy([80.0, 100.0, 105.0], [100.0] * 3).tolist()
        [0.5, 1.0, 0.5]
    """
    found, true = _pair(predicted, actual)
    if not (true > 0).all():
        raise ValueError("actual must be positive: after the failure, no share of what is left can be taken")
    percent = 100 * (true - found) / true
    return np.exp(math.log(0.5) * np.where(percent > 0, percent / 20, -percent / 5))


def remaining_from_fraction(fraction: ArrayLike, elapsed: ArrayLike) -> NDArray[np.float64]:
    """Remaining life from the share that is used and the time that took, in the unit of `elapsed`.

    A share of 0 or less tells of no end: infinity. One of more than 1 means that nothing is left.

    Example:
        >>> remaining_from_fraction([0.25, 0.5, 1.2, 0.0], [60.0, 60.0, 60.0, 60.0]).tolist()
        [180.0, 60.0, 0.0, inf]
    """
    share, time = (np.asarray(part, np.float64) for part in (fraction, elapsed))
    with np.errstate(divide="ignore"):
        return np.where(share > 0, np.maximum(time / np.where(share > 0, share, 1) - time, 0), np.inf)


def monotonicity(curve: ArrayLike) -> float:
    """From 0, as many steps up as down, to 1, always in one direction.

    Example:
        >>> monotonicity([0.0, 0.1, 0.3, 0.2, 0.5])
        0.5
    """
    steps = np.diff(np.asarray(curve, np.float64))
    if not len(steps):
        raise ValueError("curve must hold two values at least")
    return float(abs((steps > 0).sum() - (steps < 0).sum()) / len(steps))


def trendability(curve: ArrayLike, time: ArrayLike) -> float:
    """Absolute correlation of a curve with time, from 0 to 1; 0 for a constant curve.

    Example:
        >>> trendability([1.0, 2.0, 3.0], [0.0, 10.0, 20.0])
        1.0
    """
    values, when = _pair(curve, time)
    values, when = values - values.mean(), when - when.mean()
    size = math.sqrt(float((values**2).sum() * (when**2).sum()))
    return abs(float((values * when).sum())) / size if size > 0 else 0.0


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1 or not one.size:
        raise ValueError(
            f"wanted two lists of the same length, one number at least, got {one.shape} and {other.shape}"
        )
    return one, other
