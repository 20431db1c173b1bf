"""`LifeFigures`: what predictions for bearings are worth, rig by rig."""

from dataclasses import dataclass
from statistics import fmean

import numpy as np
from torch import Tensor

from nacre.data.rigs.labels import Label
from nacre.data.rigs.score import monotonicity, paper_score, phm_accuracy, remaining_from_fraction, trendability

PRONOSTIA_WORD = "PRONOSTIA"  # begins the name of every part with runs of the challenge
# Where the PHM 2012 challenge cut its test runs off: seconds before the failure.
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
_ASKED = np.array([0.5, 0.6, 0.7, 0.8, 0.9])  # shares of a life at which the remaining one is asked for
_SMOOTH = 25  # predictions whose mean is a point of the curve, of which the shape is judged


@dataclass(frozen=True)
class LifeFigures:
    """What is known of each of n sequences, to judge predictions by.

    Attributes:
        label: What is predicted.
        part: [n] what is judged together: a rig, or some of its bearings.
        bearing: [n] name of the bearing.
        seconds: [n] since the bearing's first sample.
        life: [n] seconds from there to the failure; NaN for recordings that are no life.
        windows: [n] windows that the prediction stands for: the paper's score is a sum over windows.
    """

    label: Label
    part: np.ndarray
    bearing: np.ndarray
    seconds: np.ndarray
    life: np.ndarray
    windows: np.ndarray

    def of(self, index: Tensor, predicted: Tensor, actual: Tensor) -> dict[str, float]:
        """Figures of predictions [m, 1] for some sequences, by name; those of a part are means over its bearings.

        `score` (the paper's, lower is better), `mae` of the share of life that is used, `phm` (mean accuracy of
        the remaining life by the challenge's rules, asked at 50, 60, 70, 80 and 90 % of the life), `challenge`
        (the same where the challenge cut the run off), `monotonicity` and `trendability` of the smoothed curve.
        """
        places = index.numpy()
        used = [self._used(places, values.double().numpy().ravel()) for values in (predicted, actual)]
        found: dict[str, list[float]] = {}
        for part, bearing in dict.fromkeys(zip(self.part[places], self.bearing[places], strict=True)):
            mine = np.flatnonzero((self.part[places] == part) & (self.bearing[places] == bearing))
            for name, value in self._curve(places[mine], used[0][mine], used[1][mine]).items():
                found.setdefault(f"{name} {part}", []).append(value)
        return {name: fmean(values) for name, values in found.items()}

    def clock(self, places: np.ndarray) -> np.ndarray:
        """What is predicted by reading off how much of its recording has passed, for sequences with these indices.

        Where the time of failure is not known, the recording's last moment takes its place.
        """
        keys = np.char.add(np.char.add(self.part, " "), self.bearing)
        _, number = np.unique(keys, return_inverse=True)
        ends = np.zeros(number.max() + 1)
        np.maximum.at(ends, number, self.seconds)
        life = np.where(np.isnan(self.life), ends[number], self.life)
        used = self.seconds / life
        left = np.maximum(life - self.seconds, 0) / 60
        return (left if self.label is Label.RUL else used)[places]

    def _used(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Share of the life that is used, by values of the label."""
        if self.label is not Label.RUL:
            return values
        elapsed = self.seconds[places]
        return elapsed / np.maximum(elapsed + 60 * np.maximum(values, 0), 1e-9)

    def _curve(self, places: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
        """Figures of one bearing."""
        order = np.argsort(self.seconds[places], kind="stable")
        places, predicted, actual = places[order], predicted[order], actual[order]
        seconds, life = self.seconds[places], float(self.life[places[0]])
        each = np.repeat(np.arange(len(places)), self.windows[places].astype(int))
        figures = {
            "score": paper_score(predicted[each], actual[each]),
            "mae": float(np.abs(predicted - actual).mean()),
        }
        width = min(_SMOOTH, len(places))
        curve = np.convolve(predicted, np.full(width, 1 / width), "valid")
        if len(curve) > 1:
            figures["monotonicity"] = monotonicity(curve)
            figures["trendability"] = trendability(curve, seconds[len(seconds) - len(curve) :])
        name, asked = str(self.bearing[places[0]]), {}
        if np.isfinite(life):
            asked["phm"] = _ASKED * life
            if str(self.part[places[0]]).startswith(PRONOSTIA_WORD) and name in CHALLENGE:
                asked["challenge"] = np.array([life - CHALLENGE[name]])
        for figure, moments in asked.items():
            accuracy = _accuracy(seconds, life, predicted, moments)
            if len(accuracy):
                figures[figure] = float(accuracy.mean())
        return figures


def _accuracy(seconds: np.ndarray, life: float, predicted: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Accuracy of the remaining life at some moments, each by the last prediction before it.

    Moments before the first prediction are left out: a network says nothing before it has read a whole sequence.
    """
    last = np.searchsorted(seconds, asked, "right") - 1
    at = last[last >= 0]
    if not len(at):
        return np.empty(0)
    return phm_accuracy(remaining_from_fraction(predicted[at], seconds[at]), life - seconds[at])
