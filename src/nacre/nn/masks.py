"""Masks as `torch.nn` has them: True, or -inf among zeros, at what is not to be attended to."""

import torch
from torch import Tensor

from nacre._util.tracing import values_are_hidden


def padding_of(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A padding mask as bool, True at padding; refuses other shapes, and numbers other than 0 and -inf."""
    _check("key_padding_mask", mask, "padding")
    if mask.shape != shape:
        fix = "; use key_padding_mask.T" if mask.shape == shape[::-1] else ""
        wanted = " (batch, keys), whatever batch_first is" if len(shape) == 2 else " (keys)"
        raise ValueError(f"key_padding_mask must have shape {tuple(shape)}{wanted}, got {tuple(mask.shape)}{fix}")
    if mask.dtype == torch.bool:
        return mask
    hidden = mask == -torch.inf
    if not values_are_hidden() and not bool((hidden | (mask == 0)).all()):
        raise ValueError(
            "key_padding_mask must be 0 at steps that count and -inf at padding: a step cannot count in part"
        )
    return hidden


def is_causal_mask(mask: Tensor, shape: tuple[int, int, int]) -> bool | None:
    """Whether a mask of B x H sequences, T queries and S keys is causal; None if it hides nothing.

    Args:
        mask: [T, S], or [B x H, T, S].
        shape: B x H, T and S.
    """
    _check("attn_mask", mask, "hidden pairs")
    if mask.shape not in (shape[1:], shape):
        raise ValueError(
            f"attn_mask must have shape {shape[1:]} (queries, keys), or {shape} (batch x heads, queries, keys), "
            f"got {tuple(mask.shape)}"
        )
    if not bool(mask.any()):
        return None
    hidden = mask if mask.dtype == torch.bool else mask == -torch.inf
    if shape[1] != shape[2] or not bool((hidden | (mask == 0)).all()):
        return False
    return bool((hidden == torch.ones_like(hidden).triu(1)).all())


def _check(name: str, mask: object, ones: str) -> None:
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"{name} must be bool, or 0 and -inf, got {mask.dtype}; use .bool() if 1 is {ones}")
