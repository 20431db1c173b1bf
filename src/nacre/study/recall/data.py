"""Sequences that ask for one of their own items: by its key, or by the moment at which it came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

_KEY, VALUES = 8, 4
_KEY_LENGTH = 2.0
WIDTH = _KEY + VALUES + 1  # key, value, and a flag on the step that asks


class Question(StrEnum):
    """What the last step asks for."""

    KEY = "key"
    """The value of the item whose key it repeats."""
    TIME = "time"
    """The value of the item nearest to its time stamp; keys are noise."""


@dataclass(frozen=True)
class Sample:
    """Sequences of items whose last step asks a question."""

    x: Tensor  # [B, T, WIDTH]
    time: Tensor | None  # [B, T] time stamps, where the question needs them
    answer: Tensor  # [B] value asked for, of `VALUES`
    place: Tensor  # [B] item that holds it

    @property
    def values(self) -> Tensor:
        """[B, T, VALUES] one-hot values of the items, zeros at the step that asks."""
        return self.x[..., _KEY : _KEY + VALUES]

    def split(self, size: int) -> Iterator[Sample]:
        """The same in batches."""
        for i in range(0, len(self.answer), size):
            some = slice(i, i + size)
            time = None if self.time is None else self.time[some]
            yield Sample(self.x[some], time, self.answer[some], self.place[some])


def draw(question: str, batch: int, length: int, generator: torch.Generator) -> Sample:
    """Draw new sequences of `length` steps: items, then the step that asks.

    Keys are random directions, values are equally likely, and stamps lie 0.5 to 1.5 apart.

    Example:
        >>> sample = draw("key", 2, 24, torch.Generator().manual_seed(0))
        >>> sample.x.shape, sample.time
        (torch.Size([2, 24, 13]), None)
        >>> bool((sample.x[0, -1, :8] == sample.x[0, sample.place[0], :8]).all())
        True
    """
    rows = torch.arange(batch)
    key = normalize(torch.randn(batch, length, _KEY, generator=generator), dim=-1) * _KEY_LENGTH
    value = torch.randint(VALUES, (batch, length), generator=generator)
    items = one_hot(value, VALUES).to(key)
    items[:, -1] = 0
    time = None
    if question == Question.KEY:
        place = torch.randint(length - 1, (batch,), generator=generator)
        key[:, -1] = key[rows, place]
    else:
        time = (torch.rand(batch, length, generator=generator) + 0.5).cumsum(1)
        first, last = time[:, 0], time[:, -2]
        time[:, -1] = first + (last - first) * torch.rand(batch, generator=generator)
        place = (time[:, :-1] - time[:, -1:]).abs().argmin(1)
    flag = torch.zeros(batch, length, 1)
    flag[:, -1] = 1
    return Sample(torch.cat([key, items, flag], -1), time, value[rows, place], place)
