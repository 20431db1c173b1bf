"""The search of Algorithm 2: valid keys in blocks, the best blocks of a query, the best keys in them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre.layer.selection.nearest import Window
from nacre.layer.selection.topk import CHUNK_ELEMENTS, best_columns
from nacre.native import library
from nacre.native.selection import MOST_KEYS
from nacre.native.selection import sqrt_search as native_search

CAUSAL_BLOCK = 64
"""Keys in a block of causal layers: a fixed number, since the length of a stream is not known in advance."""


def blocks_to_search(top_k: int, block: int, reach: int | None) -> int:
    """Number of blocks that a query searches: as many as hold K keys, or `reach` keys."""
    return math.ceil(max(top_k, reach or 0) / block)


def search_blocks(
    q: Tensor,
    k: Tensor,
    rank: Tensor,
    seen: Tensor,
    near_first: Tensor,
    near: int,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Tensor, Tensor]:
    """The best `top_k` keys in the best blocks, for queries [B, H, T, D] and keys [B, H, S, D].

    Args:
        q: Queries.
        k: Keys.
        rank: [B, S] and
        seen: [B, T] as in `Candidates`.
        near_first: [B, T] and
        near: As in `Window`: keys that are not to be found.
        top_k: Number K of keys.
        causal: Whether blocks are counted from the start, and the block of the last key seen is always searched.
        block_size: Keys in a block; None for the default.
        reach: Keys to compare with; None for as few blocks as hold K keys.

    Returns:
        Positions of the keys, ascending, and which columns hold one: [B, H, T, K].
    """
    window = Window(near_first, near)
    plan = BlockPlan.of(rank, top_k + near, causal, block_size, reach)
    if top_k <= MOST_KEYS and library.runs(q, k):
        sizes = plan.size, plan.wanted
        return native_search(q, k, plan.order, plan.count, seen, *sizes, near_first, near, top_k, causal)
    cut = _cut(k, plan, causal)
    if cut.rank.shape[1] == 0:  # no valid key in any row
        index = torch.zeros(*q.shape[:3], top_k, dtype=torch.int64, device=q.device)
        return index, index.bool()
    wanted = int(plan.wanted.max())
    looked_at = (wanted + causal) * cut.rank.shape[2]
    chunk = max(1, CHUNK_ELEMENTS // (q.shape[0] * q.shape[1] * looked_at * q.shape[3]))
    parts = [
        _blocks_topk(q, k, seen, window, slice(i, i + chunk), plan, cut, wanted, top_k, causal)
        for i in range(0, q.shape[2], chunk)
    ]
    index, valid = (torch.cat(x, 2).contiguous() for x in zip(*parts, strict=True))
    return index, valid


def search_with_near(
    q: Tensor,
    k: Tensor,
    rank: Tensor,
    seen: Tensor,
    window: Window,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Tensor, Tensor] | None:
    """The keys of `search_blocks` and the near ones together, [B, H, T, K + near]; None without the kernel."""
    if top_k > MOST_KEYS or not library.runs(q, k):
        return None
    plan = BlockPlan.of(rank, top_k + window.size, causal, block_size, reach)
    sizes = plan.size, plan.wanted
    near = window.first, window.size
    return native_search(q, k, plan.order, plan.count, seen, *sizes, *near, top_k, causal, with_near=True)


def by_rank(rank: Tensor) -> Tensor:
    """Positions [B, S] of the valid keys by rank [B, S]; what follows them means nothing."""
    batch, keys = rank.shape
    order = rank.new_zeros(batch, keys + 1)  # all padding goes to the last column
    return order.scatter(1, rank, torch.arange(keys, device=rank.device).expand(batch, keys))[:, :keys]


@dataclass(frozen=True)
class BlockPlan:
    """How the valid keys of each row are cut into blocks."""

    order: Tensor  # [B, S] positions of the valid keys; what follows them means nothing
    count: Tensor  # [B] number of valid keys
    size: Tensor  # [B] nominal size of a block
    wanted: Tensor  # [B] blocks that a query searches, besides its own where causal

    @classmethod
    def of(cls, rank: Tensor, top_k: int, causal: bool, block_size: int | None, reach: int | None) -> "BlockPlan":
        """By the ranks of keys [B, S]."""
        order, count = by_rank(rank), (rank < rank.shape[1]).sum(1)
        if causal or block_size is not None:
            size = torch.full_like(count, block_size or CAUSAL_BLOCK)
        else:
            size = count.double().sqrt().long()  # a correctly rounded root: its floor is exact
        if not causal:
            size = torch.minimum(size, count)
        size = size.clamp(min=1)
        wanted = -(-max(top_k, reach or 0) // size)
        return cls(order, count, size, torch.minimum(wanted, -(-count // size)))

    def edges(self, causal: bool) -> Tensor:
        """[B, n + 1] rank of the first key of each block, and the end of the last; some may be empty."""
        count, size = self.count[:, None], self.size[:, None]
        blocks = -(-count // size)
        number = torch.arange(int(blocks.max()) + 1, device=count.device)
        # Near-equal blocks: a short last one would attract queries by chance. A causal query must not know how
        # long the sequence will become, so there blocks are counted from the start.
        first = number * size if causal else number * count // blocks.clamp(min=1)
        return torch.minimum(first, count)


@dataclass(frozen=True)
class _Blocks:
    """Valid keys cut into n blocks of at most L keys."""

    rank: Tensor  # [B, n, L] rank of each key
    position: Tensor  # [B, n, L] position of each key
    usable: Tensor  # [B, n, L] whether there is a key
    centroid: Tensor  # [B, H, n, D] means of the keys


def _cut(k: Tensor, plan: BlockPlan, causal: bool) -> _Blocks:
    """Gather the keys of each block."""
    edges = plan.edges(causal)
    width = int(edges.diff().max()) if edges.shape[1] > 1 else 0
    rank = edges[:, :-1, None] + torch.arange(width, device=k.device)  # [B, n, L]
    usable = rank < edges[:, 1:, None]
    position = plan.order.gather(1, rank.where(usable, 0).flatten(1)).view_as(rank)
    keys = _take(k, position.unsqueeze(1).expand(-1, k.shape[1], -1, -1))  # [B, H, n, L, D]
    keys = keys.where(usable[:, None, ..., None], 0)
    centroid = keys.sum(3) / usable.sum(-1).clamp(min=1)[:, None, :, None]
    return _Blocks(rank, position, usable, centroid)


def _take(k: Tensor, position: Tensor) -> Tensor:
    """Keys [B, H, ..., D] of [B, H, S, D] at positions [B, H, ...]."""
    batch, heads, size, width = k.shape
    series = torch.arange(batch * heads, device=k.device).view(batch, heads, *[1] * (position.dim() - 2)) * size
    return k.reshape(-1, width).index_select(0, (position + series).flatten()).view(*position.shape, width)


def _blocks_topk(
    q: Tensor,
    k: Tensor,
    seen: Tensor,
    near: Window,
    some: slice,
    plan: BlockPlan,
    blocks: _Blocks,
    wanted: int,
    top_k: int,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Best blocks, then best keys in them, for some of the queries [B, H, T, D] that see [B, T] keys."""
    q, seen = q[:, :, some], seen[:, some]
    batch, heads, length, _ = q.shape
    candidate = blocks.usable.any(-1)[:, None]  # [B, 1, n]
    own = torch.div(seen - 1, plan.size[:, None], rounding_mode="floor").clamp(min=0)  # [B, C] where causal
    if causal:
        candidate = candidate & (torch.arange(candidate.shape[2], device=q.device) < own.unsqueeze(-1))
    candidate = candidate.unsqueeze(1).expand(batch, heads, length, -1)
    scores = q @ blocks.centroid.transpose(-1, -2)
    chosen, valid = best_columns(scores, candidate, wanted, plan.wanted.view(-1, 1, 1, 1))  # [B, H, C, m]
    if causal:
        chosen = torch.cat([chosen, own[:, None, :, None].expand(batch, heads, length, 1)], -1)
        valid = torch.cat([valid, torch.ones_like(valid[..., :1])], -1)
    row = torch.arange(batch, device=q.device)[:, None, None, None]
    position = blocks.position[row, chosen].flatten(3)  # [B, H, C, m * L]
    allowed = (blocks.usable[row, chosen] & valid.unsqueeze(-1)).flatten(3)
    rank = blocks.rank[row, chosen].flatten(3)
    allowed = allowed & (rank < seen[:, None, :, None])
    if near.size:
        allowed = allowed & ~near.holds(rank, some)
    scores = (_take(k, position) * q.unsqueeze(3)).sum(-1)
    best, valid = best_columns(scores, allowed, top_k)
    # Chosen blocks ascend, and a causal query's own block comes last: ascending columns, ascending positions.
    return position.gather(-1, best).where(valid, 0), valid
