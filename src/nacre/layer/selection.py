"""Which keys a query attends to: Algorithm 2 of the paper with its defects corrected, and exact top-K.

All functions take queries [B, H, T, D] and keys [B, H, S, D] and return, for each query, the positions of its
keys in ascending order and a mask of the columns that hold one: `(index, valid)`, both [B, H, T, K]. Columns
without a key hold index 0. Selection is not differentiable; padding and the future never take part in it.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre.layer.config import NACConfig, Selection
from nacre.layer.inputs import padding_mask
from nacre.native import library
from nacre.native.selection import MOST_KEYS
from nacre.native.selection import sqrt_search as native_search

_CHUNK_ELEMENTS = 2**22  # candidate key components scored at a time, so that memory does not grow with T * S
_LOWEST = torch.iinfo(torch.int64).min


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

    Keys are cut into blocks of about sqrt(S); a query scores the block centroids, takes the ceil(K / block)
    best blocks (more of them with `reach`), and from them its K best keys. Causal: blocks are counted from the
    start, a query always sees its own block up to itself, and otherwise only blocks that ended before it.

    Args:
        q: [B, H, T, D] queries.
        k: [B, H, S, D] keys.
        top_k: Number K of keys.
        key_padding_mask: [B, S] bool, True = padding: in no centroid, never selected.
        query_padding_mask: [B, T] bool, True = padding: these queries get no key.
        causal: Whether query i sees only keys up to i (needs T = S).
        block_size: Keys in a block; default floor(sqrt(S)).
        reach: Keys to compare with, in whole blocks; default as few blocks as hold K keys.

    Example:
        >>> index, valid = sqrt_topk(torch.randn(1, 2, 50, 8), torch.randn(1, 2, 50, 8), top_k=4)
        >>> index.shape
        torch.Size([1, 2, 50, 4])
    """
    padding = _check_search(q, k, top_k, key_padding_mask, causal)
    for name, value in (("block_size", block_size), ("reach", reach)):
        if value is not None:
            whole(name, value, 1)
    shape = (q.shape[0], q.shape[2])
    if query_padding_mask is None:
        skip = torch.zeros(shape, dtype=torch.bool, device=q.device)
    else:
        skip = padding_mask("query_padding_mask", query_padding_mask, shape)
    search = _sqrt_op if torch.compiler.is_compiling() else _sqrt_search
    return search(q, k, skip, padding, top_k, causal, block_size, reach)


@torch.no_grad()
def exact_topk(
    q: Tensor, k: Tensor, top_k: int, *, key_padding_mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Top-K keys among all, a chunk of queries at a time. Arguments and result as for `sqrt_topk`."""
    padding = _check_search(q, k, top_k, key_padding_mask, causal)
    search = _exact_op if torch.compiler.is_compiling() else _exact_search
    return search(q, k, padding, top_k, causal)


@torch.no_grad()
def all_pairs(
    q: Tensor, k: Tensor, *, key_padding_mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """Every key for every query: K = S columns."""
    padding = _check_search(q, k, 1, key_padding_mask, causal)
    shape = (*q.shape[:3], k.shape[2])
    position = torch.arange(k.shape[2], device=k.device)
    valid = ~padding[:, None, None]
    if causal:
        valid = valid & (position <= position[:, None])
    valid = valid.expand(shape).contiguous()  # export cannot follow the strides of an expanded view
    return position.where(valid, 0), valid


def choose_keys(
    config: NACConfig, q: Tensor, k: Tensor, padding: Tensor | None, skip: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Keys of each query by the layer's options, never padding [B, S]; none for queries to skip [B, T]."""
    q, k = q.detach(), k.detach()
    masks: dict[str, Any] = {"key_padding_mask": padding, "causal": config.causal}
    if config.top_k is None:
        return all_pairs(q, k, **masks)
    if config.selection == Selection.EXACT:
        return exact_topk(q, k, config.top_k, **masks)
    masks["query_padding_mask"] = skip
    return sqrt_topk(q, k, config.top_k, **masks, block_size=config.block_size, reach=config.reach)


def _sqrt_search(
    q: Tensor,
    k: Tensor,
    skip: Tensor,
    padding: Tensor,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Tensor, Tensor]:
    size = k.shape[2]
    block = math.isqrt(size) if block_size is None else min(block_size, size)
    edges = _edges(size, block, causal)
    wanted = min(blocks_to_search(top_k, block, reach), len(edges) - 1)
    if top_k <= MOST_KEYS and library.runs(q, k):
        return native_search(q, k, skip, padding, edges, block, wanted, top_k, causal)
    cut = _cut(k, padding, block, edges.to(k.device))
    candidates = (wanted + causal) * cut.positions.shape[1]
    chunk = max(1, _CHUNK_ELEMENTS // (q.shape[0] * q.shape[1] * candidates * q.shape[3]))
    parts = [
        _blocks_topk(q[:, :, i : i + chunk], k, cut, wanted, top_k, i if causal else None)
        for i in range(0, q.shape[2], chunk)
    ]
    index, valid = (torch.cat(x, 2) for x in zip(*parts, strict=True))
    valid = valid & ~skip[:, None, :, None]
    return index.where(valid, 0), valid


def _exact_search(q: Tensor, k: Tensor, padding: Tensor, top_k: int, causal: bool) -> tuple[Tensor, Tensor]:
    size = k.shape[2]
    position = torch.arange(size, device=k.device)
    chunk = max(1, _CHUNK_ELEMENTS // (q.shape[0] * q.shape[1] * size))
    parts = []
    for start in range(0, q.shape[2], chunk):
        part = q[:, :, start : start + chunk]
        usable = ~padding[:, None, None]
        if causal:
            row = torch.arange(start, start + part.shape[2], device=k.device)
            usable = usable & (position <= row[:, None])
        usable = usable.expand(*part.shape[:3], size)
        parts.append(best_columns(part @ k.transpose(-1, -2), usable, top_k))
    index, valid = (torch.cat(x, 2) for x in zip(*parts, strict=True))
    return index, valid


# No symbolic shape can follow how block and chunk sizes depend on the length, so a compiled or exported program
# calls the search as one opaque operator with a known shape of the result.
_sqrt_op = torch.library.custom_op(
    "nacre::sqrt_topk",
    _sqrt_search,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor skip, Tensor padding, int top_k, bool causal, int? block_size,"
    " int? reach) -> (Tensor, Tensor)",
)
_exact_op = torch.library.custom_op(
    "nacre::exact_topk",
    _exact_search,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor padding, int top_k, bool causal) -> (Tensor, Tensor)",
)


def _empty_result(q: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    shape = (*q.shape[:3], top_k)
    return q.new_empty(shape, dtype=torch.int64), q.new_empty(shape, dtype=torch.bool)


_sqrt_op.register_fake(lambda q, k, skip, padding, top_k, *_: _empty_result(q, top_k))
_exact_op.register_fake(lambda q, k, padding, top_k, causal: _empty_result(q, top_k))


def blocks_to_search(top_k: int, block: int, reach: int | None) -> int:
    """Number of blocks that a query searches: as many as hold K keys, or `reach` keys."""
    return math.ceil(max(top_k, reach or 0) / block)


def _check_search(q: Tensor, k: Tensor, top_k: int, mask: Tensor | None, causal: bool) -> Tensor:
    """Check the arguments of a selection; the padding mask [B, S], all False where none is given."""
    whole("top_k", top_k, 1)
    if q.dim() != 4 or k.dim() != 4 or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"q and k must have shapes [B, H, T, D] and [B, H, S, D], got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal selection needs as many queries as keys, got {q.shape[2]} and {k.shape[2]}")
    shape = (k.shape[0], k.shape[2])
    if mask is None:
        return torch.zeros(shape, dtype=torch.bool, device=k.device)
    return padding_mask("key_padding_mask", mask, shape)


@dataclass(frozen=True)
class _Blocks:
    """Keys cut into n blocks of at most L keys."""

    size: int  # nominal block size
    positions: Tensor  # [n, L] position of each key, 0 where a block is shorter
    usable: Tensor  # [B, n, L] whether there is a key and it is no padding
    centroids: Tensor  # [B, H, n, D] means of the usable keys


def _edges(length: int, size: int, causal: bool) -> Tensor:
    """First key of each block, and the end of the last: [n + 1]."""
    n = math.ceil(length / size)
    count = torch.arange(n + 1)
    # Near-equal blocks: a short last one would attract queries by chance. A causal query must not know how long
    # the sequence will become, so there blocks are counted from the start.
    return (count * size).clamp(max=length) if causal else count * length // n


def _cut(k: Tensor, padding: Tensor, size: int, edges: Tensor) -> _Blocks:
    """Gather the keys of each block."""
    width = int((edges[1:] - edges[:-1]).max())
    positions = edges[:-1, None] + torch.arange(width, device=k.device)  # [n, L]
    inside = positions < edges[1:, None]
    positions = positions.where(inside, 0)
    usable = inside & ~padding[:, positions]
    keys = k[:, :, positions]  # [B, H, n, L, D]
    keys = keys.where(usable[:, None, ..., None], 0)  # not a product: padding may hold NaN
    centroids = keys.sum(3) / usable.sum(-1).clamp(min=1)[:, None, :, None]
    return _Blocks(size, positions, usable, centroids)


def _blocks_topk(
    q: Tensor, k: Tensor, blocks: _Blocks, wanted: int, top_k: int, causal_start: int | None
) -> tuple[Tensor, Tensor]:
    """Best blocks, then best keys in them, for the queries from `causal_start` on (None: not causal)."""
    batch, heads, length, width = q.shape
    n = len(blocks.positions)
    candidate = blocks.usable.any(-1)[:, None, None].expand(batch, heads, length, n)
    row = own = None
    if causal_start is not None:
        row = torch.arange(causal_start, causal_start + length, device=q.device)[:, None]  # [C, 1]
        own = torch.div(row, blocks.size, rounding_mode="floor")
        candidate = candidate & (torch.arange(n, device=q.device) < own)
    chosen, valid = best_columns(q @ blocks.centroids.transpose(-1, -2), candidate, wanted)  # [B, H, C, m]
    if own is not None:
        chosen = torch.cat([chosen, own.expand(batch, heads, length, 1)], -1)
        valid = torch.cat([valid, torch.ones_like(valid[..., :1])], -1)
    position = blocks.positions[chosen].flatten(3)  # [B, H, C, m * L]
    batch_of = torch.arange(batch, device=q.device)[:, None, None, None]
    allowed = (blocks.usable[batch_of, chosen] & valid[..., None]).flatten(3)
    if row is not None:
        allowed = allowed & (position <= row)
    series = torch.arange(batch * heads, device=q.device).view(batch, heads, 1, 1) * k.shape[2]
    keys = k.reshape(-1, width).index_select(0, (position + series).flatten())
    scores = (keys.view(*position.shape, width) * q.unsqueeze(3)).sum(-1)
    best, valid = best_columns(scores, allowed, top_k)
    # Chosen blocks ascend, and a causal query's own block comes last: ascending columns, ascending positions.
    return position.gather(-1, best).where(valid, 0), valid


def best_columns(scores: Tensor, allowed: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Columns of the `count` largest allowed scores, ascending; of equal scores the later column wins.

    Returns:
        Columns (0 where there are fewer than `count`) and whether each holds one: [..., count].
    """
    size = scores.shape[-1]
    take = min(count, size)
    if scores.dtype == torch.float64:
        # A stable descending sort of the reversed row puts the later of equal scores first.
        order = scores.masked_fill(~allowed, -math.inf).flip(-1).argsort(dim=-1, descending=True, stable=True)
        columns = size - 1 - order[..., :take]
        found = allowed.gather(-1, columns)
    else:
        # Faster: integers that order by score, then by column.
        keys = _ordered_bits(scores) << 32 | torch.arange(size, device=scores.device)
        keys = keys.masked_fill_(~allowed, _LOWEST).topk(take, -1, sorted=False).values
        columns, found = keys & 0xFFFFFFFF, keys != _LOWEST
    columns = columns.masked_fill(~found, size).sort(-1).values  # missing ones last
    columns = torch.nn.functional.pad(columns, (0, count - take), value=size)
    valid = columns < size
    return columns.masked_fill(~valid, 0), valid


def _ordered_bits(scores: Tensor) -> Tensor:
    """Integers in the order of the scores: float32 bits with the magnitude of negative numbers reversed."""
    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)).long()
