"""How cost grows with length: exponents fitted to a sweep."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from nacre._util.checks import whole
from nacre.bench.paper import COMPLEXITY
from nacre.bench.record import ACTIONS, Action, BenchResult

FROM = 4096  # shorter sequences cost mostly what does not depend on length
ENOUGH = 3  # points
Quantity = Literal["seconds", "added_bytes"]
QUANTITIES: tuple[Quantity, Quantity] = ("seconds", "added_bytes")


@dataclass(frozen=True)
class Fit:
    """Least-squares slope of log cost over log length, and the lengths it was fitted to."""

    exponent: float
    shortest: int
    longest: int
    points: int


def fit_exponent(lengths: Sequence[int], costs: Sequence[float | None], start: int = FROM) -> Fit | None:
    """Fit cost = c * length ** exponent; None with costs at fewer than two lengths.

    Args:
        lengths: Of the sequences.
        costs: At each length; None and 0 are left out.
        start: Where the fit begins, if there are at least three costs from there on; else all are fitted.

    Example:
        >>> fit_exponent([10, 100, 1000], [3.0, 300.0, 30000.0]).exponent
        2.0
    """
    whole("start", start, 1)
    pairs = [(n, cost) for n, cost in zip(lengths, costs, strict=True) if cost]
    late = [pair for pair in pairs if pair[0] >= start]
    if len(late) >= ENOUGH:
        pairs = late
    used = [n for n, _ in pairs]
    if len(set(used)) < 2:
        return None
    slope = np.polyfit([math.log(n) for n in used], [math.log(cost) for _, cost in pairs], 1)[0]
    return Fit(round(float(slope), 4), min(used), max(used), len(used))


@dataclass(frozen=True)
class Growth:
    """Exponents of one model, by action and quantity, and the complexity that the paper states for it."""

    model: str
    fits: dict[tuple[Action, Quantity], Fit | None]
    paper: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        fits = {f"{action}_{quantity}": fit and asdict(fit) for (action, quantity), fit in self.fits.items()}
        return {"model": self.model, **fits, "complexity (paper)": self.paper}


def growth(results: Sequence[BenchResult]) -> list[Growth]:
    """Exponents of every model in a sweep, in its order."""
    grown = []
    for model in dict.fromkeys(r.entry.model for r in results):
        some = [r for r in results if r.entry.model == model]
        lengths = [r.entry.length for r in some]
        fits: dict[tuple[Action, Quantity], Fit | None] = {
            (action, quantity): fit_exponent(lengths, [getattr(r.cost(action), quantity) for r in some])
            for action in ACTIONS
            for quantity in QUANTITIES
        }
        grown.append(Growth(model, fits, COMPLEXITY.get(model)))
    return grown
