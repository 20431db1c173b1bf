"""`synapse_sums` and `unfold`: liquid time-constant neurons by the compiled kernel, forward and backward."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nacre.native.library import call, torch_grads

SLOTS = 8  # lines of a table of synapses are filled up to a multiple of this: numbers in the widest vector


class _Synapses(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("neurons", "slots")),
        *((name, ctypes.c_void_p) for name in ("source", "used", "coefficient")),
    )


class _Rows(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("rows", "width"))


class _Recurrence(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "length", "unfolds")),
        *((name, ctypes.c_void_p) for name in ("drive", "delta", "capacity")),
    )


def synapse_sums(
    x: Tensor, coefficient: Tensor, source: Tensor, used: Tensor, same: Callable[..., Tensor]
) -> Tensor:
    """Currents and conductances [R, 2, N] that neurons receive through their synapses.

    Args:
        x: [R, F].
        coefficient: [4, N, K] of the synapses: w E, w, sigma, -sigma mu; zeros where there is none.
        source: [N, K] int32, the feature (of F) that a synapse comes from.
        used: [N] int32, slots to visit in each line of K, a multiple of `SLOTS`.
        same: The same from (x, coefficient) in PyTorch, for gradients that have gradients.
    """
    # Made contiguous here and not in `forward`: gradients of gradients must find the tensors it was given.
    return _SynapseSums.apply(x.contiguous(), coefficient.contiguous(), source, used, same)


def unfold(
    drive: Tensor,  # [B, T, 2, N] currents and conductances from outside
    delta: Tensor,  # [B, T] length of one unfold
    capacity: Tensor,  # [N]
    coefficient: Tensor,  # [4, N, K], see `synapse_sums`
    source: Tensor,  # [N, K] int32
    used: Tensor,  # [N] int32
    unfolds: int,  # of a step
    same: Callable[..., Tensor],  # the same from (drive, delta, capacity, coefficient) in PyTorch
) -> Tensor:
    """States [B, T, N] of recurrent neurons that start at 0."""
    floats = (x.contiguous() for x in (drive, delta, capacity, coefficient))
    return _Unfold.apply(*floats, source, used, unfolds, same)


class _SynapseSums(torch.autograd.Function):
    """`synapse_sums`; recomputes the sigmoids in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        x, coefficient, source, used, ctx.same = args
        ctx.save_for_backward(x, coefficient, source, used)
        out = x.new_empty(len(x), 2, coefficient.shape[1])
        call("ltc_sums", x.dtype, _synapses(coefficient, source, used), _Rows(*x.shape), x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        x, coefficient, source, used = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            return (*torch_grads(lambda *x: (ctx.same(*x),), (x, coefficient), (grad,)), None, None, None)
        grads = [torch.zeros_like(x), torch.zeros_like(coefficient)]
        synapses = _synapses(coefficient, source, used)
        call("ltc_sums_backward", x.dtype, synapses, _Rows(*x.shape), x, grad.contiguous(), *grads)
        return (*grads, None, None, None)


class _Unfold(torch.autograd.Function):
    """`unfold`; stores the states and nothing else."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        *floats, source, used, ctx.unfolds, ctx.same = args
        drive, _, _, coefficient = floats
        states = drive.new_empty(*drive.shape[:2], drive.shape[3])
        recurrence = _recurrence(floats, ctx.unfolds)
        call("ltc", drive.dtype, _synapses(coefficient, source, used), recurrence, states)
        ctx.save_for_backward(*floats, source, used, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        *floats, source, used, states = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*torch_grads(lambda *x: (ctx.same(*x),), floats, (grad,)), None, None, None, None)
        grads = [torch.zeros_like(x) for x in floats]
        synapses, recurrence = _synapses(floats[-1], source, used), _recurrence(floats, ctx.unfolds)
        call("ltc_backward", grad.dtype, synapses, recurrence, states, grad.contiguous(), *grads)
        return (*grads, None, None, None, None)


def _synapses(coefficient: Tensor, source: Tensor, used: Tensor) -> _Synapses:
    return _Synapses(*source.shape, source.data_ptr(), used.data_ptr(), coefficient.data_ptr())


def _recurrence(floats: Sequence[Tensor], unfolds: int) -> _Recurrence:
    drive, delta, capacity, _ = floats
    return _Recurrence(*drive.shape[:2], unfolds, drive.data_ptr(), delta.data_ptr(), capacity.data_ptr())
