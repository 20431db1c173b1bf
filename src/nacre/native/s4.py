"""`run_states`: the recurrence of a diagonal state-space model by the compiled kernel, forward and backward."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nacre.native.library import call, torch_grads

# Inputs with channels first, elapsed, rates, weights, and which steps only ask.
_Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "length", "width", "states")),
        *((name, ctypes.c_void_p) for name in ("u", "elapsed", "rates", "weights", "asks")),
    )


def run_states(
    u: Tensor,  # [B, T, d]
    elapsed: Tensor,  # [B, T, 1]
    rates: Tensor,  # [d, n, 2] real and imaginary parts
    weights: Tensor,  # [d, n, 2]
    asks: Tensor | None,  # [B, T] bool, steps that leave the states as they were
    same: Callable[..., Tensor],  # the same in PyTorch from the first four tensors, for gradients of gradients
) -> Tensor:
    """Outputs [B, T, d] that `same` would give, without gradients by elapsed."""
    # Made contiguous here and not in `forward`: gradients of gradients must find the tensors it was given.
    given = (u.permute(2, 0, 1), elapsed, rates, weights)
    asks = None if asks is None else asks.contiguous()

    def again(u: Tensor, *others: Tensor) -> Tensor:
        return same(u.permute(1, 2, 0), *others).permute(2, 0, 1)

    return _Run.apply(*(x.contiguous() for x in given), asks, again).permute(1, 2, 0)


class _Run(torch.autograd.Function):
    """`run_states` with channels first; stores only its inputs."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        inputs: _Inputs = args[:5]
        ctx.same = args[5]
        ctx.save_for_backward(*inputs)
        out = torch.empty_like(inputs[0])
        call("s4", out.dtype, _struct(inputs), out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        inputs: _Inputs = tuple(ctx.saved_tensors)  # read once: under checkpointing a second time is an error
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            return (*torch_grads(lambda *x: (ctx.same(*x),), inputs[:4], (grad,)), None, None)
        u, _, rates, weights, _ = inputs
        grads = [torch.empty_like(x) for x in (u, rates, weights)]
        call("s4_backward", grad.dtype, _struct(inputs), grad.contiguous(), *grads)
        return grads[0], None, *grads[1:], None, None


def _struct(inputs: _Inputs) -> _Layer:
    u, _, rates, _, _ = inputs
    width, rows, length = u.shape
    return _Layer(rows, length, width, rates.shape[1], *(None if x is None else x.data_ptr() for x in inputs))
