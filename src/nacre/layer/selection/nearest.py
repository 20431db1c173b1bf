"""The keys nearest in time to a query: a window in the order of time, found without a search over all keys."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """For each query the `size` keys nearest to it: those of rank `first` to `first + size - 1`."""

    first: Tensor  # [B, T]
    size: int

    def keys(self, order: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the keys of each query and which columns hold one, [B, T, size].

        Args:
            order: [B, S] positions of the valid keys by rank.
            limit: [B, T] number of keys a query may see; 0 where it gets none.
        """
        rank = self.first.unsqueeze(-1) + torch.arange(self.size, device=order.device)
        valid = (rank >= 0) & (rank < limit.unsqueeze(-1))
        position = order.gather(1, rank.where(valid, 0).flatten(1)).view_as(rank)
        return position.where(valid, 0), valid

    def holds(self, rank: Tensor, queries: slice = slice(None)) -> Tensor:
        """Which keys, of ranks that broadcast to [B, ..., T, m], are in the windows of some queries."""
        first = self.first[:, queries].unsqueeze(-1)
        first = first.view(first.shape[0], *[1] * (rank.dim() - 3), *first.shape[1:])
        return (rank >= first) & (rank < first + self.size)


def latest(seen: Tensor, size: int) -> Window:
    """The last keys that each query sees [B, T]: the nearest ones of causal layers."""
    return Window(seen - size, size)


def nearest(query: Tensor, key: Tensor, count: Tensor, size: int) -> Window:
    """The keys nearest in time to queries at any moment; of two equally near the later wins.

    Args:
        query: [B, T] moments of the queries.
        key: [B, S] moments of the keys, ascending; only the first `count` [B] of a row exist.
        count: Number of keys in each row.
        size: Keys in a window; fewer where there are fewer.

    Example:
        >>> key = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
        >>> nearest(torch.tensor([[0.9, 2.5]]), key, torch.tensor([4]), size=2).first
        tensor([[0, 2]])
    """
    count = count[:, None]
    place = _keys_up_to(query, key, count).unsqueeze(-1)  # [B, T, 1]
    # A window begins at a key before the query if that is nearer than the key which follows the window.
    left = place - 1 - torch.arange(size, device=key.device)  # [B, T, size]
    right = left + size
    moment = query.unsqueeze(-1)
    before = moment - _at(key, left)
    after = _at(key, right) - moment
    begins = (left >= 0) & ((right >= count.unsqueeze(-1)) | (before < after))
    first = place - begins.sum(-1, keepdim=True)
    # With no key before the query, it may begin in a group of keys at one moment: of those the last ones win.
    group = _keys_up_to(_at(key, first).squeeze(-1), key, count).unsqueeze(-1)
    first = torch.maximum(first, group - size).where(first == place, first)
    return Window(first.squeeze(-1), size)


def _keys_up_to(moment: Tensor, key: Tensor, count: Tensor) -> Tensor:
    """[B, T] how many of the first `count` [B, 1] keys are not later than moments [B, T]."""
    return torch.minimum(torch.searchsorted(key.contiguous(), moment.contiguous(), right=True), count)


def _at(key: Tensor, place: Tensor) -> Tensor:
    """Entries of [B, S] at places [B, T, m]; any where there is none."""
    inside = place.clamp(0, key.shape[1] - 1)
    return key.gather(1, inside.flatten(1)).view_as(place)
