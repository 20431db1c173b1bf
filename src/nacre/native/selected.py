"""Products of queries with the keys they selected, by the compiled kernels, forward and backward."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from nacre.native.library import call


class _Pairs(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("heads", "queries", "columns", "width")),
        ("index", ctypes.c_void_p),
    )


def mix_selected(share: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """out[r, h] = sum over k of share[h, r, k] * value[index[h, r, k], h], without a copy of selected values.

    Shapes: share and index [H, R, K], value [S, H, D], result [R, H, D].
    """
    # Made contiguous here and not in `forward`: gradients of gradients must find the tensors it was given.
    return _Mix.apply(share.contiguous(), value.contiguous(), index.contiguous())


def dot_selected(query: Tensor, key: Tensor, index: Tensor) -> Tensor:
    """out[h, r, k] = query[r, h] . key[index[h, r, k], h], without a copy of selected keys.

    Shapes: query [R, H, D], key [S, H, D], index and result [H, R, K].
    """
    return _Dot.apply(query.contiguous(), key.contiguous(), index.contiguous())


class _Mix(torch.autograd.Function):
    """`mix_selected`."""

    @staticmethod
    def forward(ctx: Any, share: Tensor, value: Tensor, index: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(share, value, index)
        return _run("sum", index, share, value, share.new_empty(index.shape[1], *value.shape[1:]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        share, value, index = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            head = torch.arange(len(index))[:, None, None]
            return (value[index, head] * _pairwise(grad)).sum(-1), _scattered(share, grad, index, value), None
        grad = grad.contiguous()
        by_share = _run("dot", index, grad, value, torch.empty_like(share))
        return by_share, _run("scatter", index, share, grad, torch.zeros_like(value)), None


class _Dot(torch.autograd.Function):
    """`dot_selected`."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, index: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(query, key, index)
        return _run("dot", index, query, key, query.new_empty(index.shape))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        query, key, index = ctx.saved_tensors
        if torch.is_grad_enabled():
            head = torch.arange(len(index))[:, None, None]
            by_query = (grad.unsqueeze(-1) * key[index, head]).sum(2).transpose(0, 1)
            return by_query, _scattered(grad, query, index, key), None
        grad = grad.contiguous()
        by_query = _run("sum", index, grad, key, torch.empty_like(query))
        return by_query, _run("scatter", index, grad, query, torch.zeros_like(key)), None


def _run(name: str, index: Tensor, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Call a kernel on the pairs of an index [H, R, K]; b is [.., H, D]."""
    call(name, out.dtype, _Pairs(*index.shape, b.shape[2], index.data_ptr()), a, b, out)
    return out


def _pairwise(query: Tensor) -> Tensor:
    """[R, H, D] -> [H, R, 1, D]."""
    return query.transpose(0, 1).unsqueeze(2)


def _scattered(numbers: Tensor, query: Tensor, index: Tensor, like: Tensor) -> Tensor:
    """The kernel "scatter" in PyTorch's own operators, whose gradients have gradients."""
    places = (index, torch.arange(len(index))[:, None, None])
    return torch.zeros_like(like).index_put(places, numbers.unsqueeze(-1) * _pairwise(query), accumulate=True)
