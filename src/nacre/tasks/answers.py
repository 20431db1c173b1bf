"""Which answers of a data set are scored, and in which order: one place for networks and controls.

The order is that of `Dataset.batch`: sequences in the order of the index, the steps of each in order of time, and
only what is scored. A step that lies in two sequences is there twice, because it is asked twice.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nacre.data.dataset import UNSCORED, Batch, Dataset, Kind


class Steps(NamedTuple):
    """Steps of some sequences, one after the other, without padding.

    Attributes:
        row: [m] row of each step in the table of the data set.
        first: [m] row of the first step of the same sequence.
    """

    row: Tensor
    first: Tensor


def scored(batch: Batch, kind: Kind) -> Tensor:
    """Which answers of a batch count: [B] or, each step, [B, T] bool. Padding never does.

    Example:
        >>> from nacre.data.dataset import Batch
        >>> classes = torch.tensor([[1, 0], [2, UNSCORED]])
        >>> scored(Batch(*[torch.empty(0)] * 3, y=classes, group=torch.empty(0)), Kind.STEP_CLASSIFICATION)
        tensor([[ True,  True],
                [ True, False]])
    """
    return is_scored(batch.y, kind)


def answers_of(data: Dataset, index: Tensor) -> Tensor:
    """The true answers of these sequences: [m] classes or [m, D] numbers, `batch.y[scored(batch, kind)]`.

    No batch is made for it, so it takes any number of sequences.
    """
    y = data.y[steps_of(data, index).row if data.kind.each_step else index]
    return y[is_scored(y, data.kind)]


def scored_sequences(data: Dataset, index: Tensor) -> Tensor:
    """Those of the sequences whose answer counts, for kinds with one answer for each sequence."""
    return index[is_scored(data.y[index], data.kind)]


def scored_steps(data: Dataset, index: Tensor) -> Steps:
    """The steps of these sequences whose answers count, for kinds with an answer for each step."""
    steps = steps_of(data, index)
    keep = is_scored(data.y[steps.row], data.kind)
    return Steps(steps.row[keep], steps.first[keep])


def steps_of(data: Dataset, index: Tensor) -> Steps:
    """All steps of these sequences."""
    length = data.length[index]
    first = data.start[index].repeat_interleave(length)
    begin = (length.cumsum(0) - length).repeat_interleave(length)  # where the sequence begins among the m steps
    return Steps(first + torch.arange(len(first)) - begin, first)


def is_scored(y: Tensor, kind: Kind) -> Tensor:
    """Which answers count: classes [...] that are not `UNSCORED`, numbers [..., D] without NaN."""
    return y != UNSCORED if kind.has_classes else ~y.isnan().any(-1)
