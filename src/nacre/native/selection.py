"""`sqrt_search`: selection of keys by the compiled kernel."""

import ctypes

import torch
from torch import Tensor

from nacre.native.library import call

MOST_KEYS = 256  # of a query; the kernel keeps them in a list by insertion, which suits small numbers
_SIZES = ("series", "heads", "queries", "keys", "width", "selected", "near")
_POINTERS = ("query", "key", "order", "count", "seen", "near_first", "size", "wanted", "index", "valid")


class _Search(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        ("causal", ctypes.c_int32),
        ("with_near", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    )


def sqrt_search(
    q: Tensor,  # [B, H, T, D] queries
    k: Tensor,  # [B, H, S, D] keys
    order: Tensor,  # [B, S] int64, positions of the valid keys, then anything
    count: Tensor,  # [B] int64, number of valid keys
    seen: Tensor,  # [B, T] int64, how many of the valid keys a query may see
    size: Tensor,  # [B] int64, keys in a block; causal: of all but the last
    wanted: Tensor,  # [B] int64, blocks a query searches, besides its own where causal
    near_first: Tensor,  # [B, T] int64, rank of the first of `near` keys that are not to be found
    near: int,
    top_k: int,
    causal: bool,
    with_near: bool = False,
) -> tuple[Tensor, Tensor]:
    """Best keys in the best blocks, and the near keys too if these are wanted: index and valid, [B, H, T, K].

    With near keys they are views of tensors in which heads come first, as the pair stage takes them.
    """
    batch, heads, length, width = q.shape
    first, columns = ((heads, batch), top_k + near) if with_near else ((batch, heads), top_k)
    index = torch.zeros(*first, length, columns, dtype=torch.int64)
    valid = torch.zeros(index.shape, dtype=torch.bool)
    tensors = [x.contiguous() for x in (q, k, order, count, seen, near_first, size, wanted)] + [index, valid]
    sizes = batch * heads, heads, length, k.shape[2], width, top_k, near
    call("select", q.dtype, _Search(*sizes, causal, with_near, *(x.data_ptr() for x in tensors)))
    return (index.transpose(0, 1), valid.transpose(0, 1)) if with_near else (index, valid)
