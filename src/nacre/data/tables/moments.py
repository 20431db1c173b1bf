"""Questions at any moments: what a target is between, or after, the rows at which it was observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import Missing
from nacre.data.tables.arrays import ArrayRows

SEEN, GUESS = "seen", "guess"  # features: 1 at rows that tell something, and the target on straight lines


class AskedMoments(NamedTuple):
    """A data set of questions, and where its answers belong."""

    data: Dataset
    row: NDArray[np.int64]  # [Q] rows of the data set that ask
    sequence: NDArray[np.int64]  # [Q] whose question each is
    place: NDArray[np.int64]  # [Q] its place among the moments of that sequence


def ask(
    rows: ArrayRows,
    at: Sequence[NDArray[np.float64]],
    target: int,
    *,
    answers: Sequence[NDArray] | None = None,
    groups: Sequence[str] | None = None,
    causal: bool = False,
    missing: Missing = Missing.ERROR,
    name: str = "moments",
) -> AskedMoments:
    """Sequences with a row more for each question, which holds its moment and tells nothing (`query_only`).

    The last two features are `seen`, 1 or 0, and `guess`: the target on straight lines in time between the rows
    where it was observed, and its last value after them. Answers are learned relative to this guess.

    Args:
        rows: What was observed.
        at: Moments of each sequence, in any order; none lies before the first observation of its target.
        target: The column that is asked.
        answers: What it is at these moments; NaN where that is not known. None if nothing is known.
        groups: Label of each sequence; None makes each a group of its own.
        causal: Whether an answer may use only what was observed up to its moment. A sequence then is there once
            for each number of rows that its questions may see.
        missing: What is done about NaN.
        name: Of the data set.

    Raises:
        ValueError: If a moment lies before all that is known.
    """
    labels = [str(i) for i in range(len(at))] if groups is None else list(groups)
    known = list(dict.fromkeys(labels))
    parts: list[_Part] = []
    for number, (begin, length) in enumerate(zip(rows.start, rows.length, strict=True)):
        span = slice(begin, begin + length)
        moments = np.asarray(at[number], np.float64)
        truth = np.full(len(moments), np.nan) if answers is None else np.asarray(answers[number], np.float64)
        _check(rows, span, number, moments, truth, target)
        seen = np.searchsorted(rows.time[span], moments, side="right") if causal else np.full(len(moments), length)
        for count in np.unique(seen):
            here = np.flatnonzero(seen == count)
            cut = slice(begin, begin + int(count))
            parts.append(_part(rows, cut, number, moments[here], truth[here], here, target, missing))
    if not parts:
        raise ValueError("at holds no moment; give at least one")
    length = np.array([len(part.time) for part in parts])
    start = np.cumsum(length) - length
    asks = np.concatenate([part.place for part in parts]) >= 0
    owner = np.array([part.sequence for part in parts])
    data = Dataset(
        name=name,
        kind=Kind.STEP_REGRESSION,
        values=torch.from_numpy(np.concatenate([part.values for part in parts])),
        time=torch.from_numpy(np.concatenate([part.time for part in parts])),
        start=torch.from_numpy(start),
        length=torch.from_numpy(length),
        y=torch.from_numpy(np.concatenate([part.y for part in parts])[:, None].astype(np.float32)),
        group=torch.tensor([known.index(labels[i]) for i in owner.tolist()]),
        groups=tuple(known),
        features=(*rows.features, SEEN, GUESS),
        targets=(rows.features[target],),
        query_only=torch.from_numpy(asks),
        static=rows.static,
        missing=missing,
        guess=(len(rows.features) + 1,),
        form="your own",
    )
    row = np.flatnonzero(asks)
    return AskedMoments(
        data, row, np.repeat(owner, length)[row], np.concatenate([part.place for part in parts])[row]
    )


class _Part(NamedTuple):
    """One sequence of a data set of questions."""

    values: NDArray[np.float32]  # [T, F + 2]
    time: NDArray[np.float64]  # [T]
    y: NDArray[np.float64]  # [T] NaN where nothing is asked
    place: NDArray[np.int64]  # [T] which moment a row asks for; -1 where it asks nothing
    sequence: int


def _part(
    rows: ArrayRows,
    span: slice,
    number: int,
    moments: NDArray,
    truth: NDArray,
    place: NDArray,
    target: int,
    missing: Missing,
) -> _Part:
    values, time = rows.values[span], rows.time[span]
    blank = np.full((len(moments), values.shape[1]), 0.0 if missing is Missing.ERROR else np.nan, np.float32)
    blank[:, list(rows.static)] = values[:1, list(rows.static)]
    stamps = np.concatenate([time, moments])
    order = np.argsort(stamps, kind="stable")  # a question comes after the observations of its moment
    there = ~np.isnan(values[:, target])
    guess = np.interp(stamps, time[there], values[there, target])
    seen = np.arange(len(stamps)) < len(time)
    table = np.concatenate([np.concatenate([values, blank]), seen[:, None], guess[:, None]], 1)
    y = np.concatenate([np.full(len(time), np.nan), truth])
    which = np.concatenate([np.full(len(time), -1), place])
    return _Part(table[order].astype(np.float32), stamps[order], y[order], which[order], number)


def _check(rows: ArrayRows, span: slice, number: int, moments: NDArray, truth: NDArray, target: int) -> None:
    if moments.ndim != 1 or not np.isfinite(moments).all():
        raise ValueError(f"at must hold finite moments, a list of them, got {moments} for sequence {number}")
    if truth.shape != moments.shape:
        raise ValueError(
            f"Y must hold a number for each moment of at: {len(moments):,} in sequence {number}, got shape "
            f"{truth.shape}"
        )
    there = ~np.isnan(rows.values[span, target])
    name = rows.features[target]
    if not there.any():
        raise ValueError(f"sequence {number} has no observation of the target {name!r}; leave it out")
    first = rows.time[span][there][0]
    early = moments < first
    if early.any():
        raise ValueError(
            f"at: moment {moments[early][0]:g} of sequence {number} lies before the first observation of "
            f"{name!r}, at {first:g}, so there is nothing to go by; ask from there on (moments are absolute, on "
            "the clock of time)"
        )


def one_for_each(argument: str, value: Any, sequences: int) -> list[Any]:  # noqa: ANN401 (lists in any form)
    """A list for each sequence: the one for all of them, or those that are given.

    Example:
        >>> one_for_each("at", [1.0, 2.0], 2), one_for_each("at", [[1.0], [2.0, 3.0]], 2)
        ([[1.0, 2.0], [1.0, 2.0]], [[1.0], [2.0, 3.0]])
    """
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise ValueError(f"{argument} must be a list, or a list for each sequence, got {value!r}")
    items = list(value)
    if not items or np.ndim(items[0]) == 0:
        return [value] * sequences
    if len(items) != sequences:
        raise ValueError(
            f"{argument} must be one list for all, or one for each of the {sequences:,} sequences, "
            f"got {len(items):,}"
        )
    return items
