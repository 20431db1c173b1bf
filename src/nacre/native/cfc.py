"""`run_layer`: the recurrence of a CfC layer by the compiled kernel, forward and backward."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nacre.native.library import call, torch_grads

# Drive, elapsed, recurrent, weight and bias.
_Inputs = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "length", "units", "hidden")),
        ("gated", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("drive", "elapsed", "recurrent", "weight", "bias")),
    )


def run_layer(
    drive: Tensor,  # [B, T, m], or [B, T, 4n] where there is no hidden layer
    elapsed: Tensor,  # [B, T, 1]
    recurrent: Tensor,  # [n, m] or [n, 4n]
    weight: Tensor | None,  # [m, 4n] from a hidden layer to the heads; None where there is none
    bias: Tensor | None,  # [4n] of the heads, with `weight`
    *,
    gate: bool,  # whether the first content of the new state has the factor 1 - s, and not 1
    loop: Callable[..., Tensor],  # the same in PyTorch from these five tensors, for gradients of gradients
) -> Tensor:
    """States [B, T, n] that `loop` would give, without gradients by elapsed."""
    # Made contiguous here and not in `forward`: gradients of gradients must find the tensors it was given.
    given = (drive, elapsed, recurrent, weight, bias)
    return _Run.apply(*(None if x is None else x.contiguous() for x in given), gate, loop)


class _Run(torch.autograd.Function):
    """`run_layer`; stores only the states, and recomputes everything else for all steps at once."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        inputs: _Inputs = args[:5]
        ctx.gate, ctx.loop = args[5:]
        drive, recurrent = inputs[0], inputs[2]
        out = drive.new_empty(*drive.shape[:2], recurrent.shape[0])
        call("cfc", drive.dtype, _struct(inputs, ctx.gate), out)
        ctx.save_for_backward(*inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        *saved, out = ctx.saved_tensors  # read once: under checkpointing a second time is an error
        inputs: _Inputs = tuple(saved)
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            return (*torch_grads(lambda *x: (ctx.loop(*x),), inputs, (grad,)), None, None)
        drive, _, recurrent, weight, bias = inputs
        # The kernel puts gradients by the heads in place of the heads.
        before = torch.cat([torch.zeros_like(out[:, :1]), out[:, :-1]], 1).flatten(0, 1)  # [B T, n]
        first = torch.addmm(drive.flatten(0, 1), before, recurrent)  # [B T, m or 4n]
        struct = _struct(inputs, ctx.gate)
        if weight is None or bias is None:  # nothing is read from or written to a hidden layer
            call("cfc_backward", drive.dtype, struct, grad.contiguous(), first, first, first)
            return first.view_as(drive), None, before.T @ first, None, None, None, None
        hidden = first.tanh_()
        heads, by_drive = torch.addmm(bias, hidden, weight), torch.empty_like(drive)
        call("cfc_backward", drive.dtype, struct, grad.contiguous(), hidden, heads, by_drive)
        by_recurrent = before.T @ by_drive.flatten(0, 1)
        return by_drive, None, by_recurrent, hidden.T @ heads, heads.sum(0), None, None


def _struct(inputs: _Inputs, gate: bool) -> _Layer:
    drive, elapsed, recurrent, weight, bias = inputs
    hidden = 0 if weight is None else weight.shape[0]
    pointers = (None if x is None else x.data_ptr() for x in (drive, elapsed, recurrent, weight, bias))
    return _Layer(*drive.shape[:2], recurrent.shape[0], hidden, gate, *pointers)
