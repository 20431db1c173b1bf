"""What torch's exporter cannot say in ONNX: sorting with ties, places in ascending rows, and the search for keys.

Each function writes the ONNX nodes of one operator. Ties fall as in PyTorch: ONNX's TopK prefers the earlier of
equal entries, so a row is reversed where the later shall win.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset18

from nacre.layer.selection.blocks import CAUSAL_BLOCK

# Values of a graph in the making: onnxscript's functions have no useful types.
Value = Any
op: Any = opset18
# ONNX's numbers of types.
_BOOL, _INT64, _DOUBLE = 9, 7, 11
_SMALL = (2, 3, _BOOL)  # uint8, int8 and bool, which TopK does not take
_BACKWARD = -(2**63)


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The operators of PyTorch and ours, and the functions that write them in ONNX."""
    return {
        torch.ops.aten.expm1.default: expm1,
        torch.ops.aten.softplus.default: softplus,
        torch.ops.aten.sort.stable: sort,
        torch.ops.aten.searchsorted.Tensor: searchsorted,
        torch.ops.nacre.sqrt_topk.default: sqrt_topk,
        torch.ops.nacre.exact_topk.default: exact_topk,
    }


def expm1(self: Value) -> Value:
    """exp(x) - 1 = tanh(x / 2) (exp(x) + 1), which keeps the digits of small x."""
    one, two = (op.CastLike(op.Constant(value_float=x), self) for x in (1.0, 2.0))
    return op.Mul(op.Tanh(op.Div(self, two)), op.Add(op.Exp(self), one))


def softplus(self: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + exp(x)), in double precision too, for which onnxruntime has no operator of that name."""
    if beta != 1.0 or threshold != 20.0:
        raise NotImplementedError("softplus with beta or threshold")
    if self.dtype != _DOUBLE:
        return op.Softplus(self)
    zero, one = (op.CastLike(op.Constant(value_float=x), self) for x in (0.0, 1.0))
    return op.Add(op.Max(self, zero), op.Log(op.Add(one, op.Exp(op.Neg(op.Abs(self))))))


def sort(self: Value, stable: bool = True, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """`torch.sort`, always stable: TopK of all entries puts the earlier of equal ones first."""
    whole = op.Cast(self, to=_INT64) if self.dtype in _SMALL else self
    size = op.Shape(self, start=dim, end=dim + 1) if dim != -1 else op.Shape(self, start=-1)
    values, places = op.TopK(whole, size, axis=dim, largest=int(descending), sorted=1)
    return op.CastLike(values, self), places


def searchsorted(
    sorted_sequence: Value,
    self: Value,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """How many entries of ascending rows [B, S] are below values [B, T], or, with right, not above them."""
    if out_int32 or side is not None or sorter is not None:
        raise NotImplementedError("searchsorted with out_int32, side or sorter")
    entry, value = op.Unsqueeze(sorted_sequence, _ints(-2)), op.Unsqueeze(self, _ints(-1))
    before = op.LessOrEqual(entry, value) if right else op.Less(entry, value)
    return op.ReduceSum(op.Cast(before, to=_INT64), _ints(-1), keepdims=0)


def exact_topk(
    q: Value, k: Value, rank: Value, seen: Value, near_first: Value, near: int, top_k: int
) -> tuple[Value, Value]:
    """`nacre.layer.selection.choose._exact_search` for all queries at once."""
    rank, seen = op.Unsqueeze(rank, _ints(1, 2)), _by_query(seen)
    usable = _in_reach(rank, seen, near_first, near)
    scores = op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2]))
    return best_columns(scores, op.Expand(usable, op.Shape(scores)), _ints(top_k))


def sqrt_topk(
    q: Value,
    k: Value,
    rank: Value,
    seen: Value,
    near_first: Value,
    near: int,
    top_k: int,
    causal: bool,
    block_size: int | None,
    reach: int | None,
) -> tuple[Value, Value]:
    """`nacre.layer.selection.blocks.search_blocks` for all queries at once."""
    valid = op.Cast(op.Less(rank, op.Shape(k, start=2, end=3)), to=_INT64)  # [B, S]
    count = op.ReduceSum(valid, _ints(1), keepdims=1)  # [B, 1]
    size = _block_size(count, causal, block_size)
    blocks = _ceil_div(count, size)  # [B, 1]
    wanted = op.Min(_ceil_div(_ints(max(top_k + near, reach or 0)), size), blocks)
    block_rank, position, usable = _cut(rank, count, size, blocks, causal)  # [B, n, L]
    keys = _take(k, op.Unsqueeze(position, _ints(1)))  # [B, H, n, L, D]
    there = op.Unsqueeze(usable, _ints(1, 4))
    number = op.Max(op.ReduceSum(op.Cast(usable, to=_INT64), _ints(2), keepdims=1), _ints(1))
    zero = op.CastLike(op.Constant(value_float=0.0), k)
    sums = op.ReduceSum(op.Where(there, keys, zero), _ints(3), keepdims=0)
    centroid = op.Div(sums, op.CastLike(op.Unsqueeze(number, _ints(1)), k))  # [B, H, n, D]
    scores = op.MatMul(q, op.Transpose(centroid, perm=[0, 1, 3, 2]))  # [B, H, T, n]
    filled = op.Cast(op.ReduceMax(op.Cast(usable, to=_INT64), _ints(2), keepdims=0), to=_BOOL)  # [B, n]
    candidate, seen = op.Unsqueeze(filled, _ints(1, 2)), _by_query(seen)  # [B, 1, 1, n] and [B, 1, T, 1]
    own = op.Max(op.Div(op.Sub(seen, _ints(1)), op.Unsqueeze(size, _ints(1, 2))), _ints(0))
    if causal:
        candidate = op.And(candidate, op.Less(_range(op.Shape(filled, start=1)), own))
    candidate = op.Expand(candidate, op.Shape(scores))
    most = op.Max(op.ReduceMax(wanted, keepdims=0), op.Constant(value_int=1))
    chosen, valid = best_columns(scores, candidate, op.Reshape(most, _ints(1)), op.Unsqueeze(wanted, _ints(1, 2)))
    if causal:
        mine = op.Expand(own, op.Concat(op.Shape(scores, start=0, end=3), _ints(1), axis=0))
        chosen = op.Concat(chosen, mine, axis=-1)
        valid = op.Concat(valid, op.Equal(mine, mine), axis=-1)
    return _best_keys(q, k, (block_rank, position, usable), (chosen, valid), (seen, near_first, near), top_k)


def _best_keys(
    q: Value, k: Value, blocks: tuple[Value, ...], chosen: tuple[Value, Value], seen: tuple[Any, ...], top_k: int
) -> tuple[Value, Value]:
    """The best keys of each query in the blocks that it chose."""
    rank, position, usable = (_rows(x, chosen[0]) for x in blocks)  # [B, H, T, m, L]
    allowed = op.And(usable, op.Unsqueeze(chosen[1], _ints(4)))
    flat = op.Constant(value_ints=[0, 0, 0, -1])
    rank, position, allowed = (op.Reshape(x, flat) for x in (rank, position, allowed))  # [B, H, T, m L]
    allowed = op.And(allowed, _in_reach(rank, *seen))
    scores = op.MatMul(_take(k, position), op.Unsqueeze(q, _ints(4)))
    best, valid = best_columns(op.Squeeze(scores, _ints(4)), allowed, _ints(top_k))
    place = op.GatherElements(position, best, axis=-1)
    return op.Where(valid, place, _ints(0)), valid


def best_columns(scores: Value, allowed: Value, count: Value, limit: Value | None = None) -> tuple[Value, Value]:
    """`nacre.layer.selection.topk.best_columns`, for a count [1] that may depend on values."""
    size = op.Shape(scores, start=-1)
    lowest = op.CastLike(op.Constant(value_float=float("-inf")), scores)
    backward = op.Slice(op.Where(allowed, scores, lowest), _ints(-1), _ints(_BACKWARD), _ints(-1), _ints(-1))
    take = op.Min(count, size)
    _, places = op.TopK(backward, take, axis=-1, largest=1, sorted=1)
    columns = op.Sub(op.Sub(size, _ints(1)), places)
    found = op.GatherElements(allowed, columns, axis=-1)
    if limit is not None:
        found = op.And(found, op.Less(_range(take), limit))
    columns, _ = op.TopK(op.Where(found, columns, size), take, axis=-1, largest=0, sorted=1)
    missing = op.Expand(size, op.Concat(op.Shape(scores, end=-1), op.Sub(count, take), axis=0))
    columns = op.Concat(columns, missing, axis=-1)
    valid = op.Less(columns, size)
    return op.Where(valid, columns, _ints(0)), valid


def _block_size(count: Value, causal: bool, block_size: int | None) -> Value:
    """[B, 1] nominal size of the blocks of `count` keys."""
    if causal or block_size is not None:
        size = op.Expand(_ints(block_size or CAUSAL_BLOCK), op.Shape(count))
    else:
        size = op.Cast(op.Floor(op.Sqrt(op.Cast(count, to=_DOUBLE))), to=_INT64)
    return op.Max(size if causal else op.Min(size, count), _ints(1))


def _cut(rank: Value, count: Value, size: Value, blocks: Value, causal: bool) -> tuple[Value, Value, Value]:
    """Rank, position and existence of the keys in blocks, [B, n, L] with n and L at least 1."""
    most = op.Max(op.ReduceMax(blocks, keepdims=0), op.Constant(value_int=1))
    number = _range(op.Add(op.Reshape(most, _ints(1)), _ints(1)))  # [n + 1]
    first = op.Mul(number, size) if causal else op.Div(op.Mul(number, count), op.Max(blocks, _ints(1)))
    edges = op.Min(first, count)  # [B, n + 1]
    start, end = _part(edges, 0, -1), _part(edges, 1, 2**62)
    width = op.Max(op.ReduceMax(op.Sub(end, start), keepdims=0), op.Constant(value_int=1))
    grid = op.Add(op.Unsqueeze(start, _ints(2)), _range(op.Reshape(width, _ints(1))))  # [B, n, L]
    usable = op.Less(grid, op.Unsqueeze(end, _ints(2)))
    shape = op.Shape(grid)
    flat = op.Reshape(op.Where(usable, grid, _ints(0)), op.Constant(value_ints=[0, -1]))
    position = op.Reshape(op.GatherElements(_by_rank(rank), flat, axis=1), shape)
    return grid, position, usable


def _by_rank(rank: Value) -> Value:
    """Positions [B, S] of the valid keys by rank; padding, which has rank S, comes last."""
    _, order = op.TopK(rank, op.Shape(rank, start=1), axis=1, largest=0, sorted=1)
    return order


def _in_reach(rank: Value, seen: Value, near_first: Value, near: int) -> Value:
    """Whether queries [B, 1, T, 1] see keys of these ranks, and do not have them as near keys."""
    allowed = op.Less(rank, seen)
    if not near:
        return allowed
    first = _by_query(near_first)
    held = op.And(op.GreaterOrEqual(rank, first), op.Less(rank, op.Add(first, _ints(near))))
    return op.And(allowed, op.Not(held))


def _take(k: Value, position: Value) -> Value:
    """Keys [B, H, m, n, D] of [B, H, S, D] at positions [B, H or 1, m, n]."""
    batch, heads = (_range(op.Shape(k, start=i, end=i + 1)) for i in (0, 1))
    series = op.Add(
        op.Unsqueeze(op.Mul(batch, op.Shape(k, start=1, end=2)), _ints(1, 2, 3)),
        op.Unsqueeze(heads, _ints(1, 2)),
    )
    rows = op.Add(op.Mul(series, op.Shape(k, start=2, end=3)), position)
    flat = op.Reshape(k, op.Concat(_ints(-1), op.Shape(k, start=3), axis=0))
    return op.Gather(flat, rows, axis=0)


def _rows(x: Value, chosen: Value) -> Value:
    """Entries [B, H, T, m, L] of [B, n, L] at chosen blocks [B, H, T, m]."""
    row = op.Unsqueeze(_range(op.Shape(x, start=0, end=1)), _ints(1, 2, 3))
    places = op.Add(op.Mul(row, op.Shape(x, start=1, end=2)), chosen)
    return op.Gather(op.Reshape(x, op.Concat(_ints(-1), op.Shape(x, start=2), axis=0)), places, axis=0)


def _by_query(x: Value) -> Value:
    """[B, T] -> [B, 1, T, 1]."""
    return op.Unsqueeze(x, _ints(1, 3))


def _part(x: Value, start: int, end: int) -> Value:
    return op.Slice(x, _ints(start), _ints(end), _ints(1))


def _ceil_div(a: Value, b: Value) -> Value:
    """Quotients of numbers that are not negative, rounded up."""
    return op.Div(op.Sub(op.Add(a, b), _ints(1)), b)


def _range(size: Value) -> Value:
    """0, 1, ... below a size [1]."""
    return op.Range(op.Constant(value_int=0), op.Squeeze(size, _ints(0)), op.Constant(value_int=1))


def _ints(*numbers: int) -> Value:
    return op.Constant(value_ints=list(numbers))
