"""`TimeGateHeads`: the parameters of the internal time of query-key pairs."""

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from nacre.layer.synapses import Factory


class TimeGateHeads(nn.Module):
    """Affine maps of a pair to (t_a, t_b), one for each head, split into the query's and the key's share."""

    def __init__(self, heads: int, d_head: int, *, bias: bool = True, **factory: Unpack[Factory]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, 2 * d_head, 2, **factory))
        self.bias = nn.Parameter(torch.empty(heads, 2, **factory)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """[H, R, D] and [H, S, D] -> [H, 2, R] and [H, 2, S]; t_a and t_b of a pair are their sums."""
        width = query.shape[-1]
        weight = self.weight.transpose(1, 2)  # [H, 2, 2D]
        by_query = weight[..., :width] @ query.transpose(1, 2)
        if self.bias is not None:
            by_query = by_query + self.bias.unsqueeze(-1)
        return by_query, weight[..., width:] @ key.transpose(1, 2)
