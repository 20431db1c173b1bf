"""`Packing`: the tokens of a batch without its padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Where the tokens of sequences [B, T] lie one behind the other, padding left out.

    Attributes:
        batch: B.
        length: T.
        rows: [N] places of the tokens in B * T, ascending; None where all of them are kept.
    """

    batch: int
    length: int
    rows: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, padding: Tensor | None = None) -> Packing:
        """The packing of x [B, T, ...] where padding [B, T] is left out; all is kept if nothing else is left."""
        batch, length = x.shape[:2]
        if padding is None:
            return cls(batch, length)
        rows = (~padding).flatten().nonzero().squeeze(1)
        return cls(batch, length, rows if 0 < len(rows) < batch * length else None)

    def pack(self, x: Tensor) -> Tensor:
        """[B, T, ...] -> [N, ...]."""
        x = x.flatten(0, 1)
        return x if self.rows is None else x.index_select(0, self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """[N, W] -> [B, T, W], zero at padding."""
        if self.rows is not None:
            x = x.new_zeros(self.batch * self.length, x.shape[1]).index_copy(0, self.rows, x)
        return x.view(self.batch, self.length, x.shape[1])

    def number(self, places: Tensor) -> Tensor:
        """Places in B * T -> places among the N tokens, 0 for padding."""
        if self.rows is None:
            return places
        numbers = places.new_zeros(self.batch * self.length)
        numbers[self.rows] = torch.arange(len(self.rows), device=places.device)
        return numbers[places]
