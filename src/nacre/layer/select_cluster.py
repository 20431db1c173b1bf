"""Top-K keys by content: sqrt selection over groups of keys that are alike, not of neighbours in time.

A query scores the groups, then the leaves of its best groups, then the keys of its best leaves: as many scores
as in sqrt selection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from nacre.layer.cluster_tree import Tree, grow, join
from nacre.layer.selection import best_columns, blocks_to_search, check_search, check_sizes, empty_result

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_ELEMENTS = 2**20  # components of candidates gathered at a time, so that memory does not grow with T * S
_SEGMENT = 8  # blocks in a causal segment; a power of two


@torch.no_grad()
def cluster_topk(
    q: Tensor,
    k: Tensor,
    top_k: int,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    block_size: int | None = None,
    reach: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Top-K keys among the best groups of similar keys: O(T sqrt(S)) scores, no T x S table.

    Causal: positions are cut into blocks, and 8 blocks make a segment. A query sees the groups of the segments
    that ended before its own began; as further groups, the blocks of its own segment that ended before its own
    block began; and always its own block up to itself. So with `block_size` given, the keys of a query do not
    depend on how long the sequence becomes.

    Args:
        q: [B, H, T, D] queries.
        k: [B, H, S, D] keys.
        top_k: Number of columns K.
        key_padding_mask: [B, S] bool, True = padding: in no group, never selected.
        causal: Whether query i sees only keys up to i (needs T = S).
        block_size: Half the number of keys in a group, and if causal all of those in a block; default
            floor(sqrt(S)). About so many if not causal, where the number of groups is a power of two.
        reach: Keys to score, in units of a block; default as few blocks as hold K keys.

    Returns:
        index and valid, [B, H, T, K], as from `sqrt_topk`.

    Example:
        >>> index, valid = cluster_topk(torch.randn(1, 2, 50, 8), torch.randn(1, 2, 50, 8), top_k=4)
        >>> index.shape
        torch.Size([1, 2, 50, 4])
    """
    padding = check_search(q, k, top_k, key_padding_mask, causal)
    check_sizes(block_size, reach)
    search = _cluster_op if torch.compiler.is_compiling() else _cluster_search
    return search(q, k, padding, top_k, causal, block_size, reach)


@dataclass(frozen=True)
class ClusterPlan:
    """With how many vectors a query is compared at each stage.

    Attributes:
        groups: Groups of keys; if causal, those that the last query sees.
        leaves: Leaves in a group, a power of two.
        leaf_size: Largest number of keys in a leaf.
        best_groups: Groups whose leaves are scored.
        best_leaves: Leaves whose keys are scored.
        block: Keys in the query's own block, all of which are scored; 0 if not causal.
    """

    groups: int
    leaves: int
    leaf_size: int
    best_groups: int
    best_leaves: int
    block: int

    @property
    def cost(self) -> int:
        """Vectors that a query is compared with, all stages together."""
        return self.groups + self.best_groups * self.leaves + self.best_leaves * self.leaf_size + self.block


def plan_clusters(
    length: int, top_k: int, *, causal: bool = False, block_size: int | None = None, reach: int | None = None
) -> ClusterPlan:
    """Sizes that make a query compare with about as many vectors as sqrt selection, and find K keys.

    Groups of two blocks leave half the cost of sqrt selection's centroids, and its cost of keys. A third of that
    goes to leaves, two thirds to keys.

    Args:
        length: Number of keys S.
        top_k: Number of keys K that are wanted.
        causal: As in `cluster_topk`.
        block_size: As in `cluster_topk`.
        reach: As in `cluster_topk`.

    Example:
        >>> plan_clusters(1024, 8).cost, plan_clusters(16384, 8).cost
        (64, 256)
    """
    block = min(block_size or math.isqrt(length), length)
    count, scored = math.ceil(length / block), blocks_to_search(top_k, block, reach) * block  # of sqrt selection
    if causal:
        early = (count - 1) // _SEGMENT * _SEGMENT // 2  # groups of all segments before the last query's
        groups = early + count - 2 * early
        size, rest = 2 * block, scored + block // 2  # whatever the length, which a query must not know
    else:
        groups = 2 ** max(0, round(math.log2(count / 2)))
        size, rest = math.ceil(length / groups), count + scored - groups
    leaves = 2 ** int(math.log2(size) / 2)  # at most sqrt(size)
    leaf_size = math.ceil(size / leaves)
    # Two at least, so that one bad choice does not decide; and as many as surely hold K keys (in a causal segment
    # that has not ended, groups are single blocks).
    fewest = min(size // leaves, block // math.ceil(block / leaf_size)) if causal else length // groups // leaves
    best_leaves = max(2, math.ceil(top_k / max(1, fewest)), 2 * rest // (3 * leaf_size))
    surely = block if causal else max(1, length // groups)
    best_groups = min(groups, max(2, math.ceil(top_k / surely), (rest - best_leaves * leaf_size) // leaves))
    best_leaves = min(best_leaves, best_groups * leaves)
    return ClusterPlan(groups, leaves, leaf_size, best_groups, best_leaves, block if causal else 0)


def _cluster_search(
    q: Tensor,
    k: Tensor,
    padding: Tensor,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Tensor, Tensor]:
    batch, heads, length, _ = q.shape
    plan = plan_clusters(k.shape[2], top_k, causal=causal, block_size=block_size, reach=reach)
    if q.dtype != torch.float64:  # half precision is too coarse for the power method
        q, k = q.float(), k.float()
    usable = ~padding.repeat_interleave(heads, 0)  # [G, S] with G = B * H
    search = _causal_parts if causal else _parts
    parts = [_best(*found, top_k) for found in search(q.flatten(0, 1), k.flatten(0, 1), usable, plan)]
    index, valid = (torch.cat(x, 1)[:, :length].unflatten(0, (batch, heads)) for x in zip(*parts, strict=True))
    return index, valid


# One opaque operator in a compiled or exported program, for the reason given in `nacre.layer.selection`.
_cluster_op = torch.library.custom_op(
    "nacre::cluster_topk",
    _cluster_search,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor padding, int top_k, bool causal, int? block_size, int? reach)"
    " -> (Tensor, Tensor)",
)


@_cluster_op.register_fake
def _result_shape(q: Tensor, k: Tensor, padding: Tensor, top_k: int, *_: object) -> tuple[Tensor, Tensor]:
    return empty_result(q, top_k)


def _parts(q: Tensor, k: Tensor, usable: Tensor, plan: ClusterPlan) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions and scores of the candidates of all queries, a chunk at a time."""
    tree = grow(k.unsqueeze(1), usable.unsqueeze(1), plan.groups, plan.leaves, plan.leaf_size)
    shown = torch.arange(plan.groups, device=q.device)
    chunk = _chunk_size(q, plan)
    for start in range(0, q.shape[1], chunk):
        part = q[:, start : start + chunk]
        yield _candidates(part, tree, shown, shown >= 0, plan)


def _causal_parts(q: Tensor, k: Tensor, usable: Tensor, plan: ClusterPlan) -> Iterator[tuple[Tensor, Tensor]]:
    """The same where query i sees only keys up to i; also for some rows of padding behind the last query."""
    block = plan.block
    number = torch.arange(math.ceil(k.shape[1] / block), device=q.device)  # [n] of blocks
    end = len(number) * block
    q, k = (pad(x, (0, 0, 0, end - x.shape[1])) for x in (q, k))
    usable = pad(usable, (0, end - usable.shape[1]))
    own, own_usable = k.unflatten(1, (-1, block)), usable.unflatten(1, (-1, block))  # [G, n, b, D], [G, n, b]
    sizes = (plan.leaves, plan.leaf_size)
    tree = grow(own, own_usable, 1, *sizes)
    segments = len(number) // _SEGMENT  # whole ones
    contents = segments * _SEGMENT // 2  # groups of two blocks each
    if segments:
        k, usable = (x[:, : 2 * contents * block].unflatten(1, (segments, -1)) for x in (k, usable))
        tree = join(grow(k, usable, _SEGMENT // 2, *sizes), tree)
    for start, stop in _spans(end, block, _chunk_size(q, plan)):
        part = q[:, start:stop]
        row = torch.arange(start, stop, device=q.device).unsqueeze(1)  # [C, 1]
        row_block = torch.div(row, block, rounding_mode="floor")
        blocks = slice(start // block, (stop - 1) // block + 1)  # of these queries
        early = blocks.start // _SEGMENT * _SEGMENT  # blocks of earlier segments
        near = number[early : blocks.stop]
        shown = torch.cat([number[: early // 2], near + contents])
        position, scores = _candidates(part, tree, shown, pad(near < row_block, (early // 2, 0), value=True), plan)
        # The queries of a block score its keys in one product: [G, m, C / m, D] x [G, m, D, b].
        queries = part.unflatten(1, (blocks.stop - blocks.start, -1))
        own_scores = (queries @ own[:, blocks].transpose(-1, -2)).flatten(1, 2)  # [G, C, b]
        own_position = row_block * block + torch.arange(block, device=q.device)  # [C, b]
        there = own_usable[:, blocks].repeat_interleave(queries.shape[2], 1) & (own_position <= row)
        own_position = own_position.where(there, -1)
        yield torch.cat([position, own_position], -1), torch.cat([scores, own_scores], -1)


def _spans(end: int, block: int, chunk: int) -> Iterator[tuple[int, int]]:
    """Chunks of queries: whole blocks of one segment, or a part of one block."""
    outer = block if chunk < block else block * _SEGMENT
    step = min(chunk if chunk < block else chunk // block * block, outer)
    for first in range(0, end, outer):
        last = min(first + outer, end)
        yield from ((start, min(start + step, last)) for start in range(first, last, step))


def _chunk_size(q: Tensor, plan: ClusterPlan) -> int:
    candidates = max(plan.best_groups * plan.leaves, plan.best_leaves * plan.leaf_size)
    return max(1, _CHUNK_ELEMENTS // (q.shape[0] * candidates * q.shape[2]))


def _candidates(q: Tensor, tree: Tree, shown: Tensor, allowed: Tensor, plan: ClusterPlan) -> tuple[Tensor, Tensor]:
    """Keys of the best leaves of the best groups: positions, -1 where there is none, and scores, [G, C, m].

    Args:
        q: [G, C, D].
        tree: Of all groups.
        shown: [s] which of them are scored.
        allowed: [s] or [C, s] which of these may be chosen.
        plan: Sizes.
    """
    series, length, _ = q.shape
    c = plan.leaves
    first = torch.arange(series, device=q.device).view(-1, 1, 1) * tree.groups.shape[1]
    alive = tree.position[..., 0] >= 0  # [G, n, c]
    allowed = (allowed & alive.any(-1)[:, None, shown]).expand(series, length, -1)
    group, valid = best_columns(q @ tree.groups[:, shown].transpose(-1, -2), allowed, plan.best_groups)
    group = shown[group] + first  # [G, C, w], counted over all G
    scores = (_rows(tree.leaves, group) * q.unsqueeze(2)).sum(-1)  # [G, C, w * c]
    allowed = _rows(alive.unsqueeze(-1), group).squeeze(-1) & valid.repeat_interleave(c, -1)
    leaf, valid = best_columns(scores, allowed, plan.best_leaves)
    leaf = group.gather(-1, torch.div(leaf, c, rounding_mode="floor")) * c + leaf % c  # [G, C, m], over all G
    scores = (_rows(tree.keys.flatten(1, 2), leaf) * q.unsqueeze(2)).sum(-1)  # [G, C, m * L]
    position = _rows(tree.position.flatten(1, 2).unsqueeze(-1), leaf).squeeze(-1)
    return position.masked_fill(~valid.repeat_interleave(plan.leaf_size, -1), -1), scores


def _rows(table: Tensor, row: Tensor) -> Tensor:
    """Rows [G, C, m], counted over all G, of a table [G, n, r, E]: [G, C, m * r, E]."""
    found = table.flatten(0, 1).flatten(1).index_select(0, row.flatten())
    return found.view(*row.shape[:2], -1, table.shape[-1])


def _best(position: Tensor, scores: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Positions of the best candidates in ascending order."""
    position, order = position.sort(-1)  # the later of equal keys is to win
    best, valid = best_columns(scores.gather(-1, order), position >= 0, top_k)
    return position.gather(-1, best).where(valid, 0), valid
