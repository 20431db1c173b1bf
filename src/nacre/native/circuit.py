"""`settle_selected`: motor neurons of every selected pair by the compiled kernel, forward and backward."""

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nacre.native.activations import ACTIVATION_CODES
from nacre.native.library import call
from nacre.native.program import Program, evaluate

_POINTER = ctypes.c_void_p


class _Program(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in ("rows", "outputs", "columns", "constants", "synapses", "activation")
        ),
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
    """A program with what else the kernel needs to know of it; plain arrays, so that layers can be copied."""

    program: Program
    outputs: int  # rows that are read out, the last ones
    columns: int  # of the input drive
    constants: int  # neurons that have a bias
    activation: str  # a name in `ACTIVATION_CODES`

    @functools.cached_property
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
    query: Tensor, key: Tensor, weight: Tensor, constant: Tensor, index: Tensor, circuit: Circuit
) -> Tensor:
    """Settle the circuit of every selected pair.

    Args:
        query: [H, R, P] input drive by queries.
        key: [H, S, P] by keys.
        weight: [H or 1, synapses] in the program's order.
        constant: [H or 1, constants].
        index: [H, R, K] selected rows of key.
        circuit: The program.

    Returns:
        States of the output rows [outputs, H, R, K].
    """
    # Here and not inside the function below, whose gradients of gradients must find the tensors it was given.
    return _Settle.apply(*(x.contiguous() for x in (query, key, weight, constant, index)), circuit)


class _Settle(torch.autograd.Function):
    """`settle_selected`; backward computes the circuit again and stores no neuron."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:  # noqa: ANN401
        """Call the kernel."""
        *inputs, circuit = args
        ctx.save_for_backward(*inputs)
        ctx.circuit = circuit
        query, *_, index = inputs
        out = query.new_empty(circuit.outputs, *index.shape)
        _call("forward", circuit, inputs, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        """Gradients by query, key, weight and constant."""
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            made = _differentiable_grads(ctx.circuit, ctx.saved_tensors, grad)
            return (*made, None, None)
        grads = [torch.zeros_like(x) for x in ctx.saved_tensors[:4]]
        _call("backward", ctx.circuit, ctx.saved_tensors, grad.contiguous(), *grads)
        return (*grads, None, None)


def _differentiable_grads(circuit: Circuit, inputs: Sequence[Tensor], grad: Tensor) -> list[Tensor | None]:
    """The gradients by PyTorch's own operators, row by row."""
    query, key, weight, constant, index = inputs
    heads = torch.arange(len(index))[:, None, None]
    drive = query.unsqueeze(2) + key[heads, index]  # [H, R, K, P]
    out = evaluate(circuit.program, circuit.outputs, circuit.activation, drive, weight, constant).movedim(-1, 0)
    wanted = [x for x in inputs[:4] if x.requires_grad]
    made = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
    return [next(made) if x.requires_grad else None for x in inputs[:4]]


def _call(name: str, circuit: Circuit, inputs: Sequence[Tensor], *tensors: Tensor) -> None:
    query, key, weight, constant, index = inputs
    pairs = _Pairs(
        query.shape[0], query.shape[1], key.shape[1], index.shape[2], weight.shape[0],
        query.data_ptr(), key.data_ptr(), index.data_ptr(), weight.data_ptr(), constant.data_ptr(),
    )  # fmt: skip
    call(name, query.dtype, circuit.struct(), pairs, *tensors)
