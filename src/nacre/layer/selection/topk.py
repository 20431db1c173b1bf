"""`best_columns`: the largest scores of each row, with ties decided the same way everywhere."""

import math

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**22  # numbers that a search handles at a time, so that memory does not grow with T * S
_LOWEST = torch.iinfo(torch.int64).min


def best_columns(
    scores: Tensor, allowed: Tensor, count: int, limit: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Columns of the `count` largest allowed scores, ascending; of equal scores the later column wins.

    With a `limit` that broadcasts to [..., 1], some rows get fewer than `count`.

    Returns:
        Columns (0 where there are fewer than `count`) and whether each holds one: [..., count].
    """
    size = scores.shape[-1]
    take = min(count, size)
    if scores.dtype == torch.float64 or torch.onnx.is_in_onnx_export():  # ONNX cannot look at bits
        # A stable descending sort of the reversed row puts the later of equal scores first.
        order = scores.masked_fill(~allowed, -math.inf).flip(-1).argsort(dim=-1, descending=True, stable=True)
        columns = size - 1 - order[..., :take]
        found = allowed.gather(-1, columns)
    else:
        # Faster: integers that order by score, then by column.
        keys = _ordered_bits(scores) << 32 | torch.arange(size, device=scores.device)
        keys = keys.masked_fill_(~allowed, _LOWEST).topk(take, -1, sorted=limit is not None).values
        columns, found = keys & 0xFFFFFFFF, keys != _LOWEST
    if limit is not None:
        found = found & (torch.arange(take, device=scores.device) < limit)
    columns = columns.masked_fill(~found, size).sort(-1).values  # missing ones last
    columns = torch.nn.functional.pad(columns, (0, count - take), value=size)
    valid = columns < size
    return columns.masked_fill(~valid, 0), valid


def _ordered_bits(scores: Tensor) -> Tensor:
    """Integers in the order of the scores: float32 bits with the magnitude of negative numbers reversed."""
    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)).long()
