"""Labels of bearings: the used fraction of life, the remaining useful life, and the paper's degradation."""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import real

_ACTIVATION = 0.1  # eV, of each of three processes
_BOLTZMANN = 8.617e-5  # eV a kelvin
_AGEING = 1e-5  # a second, of each of three processes
_ZERO = 273.15  # kelvin at 0 degrees Celsius


class Label(StrEnum):
    """What a network is asked."""

    FRACTION = "fraction"  # used fraction of the life, 0 when new, 1 at the failure
    RUL = "rul"  # remaining useful life in minutes, clipped
    PHYSICS = "physics"  # the paper's


def life_fraction(seconds: NDArray[np.float64], life: float) -> NDArray[np.float64]:
    """Used fraction of a life at `seconds` [n] since the first sample; it fails at `life`.

    Example:
        >>> life_fraction(np.array([0.0, 30.0, 60.0]), 60.0).tolist()
        [0.0, 0.5, 1.0]
    """
    real("life", life, 0.0, np.inf, open_low=True)
    return seconds / life


def remaining_minutes(seconds: NDArray[np.float64], life: float, most: float | None = None) -> NDArray[np.float64]:
    """Minutes to the failure, at most `most`: an undamaged bearing does not show how long it will last.

    Example:
        >>> remaining_minutes(np.array([0.0, 3600.0, 7200.0]), 7200.0, most=90).tolist()
        [90.0, 60.0, 0.0]
    """
    real("life", life, 0.0, np.inf, open_low=True)
    left = (life - seconds) / 60
    return left if most is None else left.clip(max=real("most", most, 0.0, np.inf, open_low=True))


def physics_label(
    pseudo_seconds: NDArray[np.float64], celsius: NDArray[np.float64], rpm: float, load: float
) -> NDArray[np.float64]:
    """The paper's degradation label [n], from 0 to 1, as its authors' files hold it.

    It is the normalised integral of a rate that depends on time, temperature, speed and load (in newtons), not on
    vibration. With a constant temperature it is almost a straight line in time; with a rising one it grows more
    slowly, because the authors' exponent has the opposite sign of Arrhenius' law. A network that is given time or
    temperature can read it off: never train on it with either as an input. `pseudo_seconds` [n] is the authors'
    column Time: 1,000 samples a row, no pauses.
    """
    kelvin = celsius + _ZERO
    wear = 1e-6 * load * 3.14 * 0.025 * (rpm / 60) / 1.5e9
    exponent = 3 * _ACTIVATION / (_BOLTZMANN * kelvin) + 3 * _AGEING * pseudo_seconds
    # Divided by its largest value, so that the exponential cannot overflow; only ratios count.
    rate = np.exp(exponent - exponent.max()) * (1 + wear * pseudo_seconds) ** 3
    steps = np.diff(pseudo_seconds) * (rate[1:] + rate[:-1]) / 2
    integral = np.concatenate([[0.0], steps.cumsum()])
    if not integral[-1] > 0:
        raise ValueError("pseudo_seconds must rise, and hold two times at least")
    return integral / integral[-1]
