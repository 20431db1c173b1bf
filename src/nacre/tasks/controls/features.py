"""What the fitted controls see of a sequence or of a step: tables of float64, one row for each scored answer.

Two families that never mix: inputs (values, for `linear`) and times (stamps only, for `time-only`). Sequences are
taken in chunks, because all windows of a long series at once do not fit into memory.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import Missing, fill
from nacre.tasks.controls.observed import summaries_of_observed
from nacre.tasks.metrics import answers_of, scored_sequences, scored_steps
from nacre.tasks.window_map import grid, interpolate

CHUNK_VALUES = 2**22  # numbers in the widest table of one chunk, padding included
ROWS = 200_000  # most rows that a scikit-learn model is fitted on
_DAY = 24.0  # hours


def chunks(data: Dataset, index: Tensor) -> tuple[Tensor, ...]:
    """The index in pieces, in order, each small enough to be held as one table of values."""
    widest = int(data.length[index].max()) * max(1, len(data.features))
    return index.split(max(1, CHUNK_VALUES // widest))


def training_table(
    data: Dataset, train: Tensor, table: Callable[[Dataset, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Features [m, P] and answers [m] or [m, D] of these sequences; of too many, a random sample.

    Not every k-th row, which could follow a rhythm of the data. The sample is the same each time.
    """
    answers = answers_of(data, train)
    keep = torch.ones(len(answers), dtype=torch.bool)
    if len(answers) > ROWS:
        keep[torch.randperm(len(answers), generator=torch.Generator().manual_seed(0))[ROWS:]] = False
    parts, done = [], 0
    for chunk in chunks(data, train):
        part = table(data, chunk)
        parts.append(part[keep[done : done + len(part)]])
        done += len(part)
    return torch.cat(parts), answers[keep]


def inputs_of(data: Dataset, index: Tensor) -> Tensor:
    """What `linear` sees of each scored answer: [m, P].

    Forecasting: the whole window, the target relative to its last value. One answer for each sequence: mean,
    standard deviation, first and last value of each feature, number of steps and duration. A class for each step:
    its features. Numbers for each step: its features, the time since the first step and since the step before.

    Where values may be missing, windows hold what was last seen, and of sequences the observed values count, also
    in the literal sense: how many there are of each feature. What is not known is NaN.
    """
    match data.kind:
        case Kind.FORECASTING:
            return _windows(data, scored_sequences(data, index))
        case Kind.CLASSIFICATION | Kind.REGRESSION | Kind.MULTI_LABEL:
            return _summaries(data, scored_sequences(data, index))
        case Kind.STEP_CLASSIFICATION:
            return data.values[scored_steps(data, index).row].double()
        case Kind.STEP_REGRESSION:
            row, first = scored_steps(data, index)
            return torch.cat([data.values[row].double(), _since(data, row, first)], 1)


def last_known(data: Dataset, index: Tensor) -> Tensor:
    """[m, 1] the target's last observed value in each sequence, for forecasting; NaN if there is none."""
    if data.target_column is None:
        raise ValueError(f"{data.name}: target_column must be set for forecasting, got None")
    return data.last_values(index, [data.target_column])


def _windows(data: Dataset, index: Tensor) -> Tensor:
    """[m, T * F] all values of windows of one length, or of one duration."""
    if len(index) == 0:
        points = int(data.length[0]) if data.window is None else data.window[0]
        return torch.empty(0, points * len(data.features), dtype=torch.float64)
    batch = data.batch(index)
    x = batch.x.double()
    if data.missing.has_flags:
        valid = ~batch.key_padding_mask
        x = fill(x, batch.time, ~x.isnan() & valid.unsqueeze(-1), valid, x.new_full((), torch.nan), 1.0).x
    if data.window is not None and not bool((data.length == data.window[0]).all()):
        # Rows are missing: straight lines between the others, at the times of all.
        x = interpolate(
            x, batch.time, batch.key_padding_mask, grid(batch.time, batch.key_padding_mask, *data.window)
        )
    elif len(data.length[index].unique()) > 1:
        raise ValueError(f"{data.name}: windows of several lengths; forecasting needs windows of one length")
    x[:, :, data.target_column] -= last_known(data, index)
    return x.flatten(1)


def _summaries(data: Dataset, index: Tensor) -> Tensor:
    """[m, 4 F + 2] numbers that describe a sequence without the order of its steps, but for the two ends."""
    some_missing = data.missing is not Missing.ERROR
    if len(index) == 0:
        return torch.empty(0, (5 if some_missing else 4) * len(data.features) + 2, dtype=torch.float64)
    if some_missing:
        return torch.cat([summaries_of_observed(data, index), _extent(data, index)], 1)
    batch = data.batch(index)
    length = data.length[index].unsqueeze(1).double()  # [m, 1]
    x = batch.x.double()
    mean = x.sum(1) / length  # padding is 0
    off = (x - mean.unsqueeze(1)).masked_fill(batch.key_padding_mask.unsqueeze(-1), 0.0)
    std = (off.square().sum(1) / length).sqrt()
    last = data.values[last_row(data, index)].double()
    return torch.cat([mean, std, x[:, 0], last, _extent(data, index)], 1)


def _extent(data: Dataset, index: Tensor) -> Tensor:
    """[m, 2] number of steps and duration."""
    duration = data.time[last_row(data, index)] - data.time[data.start[index]]
    return torch.stack([data.length[index].double(), duration], 1)


def times_of(data: Dataset, index: Tensor) -> Tensor:
    """What `time-only` sees of each scored answer: [m, P], made of time stamps alone.

    Forecasting: stamp of the window's last step, as it is, modulo 24 and modulo 1, which is the phase of the day
    where stamps are hours or days. One answer for each sequence: first and last stamp, number of steps, mean and
    longest time between steps, duration. An answer for each step: stamp, time since the first step and since the
    step before, number of the step.
    """
    if data.kind.each_step:
        row, first = scored_steps(data, index)
        stamp, number = data.time[row].unsqueeze(1), (row - first).unsqueeze(1)
        return torch.cat([stamp, _since(data, row, first), number], 1)
    index = scored_sequences(data, index)
    if data.kind is Kind.FORECASTING:
        end = data.time[last_row(data, index)]
        return torch.stack([end, end % _DAY, end % 1.0], 1)
    return _rhythms(data, index)


def _rhythms(data: Dataset, index: Tensor) -> Tensor:
    """[m, 6] when and how densely a sequence was sampled."""
    first, last = data.time[data.start[index]], data.time[last_row(data, index)]
    length = data.length[index].double()
    longest = torch.zeros_like(first)
    if len(index):
        time = data.stamps(index)  # [m, T], padding repeats the last stamp
        longest = torch.cat([longest.unsqueeze(1), time.diff(dim=1)], 1).amax(1)
    mean = (last - first) / (length - 1).clamp(min=1)
    return torch.stack([first, last, length, mean, longest, last - first], 1)


def _since(data: Dataset, row: Tensor, first: Tensor) -> Tensor:
    """[m, 2] time since the first step of the sequence, and since the step before (0 at the first step)."""
    now = data.time[row]
    return torch.stack([now - data.time[first], now - data.time[torch.maximum(row - 1, first)]], 1)


def last_row(data: Dataset, index: Tensor) -> Tensor:
    """[n] rows of the last steps of these sequences."""
    return data.start[index] + data.length[index] - 1
