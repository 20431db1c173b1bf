"""Metrics of predicted bearing lives: the paper's score, that of the PHM 2012 challenge, and curve shapes."""

import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nacre.data.rigs.labels import Label

PRONOSTIA_WORD = "PRONOSTIA"  # begins the name of every part with bearings of the challenge
# Where the PHM 2012 challenge cut its test recordings off: seconds before the failure.
CHALLENGE = {
    "Bearing1_3": 5730.0,
    "Bearing1_4": 2890.0,
    "Bearing1_5": 1610.0,
    "Bearing1_6": 1460.0,
    "Bearing1_7": 7570.0,
    "Bearing2_3": 7530.0,
    "Bearing2_4": 1390.0,
    "Bearing2_5": 3090.0,
    "Bearing2_6": 1290.0,
    "Bearing2_7": 580.0,
    "Bearing3_3": 820.0,
}
_ASKED = np.array([0.5, 0.6, 0.7, 0.8, 0.9])  # fractions of a life at which the remaining life is scored
_SMOOTH = 25  # width of the moving average of predictions before the shape of their curve is judged


@dataclass(frozen=True)
class LifeMetrics:
    """What is known of each of n sequences to score predictions, rig by rig."""

    label: Label  # what is predicted
    part: np.ndarray  # [n] what is scored together: a rig, or some of its bearings
    bearing: np.ndarray  # [n] name of the bearing
    seconds: np.ndarray  # [n] since the bearing's first sample
    life: np.ndarray  # [n] seconds from there to the failure; NaN for recordings that do not end with it
    windows: np.ndarray  # [n] windows that the prediction covers: the paper's score is a sum over windows

    def of(self, index: Tensor, predicted: Tensor, actual: Tensor) -> dict[str, float]:
        """Metrics of predictions [m, 1] for some sequences, by name; those of a part are means over its bearings.

        `score` (the paper's, lower is better), `mae` of the used fraction of life, `phm` (mean accuracy of the
        remaining life by the challenge's rules, at 50, 60, 70, 80 and 90 % of the life), `challenge` (the same
        where the challenge cut the recording off), `monotonicity` and `trendability` of the smoothed curve.
        """
        places = index.numpy()
        used = [self._used(places, values.double().numpy().ravel()) for values in (predicted, actual)]
        found: dict[str, list[float]] = {}
        for part, bearing in dict.fromkeys(zip(self.part[places], self.bearing[places], strict=True)):
            mine = np.flatnonzero((self.part[places] == part) & (self.bearing[places] == bearing))
            for name, value in self._of_bearing(places[mine], used[0][mine], used[1][mine]).items():
                found.setdefault(f"{name} {part}", []).append(value)
        return {name: fmean(values) for name, values in found.items()}

    def clock(self, places: np.ndarray) -> np.ndarray:
        """The answers of a clock that knows each recording's end, for sequences with these indices.

        Where the time of failure is not known, the recording's last moment takes its place.
        """
        keys = np.char.add(np.char.add(self.part, " "), self.bearing)
        _, number = np.unique(keys, return_inverse=True)
        ends = np.zeros(number.max() + 1)
        np.maximum.at(ends, number, self.seconds)
        life = np.where(np.isnan(self.life), ends[number], self.life)
        left = np.maximum(life - self.seconds, 0) / 60
        return (left if self.label is Label.RUL else self.seconds / life)[places]

    def _used(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Used fraction of the life, from values of the label."""
        if self.label is not Label.RUL:
            return values
        elapsed = self.seconds[places]
        return elapsed / np.maximum(elapsed + 60 * np.maximum(values, 0), 1e-9)

    def _of_bearing(self, places: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
        order = np.argsort(self.seconds[places], kind="stable")
        places, predicted, actual = places[order], predicted[order], actual[order]
        seconds, life = self.seconds[places], float(self.life[places[0]])
        each = np.repeat(np.arange(len(places)), self.windows[places].astype(int))
        metrics = {
            "score": paper_score(predicted[each], actual[each]),
            "mae": float(np.abs(predicted - actual).mean()),
        }
        width = min(_SMOOTH, len(places))
        curve = np.convolve(predicted, np.full(width, 1 / width), "valid")
        if len(curve) > 1:
            metrics["monotonicity"] = monotonicity(curve)
            metrics["trendability"] = trendability(curve, seconds[len(seconds) - len(curve) :])
        name, asked = str(self.bearing[places[0]]), {}
        if np.isfinite(life):
            asked["phm"] = _ASKED * life
            if str(self.part[places[0]]).startswith(PRONOSTIA_WORD) and name in CHALLENGE:
                asked["challenge"] = np.array([life - CHALLENGE[name]])
        for metric, moments in asked.items():
            # By the last prediction before each moment; there is none before the first whole sequence.
            last = np.searchsorted(seconds, moments, "right") - 1
            at = last[last >= 0]
            if len(at):
                left = remaining_from_fraction(predicted[at], seconds[at])
                metrics[metric] = float(phm_accuracy(left, life - seconds[at]).mean())
        return metrics


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
    with np.errstate(over="ignore"):  # a network that has diverged scores infinity
        return float(np.where(error < 0, np.expm1(-error / 13), np.expm1(error / 10)).sum())


def phm_accuracy(predicted: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """The accuracy of remaining useful lives [n] by the rules of the PHM 2012 challenge, from 0 to 1, the best.

    With the error in percent of the actual remaining life, 1 halves every 20 percent too early, and every 5
    percent too late. The challenge's score is the mean over bearings.

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
    """Remaining life from the used fraction and the elapsed time, in the unit of `elapsed`.

    A fraction of 0 or less gives infinity, one of more than 1 gives 0.

    Example:
        >>> remaining_from_fraction([0.25, 0.5, 1.2, 0.0], [60.0, 60.0, 60.0, 60.0]).tolist()
        [180.0, 60.0, 0.0, inf]
    """
    used, time = (np.asarray(part, np.float64) for part in (fraction, elapsed))
    with np.errstate(divide="ignore"):
        return np.where(used > 0, np.maximum(time / np.where(used > 0, used, 1) - time, 0), np.inf)


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
    values, when = (_near_one(x - x.mean()) for x in (values, when))
    size = math.sqrt(float((values**2).sum() * (when**2).sum()))
    return abs(float((values * when).sum())) / size if size > 0 else 0.0


def _near_one(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scaled by a power of two, so that squares of tiny or huge numbers stay in range and no other bit changes."""
    return np.ldexp(x, -math.frexp(float(np.abs(x).max()))[1])


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim != 1 or not one.size:
        raise ValueError(
            f"wanted two lists of the same length, one number at least, got {one.shape} and {other.shape}"
        )
    return one, other
