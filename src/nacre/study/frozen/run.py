"""One run of the frozen study: how wrong a frozen logit gets in one regime, and how fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice, real
from nacre.study.frozen.gates import (
    HORIZON,
    VaryingGate,
    amplitude_for,
    measured_lipschitz,
    measured_variation,
    variation_of,
)
from nacre.study.frozen.solve import (
    ATOL,
    RTOL,
    Logit,
    error_bound,
    error_limit,
    solve_frozen,
    solve_refrozen,
    solve_varying,
)
from nacre.study.profile import StudyProfile

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

SLACK = 1e-12  # what rounding may add to a bound
_KEPT = 128  # points of a curve in the result file
_FITTED_FROM = 8  # slopes are fitted from horizons of 1/8 and 8 intervals on: half an oscillation and less


class Resolution(NamedTuple):
    """How finely a run samples time."""

    points: int  # of a time grid, besides 0
    halvings: int  # of the horizon
    intervals: int  # most on which gates are frozen anew, a power of 2


DETAIL = {StudyProfile.QUICK: Resolution(1024, 5, 32), StudyProfile.PAPER: Resolution(8192, 8, 64)}


@dataclass(frozen=True)
class Start:
    """Where gates and logit start."""

    phi: float = 0.3  # content target, inside the range of a sigmoid gate; from 0.3 strong changes stay inside
    omega: float = 1.0  # decay rate; with 1 the logit settles within the horizon, but not at once
    a: float = 0.0  # the logit; NAC's own logits start at 0

    def __post_init__(self) -> None:
        """Refuse what is no start."""
        real("phi", self.phi, 0.0, math.inf, open_low=True)
        real("omega", self.omega, 0.0, math.inf, open_low=True)
        real("a", self.a, 0.0, math.inf)


@dataclass(frozen=True)
class FrozenRun:
    """What to run."""

    regime: str  # how gates change
    strength: str  # how much
    profile: str = StudyProfile.QUICK
    start: Start = Start()

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        variation_of(self.regime, self.strength)
        choice("profile", self.profile, StudyProfile)

    @classmethod
    def of(cls, result: dict[str, Any]) -> FrozenRun:
        """The run that gave a result."""
        return cls(result["regime"], result["strength"], result["profile"], Start(**result["start"]))

    @property
    def steps(self) -> int:
        """The solution, halved horizons, finer intervals."""
        return 3

    def path(self, out: Path) -> Path:
        """Its result file."""
        start = self.start
        section = f"{self.profile}-phi{start.phi:g}-omega{start.omega:g}-a{start.a:g}"
        return out / section / f"{self.regime}-{self.strength}.json"

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.regime} gates, {self.strength} variation"

    @property
    def logit(self) -> Logit:
        """What is frozen."""
        bases, variations = (self.start.phi, self.start.omega), variation_of(self.regime, self.strength)
        phi, omega = (
            VaryingGate(self.regime, base, amplitude_for(self.regime, percent))
            for base, percent in zip(bases, variations, strict=True)
        )
        return Logit(phi, omega, self.start.a)

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Solve with changing and with frozen gates, and compare."""
        detail = DETAIL[StudyProfile(self.profile)]
        found = compare(self.logit, detail.points)
        on_step(1, found["max_error"])
        halved = halve(self.logit, detail)
        on_step(2, halved[-1]["error"])
        finer = refreeze(self.logit, detail)
        on_step(3, finer[-1]["error"])
        return {
            "regime": self.regime,
            "strength": self.strength,
            "profile": str(self.profile),
            "start": asdict(self.start),
            "horizon": HORIZON,
            "wanted_variation": variation_of(self.regime, self.strength)._asdict(),
            "detail": detail._asdict(),
            "tolerance": {"relative": RTOL, "absolute": ATOL, "bound": SLACK},
            **found,
            "halved": halved,
            "halved_slope": slope(
                [(p["horizon"], p["error"]) for p in halved if p["horizon"] <= 1 / _FITTED_FROM]
            ),
            "refrozen": finer,
            "refrozen_slope": slope(
                [(p["intervals"], p["error"]) for p in finer if p["intervals"] >= _FITTED_FROM]
            ),
        }


def compare(logit: Logit, points: int) -> dict[str, Any]:
    """Errors on [0, 1] in percent of max |a|, what the gates do, and whether the theorem's bound holds."""
    t = np.linspace(0, HORIZON, points + 1)
    varying, frozen, bound = solve_varying(logit, t), solve_frozen(logit, t), error_bound(logit, t)
    phi, omega = logit.phi.at(t), logit.omega.at(t)
    error = np.abs(varying - frozen)
    percent = 100 * error[1:] / np.abs(varying).max()
    curve = {"t": t, "phi": phi, "omega": omega, "varying": varying, "frozen": frozen, "error": error}
    if bound is not None:
        curve["bound"] = bound
    return {
        "mean_error": float(percent.mean()),
        "max_error": float(percent.max()),
        "limit": error_limit(logit, t),
        "variation": {"phi": measured_variation(logit.phi, t), "omega": measured_variation(logit.omega, t)},
        "bound": None if bound is None else _judge(logit, t, error, bound),
        "curve": {name: values[:: max(1, points // _KEPT)].tolist() for name, values in curve.items()},
    }


def _judge(
    logit: Logit, t: NDArray[np.float64], error: NDArray[np.float64], bound: NDArray[np.float64]
) -> dict[str, Any]:
    """Whether the bound holds at every point, how tight it is, and with which Lipschitz constants."""
    return {
        "holds": bool((error <= bound + SLACK).all()),
        "points": len(t) - 1,
        "nearest": float((error[1:] / bound[1:]).max()),
        "lipschitz": {"phi": logit.phi.lipschitz, "omega": logit.omega.lipschitz},
        "lipschitz_on_grid": {
            "phi": measured_lipschitz(t, logit.phi.at(t)),
            "omega": measured_lipschitz(t, logit.omega.at(t)),
        },
    }


def halve(logit: Logit, detail: Resolution) -> list[dict[str, float]]:
    """Largest error on [0, T] for T = 1, 1/2, 1/4, ...; a step happens at T / 2."""
    found = []
    for i in range(detail.halvings + 1):
        horizon = HORIZON / 2**i
        t, short = np.linspace(0, horizon, detail.points + 1), logit.at_horizon(horizon)
        error = np.abs(solve_varying(short, t) - solve_frozen(short, t)).max()
        found.append({"horizon": horizon, "error": float(error)})
    return found


def refreeze(logit: Logit, detail: Resolution) -> list[dict[str, float]]:
    """Largest error on [0, 1] with gates frozen anew on n = 1, 2, 4, ... equal intervals."""
    t = np.linspace(0, HORIZON, detail.points + 1)
    varying = solve_varying(logit, t)
    found = []
    for i in range(int(math.log2(detail.intervals)) + 1):
        error = np.abs(varying - solve_refrozen(logit, t, 2**i)).max()
        found.append({"intervals": 2**i, "error": float(error)})
    return found


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of a straight line through log y over log x; None where some y is mere rounding.

    Example:
        >>> slope([(1, 1), (2, 4), (4, 16)])
        2.0
    """
    if len(points) < 2 or any(y <= SLACK for _, y in points):
        return None
    x, y = np.log(np.array(points)).T
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())
