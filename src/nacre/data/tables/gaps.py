"""Values that were not observed, in tables of your own: counted, checked, and made events of."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre.data.dataset import UNSCORED, Dataset, is_scored
from nacre.data.missing import Missing

_LISTED = 40  # columns in a note
_DONE = {
    Missing.FLAGS: "they are flagged as not observed",
    Missing.LAST: "the last value seen stands for them, flagged",
    Missing.EVENTS: "each observed value is a step of its own",
}


def settle(data: Dataset, missing: Missing, known: bool = True) -> Dataset:
    """A data set whose rows may hold NaN, in the form that `missing` asks for, with a note on how much is missing.

    Args:
        data: Rows with features as they came, `static` ones the same within each sequence.
        missing: What is done about values that were not observed.
        known: Whether answers are known: features of which nothing was observed are refused, and sequences without
            an answer left out.
    """
    if missing is Missing.ERROR:
        return data
    if known:
        data = _answered(data)
    seen, rows = _counts(data)
    if known:
        _refuse_empty(data, seen)
        data = replace(data, notes=(*data.notes, _how_much(data, missing, seen, rows)))
    if missing is not Missing.EVENTS:
        return replace(data, missing=missing)
    return data if data.has_events else as_events(replace(data, missing=Missing.FLAGS))


def how_much(data: Dataset) -> str:
    """A sentence on how much of each feature is missing, and what is done about it.

    Example:
        >>> from nacre.data import from_arrays
        >>> data = from_arrays([[[1.0, 2.0], [None, 2.0]], [[1.0, 3.0]]], [0.5, 1.5], missing="last")
        >>> how_much(data)
        'Missing: 16.7 % of 6 values (x0 33.3 %); the last value seen stands for them, flagged.'
    """
    return _how_much(data, data.missing, *_counts(data))


def _counts(data: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[F] values that were observed of each feature, and [F] how many there could be."""
    rows = data.rows(torch.arange(len(data)))
    names = len(data.features)
    if not data.has_events:
        used = slice(None) if len(rows) == len(data.values) else rows
        seen = [len(rows) - int(column[used].isnan().sum()) for column in data.values.unbind(1)]
        return np.array(seen), np.full(names, len(rows))
    events = data.values[rows]
    seen = events[~events[:, 1].isnan(), 0].long().bincount(minlength=names)
    begins = torch.zeros(len(data.values), dtype=torch.bool)
    begins[data.start] = True
    stamps = int((begins[rows] | (data.time[rows].diff(prepend=data.time[:1]) != 0)).sum())
    could = np.full(names, stamps)
    could[[*data.static, *data.one_hot]] = len(data)
    return seen.numpy(), could


def _how_much(data: Dataset, missing: Missing, seen: NDArray, could: NDArray) -> str:
    plain = [i for i in range(len(data.features)) if i not in data.one_hot]
    shares = {data.features[i]: 1 - seen[i] / could[i] for i in plain if seen[i] < could[i]}
    named = sorted(shares.items(), key=lambda pair: -pair[1])
    total = int(could[plain].sum())
    if not named:
        return f"Missing: nothing of {total:,} values (missing = {str(missing)!r} is ready for it)."
    listed = ", ".join(f"{name} {100 * share:.1f} %" for name, share in named[:_LISTED])
    more = f", and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
    share = 100 * (1 - seen[plain].sum() / total)
    return f"Missing: {share:.1f} % of {total:,} values ({listed}{more}); {_DONE[missing]}."


def as_events(data: Dataset) -> Dataset:
    """The observed values of rows as events: one after the other, in the order of rows and of features.

    Static features, and they first, only come with the first row of a sequence; of names in columns of a category,
    the one that applies. A sequence of which nothing was observed is one event without a value.

    Example:
        >>> from nacre.data import from_arrays
        >>> rows = from_arrays([[[1.0, None], [None, 4.0]], [[5.0, 6.0]]], [0.5, 1.5], missing="flags")
        >>> as_events(rows).values.tolist()
        [[0.0, 1.0], [1.0, 4.0], [0.0, 5.0], [1.0, 6.0]]
    """
    seen = ~data.values.isnan()
    hot = list(data.one_hot)
    seen[:, hot] &= data.values[:, hot] > 0
    first = torch.zeros(len(data.values), dtype=torch.bool)
    first[data.start] = True
    static = list(data.static)
    seen[:, static] &= first.unsqueeze(1)
    order = [*static, *(column for column in range(len(data.features)) if column not in data.static)]
    row, place = seen[:, order].nonzero(as_tuple=True)
    column = torch.tensor(order)[place]
    return events_of(data, row, column, data.values[row, column])


def events_of(data: Dataset, row: Tensor, column: Tensor, value: Tensor) -> Dataset:
    """The data set whose steps are these values [m] of features [m] at its rows [m], ascending."""
    stop = data.start + data.length
    begin, end = (torch.searchsorted(row, edge) for edge in (data.start, stop))
    empty = begin == end
    if empty.any():  # one event without a value, so that the sequence stays
        where = data.start[empty]
        row, order = torch.cat([row, where]).sort(stable=True)
        column = torch.cat([column, torch.zeros_like(where)])[order]
        value = torch.cat([value, value.new_full((len(where),), torch.nan)])[order]
        begin, end = (torch.searchsorted(row, edge) for edge in (data.start, stop))
    return replace(
        data,
        values=torch.stack([column.to(value.dtype), value], 1),
        time=data.time[row],
        start=begin,
        length=end - begin,
        missing=Missing.EVENTS,
    )


def spread_static(values: NDArray, first: NDArray[np.int64], columns: Sequence[int]) -> tuple[int, int] | None:
    """Write the one value that static columns have in each sequence into all of its rows, in place.

    Args:
        values: [N, F] rows; sequences lie one after the other.
        first: [n] their first rows.
        columns: The static ones.

    Returns:
        Row and column of a value that is not the one before it in the sequence; None if there is no such value.
    """
    owner = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(values))))
    for column in columns:
        cells = values[:, column]
        there = np.flatnonzero(~np.isnan(cells))
        one = np.full(len(first), np.nan, values.dtype)
        one[owner[there[::-1]]] = cells[there[::-1]]  # the first of each sequence is written last
        other = there[cells[there] != one[owner[there]]]
        if len(other):
            return int(other[0]), column
        values[:, column] = one[owner]
    return None


def _answered(data: Dataset) -> Dataset:
    """Without the sequences that have no known answer, and a note of how many they are."""
    scored = is_scored(data.y, data.kind)
    if data.kind.each_step:
        before = torch.nn.functional.pad(scored.long().cumsum(0), (1, 0))
        scored = before[data.start + data.length] > before[data.start]
    if not scored.any():
        raise ValueError(f"{data.name}: the target is missing everywhere, so there is nothing to learn")
    if scored.all():
        return data
    gone = int((~scored).sum())
    present, group = data.group[scored].unique(return_inverse=True)
    return replace(
        data,
        start=data.start[scored],
        length=data.length[scored],
        y=data.y if data.kind.each_step else data.y[scored],
        group=group,
        groups=tuple(data.groups[number] for number in present.tolist()),
        notes=(*data.notes, f"Left out {gone:,} of {len(scored):,} sequences, whose target is missing."),
    )


def _refuse_empty(data: Dataset, seen: NDArray[np.int64]) -> None:
    empty = [name for i, name in enumerate(data.features) if not seen[i] and i not in data.one_hot]
    if empty:
        raise ValueError(
            f"{data.name}: nothing was observed of {', '.join(map(repr, empty))}; leave such columns out "
            "(of features, or of static)"
        )


def unscored(answers: Tensor, unknown: NDArray[np.bool_]) -> Tensor:
    """Answers [m] or [m, D], those that are unknown [m] or [m, D] as `UNSCORED` or NaN."""
    mark = torch.nan if answers.is_floating_point() else UNSCORED
    return answers.masked_fill(torch.from_numpy(unknown), mark)
