"""`sqrt_search`: selection of keys by the compiled kernel."""

import ctypes

import torch
from torch import Tensor

from nacre.native.library import call

MOST_KEYS = 256  # of a query; the kernel keeps them in a list by insertion, which suits small numbers
_SIZES = ("series", "heads", "queries", "keys", "width", "blocks", "block", "selected", "wanted")


class _Search(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        ("causal", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("query", "key", "skip", "padding", "edges", "index", "valid")),
    )


def sqrt_search(
    q: Tensor,  # [B, H, T, D] queries
    k: Tensor,  # [B, H, S, D] keys
    skip: Tensor,  # [B, T] bool, queries that get no keys
    padding: Tensor,  # [B, S] bool, keys that never take part
    edges: Tensor,  # [n + 1] int64, first key of each block
    block: int,  # keys in a block; causal: of all but the last
    wanted: int,  # blocks a query searches, besides its own where causal
    top_k: int,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Best keys in the best blocks: index and valid, [B, H, T, K]."""
    batch, heads, length, width = q.shape
    q, k, skip, padding, edges = (x.contiguous() for x in (q, k, skip, padding, edges))
    index = torch.zeros(batch, heads, length, top_k, dtype=torch.int64)
    valid = torch.zeros(index.shape, dtype=torch.bool)
    struct = _Search(
        batch * heads, heads, length, k.shape[2], width, len(edges) - 1, block, top_k, wanted, causal,
        q.data_ptr(), k.data_ptr(), skip.data_ptr(), padding.data_ptr(),
        edges.data_ptr(), index.data_ptr(), valid.data_ptr(),
    )  # fmt: skip
    call("select", q.dtype, struct)
    return index, valid
