"""Which keys a query attends to: Algorithm 2 of the paper with its defects corrected, and exact top-K.

All functions take queries [B, H, T, D] and keys [B, H, S, D] and return, for each query, the positions of its
keys in ascending order and a mask of the columns that hold one: `(index, valid)`, both [B, H, T, K]. Columns
without a key hold index 0. Selection is not differentiable; padding and the future never take part in it.

Blocks are made of a row's valid keys alone, so how far a row is padded, and where, changes nothing.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre._util.tracing import values_are_hidden
from nacre.layer.config import NACConfig, Selection
from nacre.layer.inputs import padding_mask
from nacre.layer.selection.blocks import by_rank, search_blocks, search_with_near
from nacre.layer.selection.nearest import Window, latest, nearest
from nacre.layer.selection.topk import CHUNK_ELEMENTS, best_columns


@dataclass(frozen=True)
class Candidates:
    """Which keys each query may attend to: the first `seen` of the valid keys of its row, but for those it has."""

    rank: Tensor  # [B, S] number of valid keys before each key; S at padding
    seen: Tensor  # [B, T] 0 at queries that get no key
    near: Window  # keys that a query has already, because they are the nearest

    @classmethod
    def of(
        cls,
        shape: tuple[int, int, int],  # B, T, S
        device: torch.device,
        *,
        key_padding: Tensor | None = None,  # [B, S]
        query_padding: Tensor | None = None,  # [B, T]
        causal: bool = False,
        stamps: tuple[Tensor, Tensor] | None = None,  # [B, T] and ascending [B, S]: causal by time, not by place
        near: int = 0,
        moments: tuple[Tensor, Tensor] | None = None,  # [B, T] and [B, S] by which keys are near
    ) -> "Candidates":
        """Candidates by masks and by causality.

        With near keys and without causality, keys are ranked by moment, so their blocks are parts of time too.
        """
        batch, queries, keys = shape
        if key_padding is None:
            count = torch.arange(1, keys + 1, device=device).expand(batch, keys)  # valid keys up to each key
            rank = count - 1
        else:
            count = (~key_padding).cumsum(1)
            rank = (count - 1).masked_fill(key_padding, keys)
        if not causal:
            seen = count[:, -1:].expand(batch, queries)
        elif stamps is None:
            seen = count
        else:
            time, key_time = stamps
            if key_padding is not None:  # valid stamps ascend: sorting moves padding to the end
                key_time = key_time.masked_fill(key_padding, math.inf).sort(1).values
            seen = torch.searchsorted(key_time.contiguous(), time.contiguous(), right=True)
            seen = torch.minimum(seen, count[:, -1:])  # a query may be at an infinite time
        if query_padding is not None:
            seen = seen.masked_fill(query_padding, 0)
        if not near or causal or moments is None:
            return cls(rank, seen, latest(seen, near))
        moment, key_moment = moments
        if key_padding is not None:
            key_moment = key_moment.masked_fill(key_padding, math.inf)
        key_moment, order = key_moment.sort(dim=1, stable=True)
        rank = order.argsort(1)  # the inverse of a permutation
        if key_padding is not None:
            rank = rank.masked_fill(key_padding, keys)
        return cls(rank, seen, nearest(moment, key_moment, count[:, -1], near))


@torch.no_grad()
def sqrt_topk(
    q: Tensor,
    k: Tensor,
    top_k: int,
    *,
    key_padding_mask: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    causal: bool = False,
    block_size: int | None = None,
    reach: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Top-K keys among the best blocks of keys: O(T sqrt(S)) scores, no T x S table.

    The S valid keys of a row are cut into blocks of about sqrt(S); a query scores the block centroids, takes the
    ceil(K / block) best blocks (more of them with `reach`), and from them its K best keys. Causal: blocks are
    counted from the start, a query always sees its own block up to itself, and otherwise only blocks that ended
    before it.

    Args:
        q: [B, H, T, D] queries.
        k: [B, H, S, D] keys.
        top_k: Number K of keys.
        key_padding_mask: [B, S] bool, True = padding: in no block, never selected.
        query_padding_mask: [B, T] bool, True = padding: these queries get no key.
        causal: Whether query i sees only keys up to i (needs T = S).
        block_size: Keys in a block; default floor(sqrt(S)), causal 64.
        reach: Keys to compare with, in whole blocks; default as few blocks as hold K keys.

    Example:
        >>> index, valid = sqrt_topk(torch.randn(1, 2, 50, 8), torch.randn(1, 2, 50, 8), top_k=4)
        >>> index.shape
        torch.Size([1, 2, 50, 4])
    """
    candidates = _check_search(q, k, top_k, key_padding_mask, query_padding_mask, causal)
    for name, value in (("block_size", block_size), ("reach", reach)):
        if value is not None:
            whole(name, value, 1)
    return _sqrt_topk(q, k, candidates, top_k, causal, block_size, reach)


@torch.no_grad()
def exact_topk(
    q: Tensor,
    k: Tensor,
    top_k: int,
    *,
    key_padding_mask: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Top-K keys among all, a chunk of queries at a time. Arguments and result as for `sqrt_topk`."""
    candidates = _check_search(q, k, top_k, key_padding_mask, query_padding_mask, causal)
    return _exact_topk(q, k, candidates, top_k)


@torch.no_grad()
def all_pairs(
    q: Tensor,
    k: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Every key for every query: K = S columns."""
    return _all_pairs(q, _check_search(q, k, 1, key_padding_mask, query_padding_mask, causal))


@torch.no_grad()
def choose_keys(
    config: NACConfig,
    q: Tensor,
    k: Tensor,
    key_padding: Tensor | None = None,
    query_padding: Tensor | None = None,
    stamps: tuple[Tensor, Tensor] | None = None,
    moments: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Keys of each query by the layer's options, never padding [B, S]; none for padded queries [B, T].

    A causal query sees the keys up to its own place. Where there are more or fewer keys than queries, it sees
    those whose stamps [B, S] are not later than its own [B, T]. Near keys are those whose stamps are nearest to
    the query's own; without stamps, those whose moments [B, S] are nearest to the query's own [B, T].
    """
    q, k = q.detach(), k.detach()
    batch, _, queries, _ = q.shape
    candidates = Candidates.of(
        (batch, queries, k.shape[2]),
        q.device,
        key_padding=key_padding,
        query_padding=query_padding,
        causal=config.causal,
        stamps=stamps if queries != k.shape[2] else None,
        near=0 if config.top_k is None else config.near,
        moments=moments if stamps is None else stamps,  # not divided by time_scale: rounding would part ties
    )
    if config.top_k is None:
        return _all_pairs(q, candidates)
    others = config.top_k - config.near
    if config.near and others and config.selection == Selection.SQRT and not values_are_hidden():
        places = candidates.rank, candidates.seen, candidates.near
        together = search_with_near(q, k, *places, others, config.causal, config.block_size, config.reach)
        if together is not None:
            return together
    found = []
    if others:
        if config.selection == Selection.EXACT:
            found.append(_exact_topk(q, k, candidates, others))
        else:
            found.append(_sqrt_topk(q, k, candidates, others, config.causal, config.block_size, config.reach))
    if config.near == 0:
        return found[0]
    near = candidates.near.keys(by_rank(candidates.rank), candidates.seen)
    found.append(tuple(x.unsqueeze(1).expand(-1, q.shape[1], -1, -1) for x in near))
    return _merge(found, k.shape[2])


def _merge(found: list[tuple[Tensor, ...]], size: int) -> tuple[Tensor, Tensor]:
    """Positions, ascending, and validity of keys that were found in several ways."""
    index, valid = (torch.cat(x, -1) for x in zip(*found, strict=True))
    index = index.masked_fill(~valid, size).sort(-1).values  # missing ones last
    valid = index < size
    return index.masked_fill(~valid, 0), valid


def _sqrt_topk(
    q: Tensor,
    k: Tensor,
    candidates: Candidates,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Tensor, Tensor]:
    search = _sqrt_op if values_are_hidden() else search_blocks
    near = candidates.near
    return search(q, k, candidates.rank, candidates.seen, near.first, near.size, top_k, causal, block_size, reach)


def _exact_topk(q: Tensor, k: Tensor, candidates: Candidates, top_k: int) -> tuple[Tensor, Tensor]:
    search = _exact_op if values_are_hidden() else _exact_search
    return search(q, k, candidates.rank, candidates.seen, candidates.near.first, candidates.near.size, top_k)


def _all_pairs(q: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
    rank, seen = candidates.rank[:, None, None], candidates.seen[:, None, :, None]
    # Contiguous: export cannot follow the strides of an expanded view.
    valid = (rank < seen).expand(-1, q.shape[1], -1, -1).contiguous()
    return torch.arange(valid.shape[3], device=q.device).where(valid, 0), valid


def _exact_search(
    q: Tensor, k: Tensor, rank: Tensor, seen: Tensor, near_first: Tensor, near: int, top_k: int
) -> tuple[Tensor, Tensor]:
    size, window = k.shape[2], Window(near_first, near)
    chunk = max(1, CHUNK_ELEMENTS // (q.shape[0] * q.shape[1] * size))
    parts = []
    for start in range(0, q.shape[2], chunk):
        some = slice(start, start + chunk)
        part = q[:, :, some]
        usable = rank[:, None, None] < seen[:, None, some, None]  # [B, 1, C, S]
        if near:
            usable = usable & ~window.holds(rank[:, None, None], some)
        parts.append(best_columns(part @ k.transpose(-1, -2), usable.expand(*part.shape[:3], size), top_k))
    index, valid = (torch.cat(x, 2).contiguous() for x in zip(*parts, strict=True))
    return index, valid


# No symbolic shape can follow how block and chunk sizes depend on the length, so torch.compile, torch.export and
# vmap call the search as one opaque operator with a known shape of the result.
_sqrt_op = torch.library.custom_op(
    "nacre::sqrt_topk",
    search_blocks,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor rank, Tensor seen, Tensor near_first, int near, int top_k, bool causal,"
    " int? block_size, int? reach) -> (Tensor, Tensor)",
)
_exact_op = torch.library.custom_op(
    "nacre::exact_topk",
    _exact_search,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor rank, Tensor seen, Tensor near_first, int near, int top_k)"
    " -> (Tensor, Tensor)",
)


def _empty_result(q: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    shape = (*q.shape[:3], top_k)
    # Not `new_empty`: of a transposed tensor it would have the strides of that tensor in a compiled program.
    made = [torch.empty(shape, dtype=dtype, device=q.device) for dtype in (torch.int64, torch.bool)]
    return made[0], made[1]


_sqrt_op.register_fake(lambda q, k, rank, seen, first, near, top_k, *_: _empty_result(q, top_k))
_exact_op.register_fake(lambda q, k, rank, seen, first, near, top_k: _empty_result(q, top_k))


def _vmap_by_folding(op: Any, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:  # noqa: ANN401
    """Rule of `torch.func.vmap`: its dimension is folded into that of the batch."""
    size = info.batch_size
    tensors = [
        (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(args[:5], in_dims[:5], strict=True)
    ]
    index, valid = (x.unflatten(0, (size, -1)) for x in op(*tensors, *args[5:]))
    return (index, valid), (0, 0)


_sqrt_op.register_vmap(partial(_vmap_by_folding, _sqrt_op))
_exact_op.register_vmap(partial(_vmap_by_folding, _exact_op))


def _check_search(
    q: Tensor,
    k: Tensor,
    top_k: int,
    key_padding: Tensor | None,
    query_padding: Tensor | None,
    causal: bool,
) -> Candidates:
    """Check the arguments of a selection."""
    whole("top_k", top_k, 1)
    if q.dim() != 4 or k.dim() != 4 or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"q and k must have shapes [B, H, T, D] and [B, H, S, D], got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal selection needs as many queries as keys, got {q.shape[2]} and {k.shape[2]}")
    batch, _, queries, _ = q.shape
    for name, mask, length in (
        ("key_padding_mask", key_padding, k.shape[2]),
        ("query_padding_mask", query_padding, queries),
    ):
        if mask is not None:
            padding_mask(name, mask, (batch, length))
    return Candidates.of(
        (batch, queries, k.shape[2]),
        k.device,
        key_padding=key_padding,
        query_padding=query_padding,
        causal=causal,
    )
