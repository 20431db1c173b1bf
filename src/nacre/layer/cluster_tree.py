"""Keys divided by content: groups of keys that are alike, and leaves within them.

Keys are halved again and again, each time at the median along the direction in which they vary most, all groups
of a level at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

_ITERATIONS = 4  # of the power method


@dataclass(frozen=True)
class Tree:
    """n groups of keys with c leaves of at most L keys each."""

    groups: Tensor  # [G, n, D] centroids
    leaves: Tensor  # [G, n, c, D] centroids
    keys: Tensor  # [G, n, c, L, D]
    position: Tensor  # [G, n, c, L], -1 where there is no key


def grow(k: Tensor, usable: Tensor, groups: int, leaves: int, leaf_size: int) -> Tree:
    """Divide keys into groups and leaves.

    Args:
        k: [G, a, s, D], a segments of s keys.
        usable: [G, a, s] bool, keys that take part.
        groups: Groups of a segment, a power of two.
        leaves: Leaves in a group, a power of two.
        leaf_size: Largest number of keys in a leaf.

    Returns:
        A tree with n = a * groups.
    """
    series, segments, size, width = k.shape
    rows = k.flatten(0, 1)
    capacity = groups * leaves * leaf_size
    # Usable keys first, in order of time; slots behind them are empty and point anywhere.
    slots = pad((~usable).flatten(0, 1).to(torch.uint8).argsort(dim=-1, stable=True), (0, capacity - size))
    count = usable.flatten(0, 1).sum(-1, keepdim=True)
    slots, count = _divide(rows, slots.unsqueeze(1), count, groups)
    slots, count = _divide(rows, slots, count, leaves)  # [G * a, groups * c, L]
    used = torch.arange(slots.shape[-1], device=k.device) < count.unsqueeze(-1)
    shape = (series, segments * groups, leaves, leaf_size)
    keys = _take(rows, slots).view(*shape, width)
    start = torch.arange(series * segments, device=k.device).view(-1, 1, 1) % segments * size
    position = (slots + start).where(used, -1).view(shape)
    used = used.view(*shape, 1)
    return Tree(_centroids(keys.flatten(2, 3), used.flatten(2, 3)), _centroids(keys, used), keys, position)


def join(a: Tree, b: Tree) -> Tree:
    """Both trees as one, the groups of the first before those of the second."""
    return Tree(*(torch.cat([getattr(a, name), getattr(b, name)], 1) for name in vars(a)))


def _take(rows: Tensor, slots: Tensor) -> Tensor:
    """[R, s, D] and [R, n, L] -> [R, n, L, D]."""
    first = torch.arange(len(rows), device=rows.device).view(-1, 1, 1) * rows.shape[1]
    return rows.flatten(0, 1).index_select(0, (slots + first).flatten()).view(*slots.shape, -1)


def _centroids(keys: Tensor, used: Tensor) -> Tensor:
    """Means [..., D] of the keys in use of [..., L, D]."""
    return keys.where(used, 0).sum(-2) / used.sum(-2).clamp(min=1)


def _divide(rows: Tensor, slots: Tensor, count: Tensor, parts: int) -> tuple[Tensor, Tensor]:
    """Halve groups until each has become `parts`, a power of two, of near-equal size.

    Where padding leaves few keys, they fill as few parts as can hold them: a query sees a fixed number of parts.

    Args:
        rows: [R, s, D] keys.
        slots: [R, n, L] which of them are in each group.
        count: [R, n] how many of the slots are in use; they come first.
        parts: Into how many parts.

    Returns:
        Slots [R, n * parts, L / parts] and their counts.
    """
    room = slots.shape[-1] // parts
    share = torch.div(count + room - 1, room, rounding_mode="floor")  # parts that will hold keys
    while slots.shape[-1] > room:
        half = slots.shape[-1] // 2
        slots = slots.gather(-1, _order(rows, slots, count))
        left = torch.div(share + 1, 2, rounding_mode="floor")
        total = share.clamp(min=1)
        split = torch.div(count * left + total - 1, total, rounding_mode="floor")
        begin = torch.stack([torch.zeros_like(split), split], -1).unsqueeze(-1)  # [R, n, 2, 1]
        column = (begin + torch.arange(half, device=slots.device)).clamp(max=2 * half - 1)
        slots = slots.gather(-1, column.flatten(2)).unflatten(-1, (2, half)).flatten(1, 2)
        count = torch.stack([split, count - split], -1).flatten(1)
        share = torch.stack([left, share - left], -1).flatten(1)
    return slots, count


def _order(rows: Tensor, slots: Tensor, count: Tensor) -> Tensor:
    """Order of the slots of each group along its main direction, empty ones last: [R, n, L]."""
    used = (torch.arange(slots.shape[-1], device=slots.device) < count.unsqueeze(-1)).unsqueeze(-1)
    keys = _take(rows, slots).where(used, 0)
    keys = (keys - keys.sum(-2, keepdim=True) / count.clamp(min=1)[..., None, None]).where(used, 0)
    keys = keys / keys.abs().amax((-2, -1), keepdim=True).clamp(min=torch.finfo(keys.dtype).tiny)  # no overflow
    covariance = keys.transpose(-1, -2) @ keys  # [R, n, D, D]
    widest = covariance.diagonal(dim1=-2, dim2=-1).argmax(-1)
    direction = covariance.gather(-1, widest[..., None, None].expand(*covariance.shape[:-1], 1))
    for _ in range(_ITERATIONS):
        direction = covariance @ direction
        direction = direction / direction.abs().amax(-2, keepdim=True).clamp(min=torch.finfo(keys.dtype).tiny)
    along = (keys @ direction).nan_to_num().masked_fill(~used, math.inf)  # NaN would come behind the empty slots
    return along.squeeze(-1).argsort(dim=-1, stable=True)
