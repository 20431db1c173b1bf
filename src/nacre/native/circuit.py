"""`settle_selected`: motor neurons of every selected pair by the compiled kernel, forward and backward."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nacre.native.activations import ACTIVATION_CODES
from nacre.native.library import call, torch_grads
from nacre.native.program import Program, evaluate

_POINTER = ctypes.c_void_p
_SIZES = ("rows", "outputs", "columns", "constants", "synapses", "activation")


class _Program(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in _SIZES),
        *((name, _POINTER) for name in ("kind", "base", "active", "start", "source")),
        *((name, _POINTER) for name in ("out_start", "out_target", "out_synapse")),
    )


class _Pairs(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("heads", "queries", "keys", "selected", "weight_heads")),
        *((name, _POINTER) for name in ("query", "key", "index", "weight", "constant")),
    )


@dataclass(frozen=True)
class Circuit:
    """A program and its sizes for the kernel; plain arrays, so that layers can be copied."""

    program: Program
    outputs: int  # rows that are read out, the last ones
    columns: int  # of the input drive
    constants: int  # neurons that have a bias
    activation: str  # a name in `ACTIVATION_CODES`

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Synapses in the order of their targets, and again in the order of their sources."""
        program, rows = self.program, np.arange(len(self.program.kind) + 1)
        by_source = np.argsort(program.source, kind="stable").astype(np.int32)
        return {
            "kind": program.kind,
            "base": program.base,
            "active": program.active,
            "start": np.searchsorted(program.target, rows).astype(np.int32),
            "source": program.source,
            "out_start": np.searchsorted(program.source[by_source], rows).astype(np.int32),
            "out_target": program.target[by_source],
            "out_synapse": by_source,
        }

    def struct(self) -> _Program:
        """The kernel's view of the arrays."""
        sizes = (len(self.program.kind), self.outputs, self.columns, self.constants, len(self.program.source))
        pointers = {name: array.ctypes.data for name, array in self.arrays.items()}
        return _Program(*sizes, ACTIVATION_CODES[self.activation], **pointers)


def settle_selected(
    query: Tensor,  # [H, R, P] input drive by queries
    key: Tensor,  # [H, S, P] input drive by keys
    weight: Tensor,  # [H or 1, synapses] in the program's order
    constant: Tensor,  # [H or 1, constants]
    index: Tensor,  # [H, R, K] selected rows of key
    circuit: Circuit,
) -> Tensor:
    """Settle the circuit of every selected pair: states of the output rows [outputs, H, R, K]."""
    # Made contiguous here and not in `forward`: gradients of gradients must find the tensors it was given.
    return _Settle.apply(*(x.contiguous() for x in (query, key, weight, constant, index)), circuit)


class _Settle(torch.autograd.Function):
    """`settle_selected`; stores no neuron, and settles the circuit again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        *inputs, circuit = args
        ctx.save_for_backward(*inputs)
        ctx.circuit = circuit
        query, *_, index = inputs
        out = query.new_empty(circuit.outputs, *index.shape)
        _call("forward", circuit, inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        saved = ctx.saved_tensors  # read once: under checkpointing a second time is an error
        *inputs, index = saved
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            return (*torch_grads(partial(_settle, ctx.circuit, index), inputs, grad), None, None)
        grads = [torch.zeros_like(x) for x in inputs]
        _call("backward", ctx.circuit, saved, grad.contiguous(), *grads)
        return (*grads, None, None)


def _settle(
    circuit: Circuit, index: Tensor, query: Tensor, key: Tensor, weight: Tensor, constant: Tensor
) -> Tensor:
    """`settle_selected` by PyTorch's own operators, row by row."""
    heads = torch.arange(len(index))[:, None, None]
    drive = query.unsqueeze(2) + key[heads, index]  # [H, R, K, P]
    return evaluate(circuit.program, circuit.outputs, circuit.activation, drive, weight, constant).movedim(-1, 0)


def _call(name: str, circuit: Circuit, inputs: Sequence[Tensor], *tensors: Tensor) -> None:
    query, key, weight, constant, index = inputs
    pairs = _Pairs(
        query.shape[0], query.shape[1], key.shape[1], index.shape[2], weight.shape[0],
        query.data_ptr(), key.data_ptr(), index.data_ptr(), weight.data_ptr(), constant.data_ptr(),
    )  # fmt: skip
    call(name, query.dtype, circuit.struct(), pairs, *tensors)
