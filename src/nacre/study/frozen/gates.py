"""How gates change over time in the frozen study: four regimes, each with its exact rate of change.

A gate starts at its base value g and changes on [0, T] by an amplitude c:

- slow: g (1 + c t), a straight line;
- fast: g e^(c t), exponential growth;
- step: g, then g (1 + c) from T / 2 on;
- oscillatory: g (1 + c sin 2 pi t), one period on [0, 1], which starts at its steepest.

The paper gives only the variation of its gates, (max - min) / mean in percent. `amplitude_for` turns one into c.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice, real

HORIZON = 1.0  # for which amplitudes are chosen


class Regime(StrEnum):
    """How a gate changes."""

    SLOW = "slow"
    FAST = "fast"
    STEP = "step"
    OSCILLATORY = "oscillatory"


class Strength(StrEnum):
    """How much a gate changes."""

    REPORTED = "reported"  # as much as the paper says of its own gates
    STRONG = "strong"  # so much that freezing hurts


class Variation(NamedTuple):
    """(max - min) / mean of both gates on [0, 1], in percent."""

    phi: float
    omega: float


class ReportedError(NamedTuple):
    """Errors that the paper reports, in percent."""

    mean: float
    max: float


# The paper's table. It has two slips: the mean of the oscillatory regime exceeds its max, and the average of the
# max column is 5.91 where 5.18 is printed.
REPORTED_VARIATION = {
    Regime.SLOW: Variation(0.50, 0.26),
    Regime.FAST: Variation(2.63, 1.58),
    Regime.STEP: Variation(3.51, 2.11),
    Regime.OSCILLATORY: Variation(8.28, 2.10),
}
REPORTED_ERROR = {
    Regime.SLOW: ReportedError(1.87, 3.05),
    Regime.FAST: ReportedError(6.41, 6.50),
    Regime.STEP: ReportedError(6.53, 7.20),
    Regime.OSCILLATORY: ReportedError(7.81, 6.90),
}
_STRONG = Variation(100.0, 50.0)


def variation_of(regime: str, strength: str) -> Variation:
    """By how many percent both gates change.

    Example:
        >>> variation_of("slow", "reported")
        Variation(phi=0.5, omega=0.26)
    """
    choice("regime", regime, Regime)
    choice("strength", strength, Strength)
    return REPORTED_VARIATION[Regime(regime)] if strength == Strength.REPORTED else _STRONG


def amplitude_for(regime: str, percent: float) -> float:
    """Amplitude c with which a gate of this regime varies by so many percent on [0, 1].

    Raises:
        ValueError: If the gate would change its sign: a line, a step or a sinusoid varies by less than 200 %.

    Example:
        >>> amplitude_for("slow", 100.0)
        2.0
    """
    choice("regime", regime, Regime)
    v = real("percent", percent, 0.0, math.inf) / 100
    if regime == Regime.FAST:
        return v  # (e^c - 1) / ((e^c - 1) / c)
    if v >= 2:
        raise ValueError(f"percent must be less than 200 in the {regime} regime, got {percent:g}")
    if regime == Regime.OSCILLATORY:
        return v / 2  # 2 c / 1
    return v / (1 - v / 2)  # c / (1 + c / 2)


@dataclass(frozen=True)
class VaryingGate:
    """One gate as a function of time.

    Example:
        >>> VaryingGate("slow", 0.5, 2.0).at(np.array([0.0, 1.0]))
        array([0.5, 1.5])
    """

    regime: str
    base: float  # value at 0
    amplitude: float  # how much it changes
    horizon: float = HORIZON  # T, at half of which a step happens

    def at(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at times t, any shape."""
        c = self.amplitude
        if self.regime == Regime.SLOW:
            shape = 1 + c * t
        elif self.regime == Regime.FAST:
            shape = np.exp(c * t)
        elif self.regime == Regime.STEP:
            shape = np.where(t < self.horizon / 2, 1.0, 1 + c)
        else:
            shape = 1 + c * np.sin(2 * np.pi * t)
        return self.base * shape

    @property
    def lipschitz(self) -> float | None:
        """The exact largest |derivative| on [0, T]; None for a step, which has none."""
        c = abs(self.base * self.amplitude)
        if self.regime == Regime.STEP:
            return None
        if self.regime == Regime.FAST:
            return c * math.exp(max(0.0, self.amplitude * self.horizon))
        return c * 2 * math.pi if self.regime == Regime.OSCILLATORY else c


def measured_lipschitz(t: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Largest difference quotient between neighbours of a grid: at most the exact constant, but for rounding."""
    return float(np.abs(np.diff(values) / np.diff(t)).max())


def measured_variation(gate: VaryingGate, t: NDArray[np.float64]) -> float:
    """(max - min) / mean in percent over an even grid; the mean is that of the midpoints."""
    mean = float(gate.at((t[1:] + t[:-1]) / 2).mean())
    return 100 * float(np.ptp(gate.at(t))) / mean
