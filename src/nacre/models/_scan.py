"""The linear recurrence y_i = a_i y_{i-1} + b_i over all steps at once."""

from typing import Any

import torch
from torch import Tensor


def linear_scan(a: Tensor, b: Tensor) -> Tensor:
    """Solve y_i = a_i y_{i-1} + b_i along dimension 1, with nothing before the first step.

    Neighbouring steps are merged into one, which leaves half as many, and so on: log2 T rounds of few large
    operations, about 3 T products in all. Factors are only ever multiplied with each other, so nothing grows
    where |a| <= 1. For the gradient only `a` and the result are kept.

    Args:
        a: [B, T, ...] factors, real or complex. The first has nothing to act on.
        b: [B, T, ...] inputs, of the shape and dtype of `a`.

    Returns:
        y, [B, T, ...].

    Example:
        >>> linear_scan(torch.full((1, 4), 0.5), torch.ones(1, 4))
        tensor([[1.0000, 1.5000, 1.7500, 1.8750]])
    """
    y: Any = _LinearScan.apply(a, b)
    return y


def _scan(a: Tensor, b: Tensor) -> Tensor:
    length = a.shape[1]
    if length == 1:
        return b.clone()
    pairs = length - length % 2
    first, second = slice(0, pairs, 2), slice(1, pairs, 2)
    odd = _scan(a[:, second] * a[:, first], torch.addcmul(b[:, second], a[:, second], b[:, first]))
    y = torch.empty_like(b)
    y[:, 0] = b[:, 0]
    y[:, 1::2] = odd
    y[:, 2::2] = torch.addcmul(b[:, 2::2], a[:, 2::2], odd[:, : (length - 1) // 2])
    return y


class _LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return _scan(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        a, y = ctx.saved_tensors
        # What step i does to step i + 1 comes back through a_{i+1}: the same recurrence, from the end.
        b_grad = linear_scan(a.conj().roll(-1, 1).flip(1), grads[0].flip(1)).flip(1)
        before = torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1)
        return b_grad * before.conj(), b_grad
