"""Means and standard deviations that a network takes from its training part: of features, events and answers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import fill

UNKNOWN = 1e30  # scale of a feature that shall be as good as 0; infinity would be refused in a file
_WINDOWS = 4096  # of the training part from which the spread of relative features is taken


def answer_scale(data: Dataset, train: Tensor, relative_to: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [D] of the answers to these sequences; all horizons of a forecast share one.

    Of answers relative to columns of the last step, or of their own one, where such columns are given.
    """
    if not relative_to:
        answers = data.answers(train).double()
    elif data.kind is Kind.FORECASTING:
        answers = data.y[train].double() - data.last_values(train, relative_to).double()
    else:
        rows = data.rows(train)
        answers = data.y[rows].double() - data.values[rows][:, list(relative_to)].double()
        answers = answers[~answers.isnan().all(-1)]
    if data.kind is Kind.FORECASTING:
        answers = answers.reshape(-1, 1)
    if answers.isnan().any():
        mean, spread = observed_mean_and_spread(answers)
        spread = spread.where(spread < UNKNOWN, 1.0)
    else:
        mean, spread = mean_and_spread(answers)
    return mean.expand(data.outputs), spread.expand(data.outputs)


def relative_rows(data: Dataset, train: Tensor) -> Tensor:
    """[m, F] rows of some of these sequences, spread evenly over them, relative to the last row of each."""
    some = train[torch.linspace(0, len(train) - 1, min(len(train), _WINDOWS)).long()]
    batch = data.batch(some)
    x, valid = batch.x.double(), ~batch.key_padding_mask
    held = x
    if data.missing.has_flags:
        seen, nothing = valid.unsqueeze(-1) & ~x.isnan(), x.new_full((), torch.nan)
        held = fill(x, batch.time, seen, valid, nothing, time_scale=1.0).x
    return (x - held.take_along_dim(last_valid(~valid), 1))[valid]


def last_valid(padding: Tensor) -> Tensor:
    """[B, 1, 1] the last valid step of rows [B, T] with padding at their ends."""
    return (~padding).sum(1).sub(1).clamp(min=0).view(-1, 1, 1)


def mean_and_spread(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of columns; a constant column has spread 1, so that it becomes zeros."""
    spread = rows.std(0, correction=0)
    return rows.mean(0), torch.where(spread > 0, spread, 1.0)


def observed_mean_and_spread(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of what is there of columns [m, F], in float64.

    A constant column has spread 1, one of which nothing is there has mean 0 and spread `UNKNOWN`.
    """
    seen = ~rows.isnan()
    count = seen.sum(0)
    rows = rows.double().masked_fill(~seen, 0.0)
    mean = rows.sum(0) / count.clamp(min=1)
    off = (rows - mean).masked_fill(~seen, 0.0)
    return mean, _usable(off.square().sum(0) / count.clamp(min=1), count)


def events_mean_and_spread(data: Dataset, index: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each variable [V] in these sequences of events, as of columns."""
    events = data.values[data.rows(index)].double()
    events = events[~events[:, 1].isnan()]
    variable, value = events[:, 0].long(), events[:, 1]
    size = len(data.features)
    count = variable.bincount(minlength=size)
    mean = variable.bincount(value, size) / count.clamp(min=1)
    square = variable.bincount((value - mean[variable]).square(), size) / count.clamp(min=1)
    return mean, _usable(square, count)


def _usable(variance: Tensor, count: Tensor) -> Tensor:
    spread = variance.sqrt()
    return torch.where(count == 0, UNKNOWN, torch.where(spread > 0, spread, 1.0))
