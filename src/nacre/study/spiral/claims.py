"""What the paper says of heads, sparsity and keys on spirals, and what the results say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, TypeVar

from nacre.study.spiral.grid import Section
from nacre.train.report.statistics import ranks

if TYPE_CHECKING:
    from nacre.study.spiral.table import SpiralRow

_Value = TypeVar("_Value", int, float)
FEWER_HEADS, PAPER_HEADS, PAPER_SPARSITY = (1, 2), 4, 0.5


@dataclass(frozen=True)
class Claims:
    """Numbers to compare with the paper's, all from the mean squared error of one part.

    The paper says: 4 heads have about 37 % less error than 1 or 2; the best sparsity is 0.5; the number of keys
    that does most steadily well over lengths lies between 8 and 16.
    """

    four_heads: dict[int, float]  # error of 4 heads relative to that of 1 and 2 heads, less 1: -0.37 is 37 % less
    best_heads: int | None
    best_sparsity: float | None
    half_by_best: float | None  # error at sparsity 0.5 relative to that at the best sparsity, at least 1
    best_keys: dict[int, int]  # for each length
    key_ranks: dict[int, float]  # mean rank over lengths of each number of keys; 1 is best at every length


def claims_of(rows: Sequence[SpiralRow], part: str) -> Claims:
    """Claims about "interpolation" or "extrapolation" from the rows of one budget; None or missing if not run."""
    heads = {row.heads: row.mse(part) for row in rows if row.section == Section.HEADS}
    sparsity = {row.sparsity: row.mse(part) for row in rows if row.section == Section.SPARSITY}
    keys: dict[int, dict[int, float]] = {}  # by length, then by keys
    for row in rows:
        if row.section == Section.KEYS:
            keys.setdefault(row.length, {})[row.top_k] = row.mse(part)
    four, half = heads.get(PAPER_HEADS), sparsity.get(PAPER_SPARSITY)
    return Claims(
        four_heads={} if four is None else {n: four / heads[n] - 1 for n in FEWER_HEADS if n in heads},
        best_heads=_lowest(heads) if heads else None,
        best_sparsity=_lowest(sparsity) if sparsity else None,
        half_by_best=None if half is None else half / sparsity[_lowest(sparsity)],
        best_keys={length: _lowest(errors) for length, errors in sorted(keys.items())},
        key_ranks=_mean_ranks(list(keys.values())),
    )


def sentences(claims: Claims) -> dict[Section, str]:
    """The claims in words, for each section of which enough has been run, with what the paper says."""
    said = {}
    if claims.four_heads:
        changes = ", ".join(f"{change:+.0%} against {n}" for n, change in claims.four_heads.items())
        said[Section.HEADS] = f"4 heads {changes} (paper: about -37%), lowest with {claims.best_heads}"
    if claims.half_by_best is not None:
        lowest = f"lowest at {claims.best_sparsity:g} (paper: 0.5)"
        said[Section.SPARSITY] = f"{lowest}, at 0.5 {claims.half_by_best:.2f} times the lowest"
    if claims.best_keys:
        lowest = ", ".join(f"K={keys} at {length:,}" for length, keys in claims.best_keys.items())
        means = ", ".join(f"K={keys} {rank:.2f}" for keys, rank in claims.key_ranks.items())
        said[Section.KEYS] = f"lowest with {lowest}; mean rank over lengths {means} (paper: 8 < K < 16)"
    return said


def _lowest(errors: dict[_Value, float]) -> _Value:
    """Where the error is lowest; a run that diverged is never best."""
    return min(errors, key=lambda value: errors[value] if math.isfinite(errors[value]) else math.inf)


def _mean_ranks(by_length: Sequence[dict[int, float]]) -> dict[int, float]:
    """Mean rank of each number of keys, over the lengths at which all of them have been run."""
    if not by_length:
        return {}
    names = sorted({keys for errors in by_length for keys in errors})
    whole = [ranks([errors[keys] for keys in names], "lower") for errors in by_length if {*errors} == {*names}]
    if not whole:
        return {}
    places = {keys: [rank[i] for rank in whole] for i, keys in enumerate(names)}
    # A run that diverged has no rank and counts as last.
    return {keys: mean(len(names) if place is None else place for place in some) for keys, some in places.items()}
