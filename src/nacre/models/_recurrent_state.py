"""`RecurrentState`: where the streams of a recurrent model are that runs step by step."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class RecurrentState(NamedTuple):
    """State of streams: three plain tensors, made by `init_state`; `step` returns new ones.

    `state._asdict()` is a dict of tensors for `safetensors.torch.save_file` or `torch.save`, and
    `RecurrentState(**tensors)` restores the state.

    Attributes:
        memory: [B, n] all numbers of the model's state, one after the other.
        stamp: [B] time stamps of the last steps in float64; NaN where the step had none.
        length: [B] number of steps since the start or the last reset.
    """

    memory: Tensor
    stamp: Tensor
    length: Tensor

    def reset(self, rows: Tensor | int | slice = slice(None)) -> RecurrentState:
        """Forget the history of some rows (an index, or a bool mask [B]; default all), in place."""
        self.length[rows] = 0
        return self

    def clone(self) -> RecurrentState:
        """A copy that shares no memory."""
        return RecurrentState(*(x.clone() for x in self))


def new_state(start: tuple[Tensor, ...]) -> RecurrentState:
    """The state of streams without any step, from a model's state [B, ...] before the first."""
    memory = pack(start)
    length = torch.zeros(memory.shape[0], dtype=torch.int64, device=memory.device)
    return RecurrentState(memory, torch.full_like(length, math.nan, dtype=torch.float64), length)


def pack(tensors: tuple[Tensor, ...]) -> Tensor:
    """Tensors [B, ...] as one [B, n], in the widest of their precisions."""
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


def unpack(state: RecurrentState, start: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Inverse of `pack`, with the state `start` [B, ...] in rows without any step."""
    sizes = [tensor[0].numel() for tensor in start]
    begun = (state.length > 0).unsqueeze(1)
    return tuple(
        torch.where(begun, part.to(first.dtype), first.flatten(1)).view(first.shape)
        for part, first in zip(state.memory.split(sizes, 1), start, strict=True)
    )
