"""Solutions of the logit's equation da/dt = -omega(t) a + phi(t): true, frozen, and frozen anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from nacre.functional import frozen_error_bound, solve_logits
from nacre.study.frozen.gates import Regime, VaryingGate

Array = NDArray[np.float64]

RTOL, ATOL = 1e-10, 1e-12
_STEPS = 64  # the solver takes at least so many, so that its interpolation between them is as good


@dataclass(frozen=True)
class Logit:
    """A logit whose gates change."""

    phi: VaryingGate  # content target over time
    omega: VaryingGate  # decay rate over time, > 0
    a0: float = 0.0  # where it starts

    def at_horizon(self, horizon: float) -> Logit:
        """The same on [0, horizon]: a step then happens at half of that, nothing else changes."""
        return Logit(replace(self.phi, horizon=horizon), replace(self.omega, horizon=horizon), self.a0)


def solve_varying(logit: Logit, t: Array) -> Array:
    """The true solution at times t, ascending from 0 to at most the horizon.

    DOP853 with relative tolerance 1e-10. Gates that step are constant before and after: exact on both sides.
    """
    if logit.phi.regime == Regime.STEP:
        return solve_refrozen(logit, t, 2)
    from scipy.integrate import solve_ivp  # takes a while to import

    def slope(s: float, a: Array) -> Array:
        now = np.asarray(s)
        return logit.phi.at(now) - logit.omega.at(now) * a

    end = float(t[-1])
    solved = solve_ivp(slope, (0.0, end), [logit.a0], "DOP853", t, rtol=RTOL, atol=ATOL, max_step=end / _STEPS)
    return solved.y[0]


def solve_frozen(logit: Logit, t: Array) -> Array:
    """The library's closed form with both gates as they were at 0.

    Example:
        >>> logit = Logit(VaryingGate("slow", 0.5, 0.1), VaryingGate("slow", 1.0, 0.0))
        >>> solve_frozen(logit, np.array([0.0, 1.0])).round(4)
        array([0.    , 0.3161])
    """
    start = np.zeros(1)
    return _closed(logit.phi.at(start), logit.omega.at(start), t, np.array([logit.a0]))


def solve_refrozen(logit: Logit, t: Array, intervals: int) -> Array:
    """The closed form with gates frozen anew at the start of each of so many equal intervals of the horizon."""
    ends = np.linspace(0, logit.phi.horizon, intervals + 1)
    phi, omega = logit.phi.at(ends[:-1]), logit.omega.at(ends[:-1])
    start = np.empty(intervals)  # value of the logit where an interval begins
    a = np.array(logit.a0)
    for i, length in enumerate(np.diff(ends)):
        start[i] = a
        a = _closed(phi[i], omega[i], length, a)
    which = (np.searchsorted(ends, t, "right") - 1).clip(0, intervals - 1)
    return _closed(phi[which], omega[which], t - ends[which], start[which])


def _closed(phi: Array, omega: Array, t: Array, a0: Array) -> Array:
    """`nacre.functional.solve_logits` in float64."""
    phi_, omega_, t_, a0_ = (torch.as_tensor(x, dtype=torch.float64) for x in (phi, omega, t, a0))
    return solve_logits(phi_, omega_, t_, "exact", a0=a0_).numpy()


def error_bound(logit: Logit, t: Array) -> Array | None:
    """The theorem's bound on the error of freezing at times t; None where a gate steps: no bound applies.

    The constants are the exact largest derivatives of the gates. What a grid shows is a little less.
    """
    l_phi, l_omega = logit.phi.lipschitz, logit.omega.lipschitz
    if l_phi is None or l_omega is None:
        return None
    numbers = (l_phi, l_omega, logit.phi.base, logit.omega.base, t)
    tensors = (torch.as_tensor(x, dtype=torch.float64) for x in numbers)
    return frozen_error_bound(*tensors, a0=logit.a0).numpy()


def error_limit(logit: Logit, t: Array) -> float:
    """What the error in percent of max |a| cannot exceed with gates of this shape, a0 >= 0 and phi > 0.

    The error e obeys e' = -omega(0) e + (phi - phi(0)) - (omega - omega(0)) a, so |e| is at most
    (D_phi + D_omega A) g(omega(0)) with g(w) = (1 - e^(-w T)) / w, A = max |a|, and D the largest departures of
    the gates from their start. Since A >= min phi g(max omega), g(w) <= 1 / w and g(v) / g(w) <= w / v for v <= w,

        |e| / A <= D_phi / min phi * max omega / omega(0) + D_omega / omega(0),

    about the sum of both departures: base values, start and horizon do not matter.
    """
    phi, omega = logit.phi.at(t), logit.omega.at(t)
    by_phi = np.abs(phi - phi[0]).max() / phi.min() * omega.max() / omega[0]
    return 100 * float(by_phi + np.abs(omega - omega[0]).max() / omega[0])
