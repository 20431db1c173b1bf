"""`mix_selected`: sums of selected values by the compiled kernel, forward and backward."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from nacre.native.library import call


class _Sizes(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("heads", "queries", "keys", "selected", "width")),
        *((name, ctypes.c_void_p) for name in ("share", "value", "index")),
    )


def mix_selected(share: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """out[r, h] = sum over k of share[h, r, k] * value[index[h, r, k], h], without a copy of selected values.

    Args:
        share: [H, R, K].
        value: [S, H, D].
        index: [H, R, K] selected rows of value.

    Returns:
        [R, H, D].
    """
    # Here and not inside the function below, whose gradients of gradients must find the tensors it was given.
    return _Mix.apply(share.contiguous(), value.contiguous(), index.contiguous())


class _Mix(torch.autograd.Function):
    """`mix_selected`."""

    @staticmethod
    def forward(ctx: Any, share: Tensor, value: Tensor, index: Tensor) -> Tensor:  # noqa: ANN401
        """Call the kernel."""
        ctx.save_for_backward(share, value, index)
        out = share.new_empty(share.shape[1], *value.shape[1:])
        call("mix", share.dtype, _struct(share, value, index), out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        """Gradients by share and value."""
        share, value, index = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            head = torch.arange(len(index))[:, None, None]
            grad = grad.transpose(0, 1).unsqueeze(2)  # [H, R, 1, D]
            by_value = torch.zeros_like(value).index_put(
                (index, head), share.unsqueeze(-1) * grad, accumulate=True
            )
            return (value[index, head] * grad).sum(-1), by_value, None
        by_share, by_value = torch.empty_like(share), torch.zeros_like(value)
        call("mix_backward", share.dtype, _struct(share, value, index), grad.contiguous(), by_share, by_value)
        return by_share, by_value, None


def _struct(share: Tensor, value: Tensor, index: Tensor) -> _Sizes:
    heads, rows, columns = share.shape
    pointers = (x.data_ptr() for x in (share, value, index))
    return _Sizes(heads, rows, len(value), columns, value.shape[2], *pointers)
