"""Masks as `torch.nn` has them: True, or -inf among zeros, at what is not to be attended to."""

import torch
from torch import Tensor

from nacre._util.tracing import values_are_hidden


def padding_of(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A padding mask as bool, True at padding; refuses other shapes, and numbers other than 0 and -inf."""
    if mask.shape != shape:
        fix = "; use key_padding_mask.T" if mask.shape == shape[::-1] else ""
        wanted = " (batch, keys), whatever batch_first is" if len(shape) == 2 else " (keys)"
        raise ValueError(f"key_padding_mask must have shape {tuple(shape)}{wanted}, got {tuple(mask.shape)}{fix}")
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        raise TypeError(
            f"key_padding_mask must be bool, or 0 and -inf, got {mask.dtype}; use .bool() if 1 is padding"
        )
    hidden = mask == -torch.inf
    if not values_are_hidden() and not bool((hidden | (mask == 0)).all()):
        raise ValueError(
            "key_padding_mask must be 0 at steps that count and -inf at padding: a step cannot count in part"
        )
    return hidden


def hides_nothing(mask: Tensor, queries: int, keys: int) -> bool:
    """Whether a mask [T, S] or [B x H, T, S] lets every query see every key."""
    return mask.shape[-2:] == (queries, keys) and not bool(mask.any())


def is_causal_mask(mask: Tensor, queries: int, keys: int) -> bool:
    """Whether a mask [T, S] hides the keys after a query, and no other."""
    if mask.shape != (queries, keys) or queries != keys:
        return False
    hidden = mask if mask.dtype == torch.bool else mask == -torch.inf
    wanted = torch.ones_like(hidden).triu(1)
    known = mask.dtype == torch.bool or bool((hidden | (mask == 0)).all())
    return known and torch.equal(hidden, wanted)
