"""`attend_selected`: the pair stage of a layer by one compiled kernel, forward and backward."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from nacre.native import library
from nacre.native.library import call, torch_grads
from nacre.native.program import Circuit

# As in gates.h.
PHI_CODES = {"sigmoid": 0, "tanh": 1, "linear": 2}
MODE_CODES = {"exact": 0, "euler": 1, "steady": 2}
_SIZES = ("heads", "queries", "keys", "selected", "weight_heads", "motors")
_WIDTHS = ("value_width", "match_width", "scales", "stamp_heads")
_CODES = ("phi", "mode", "match", "euler_steps", "integrate")
_NUMBERS = ("omega_min", "time_scale", "longest")


@dataclass(frozen=True)
class PairOptions:
    """Options of the pair stage; codes as in gates.h."""

    phi: int
    mode: int
    match: int  # 0: none, 1: added to phi, 2: where a logit starts
    euler_steps: int
    integrate: bool
    omega_min: float
    time_scale: float
    longest: float  # elapsed times beyond it count as this


@dataclass(frozen=True)
class LearnedInputs:
    """What has gradients: H heads, R queries, S keys, P columns."""

    query: Tensor  # [H, R, P] drive of the circuit by queries
    key: Tensor  # [H, S, P]
    value: Tensor  # [S, H, D]
    query_gate: Tensor | None  # [H, 2, R] share of t_a and t_b
    key_gate: Tensor | None  # [H, 2, S]
    asked: Tensor | None  # [R, H, E]
    offered: Tensor | None  # [S, H, E]
    weight: Tensor  # [H or 1, synapses] in the program's order
    constant: Tensor  # [H or 1, constants]
    scale: Tensor  # [H or 1, 2 or 3] output map of the motor neurons
    shift: Tensor  # [H or 1, 2 or 3]


@dataclass(frozen=True)
class FixedInputs:
    """What has none."""

    query_stamp: Tensor | None  # [R] float64
    key_stamp: Tensor | None  # [S] float64, or [H, S] where heads have their own keys
    query_phase: Tensor | None  # [R, 2 scales] cosines, then sines
    key_phase: Tensor | None  # [S, 2 scales] or [H, S, 2 scales]
    index: Tensor  # [H, R, K] rows of key
    valid: Tensor  # [H, R, K]
    keep: Tensor | None  # [H, R, K] factors of dropout


@dataclass(frozen=True)
class Seen:
    """What an observer sees; 0 in columns without a key."""

    phi: Tensor  # [H, R, K], as all but the last two
    omega: Tensor
    t: Tensor
    logits: Tensor
    weights: Tensor
    match: Tensor
    effect: Tensor
    clock: Tensor  # [H, R, K, 2 scales]
    states: Tensor  # [rows, H, R, K]


def _pointers(kind: type) -> list[str]:
    return [f.name for f in fields(kind)]


class PairsStruct(ctypes.Structure):
    """`Pairs` of pair_block.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in (*_SIZES, *_WIDTHS)),
        *((name, ctypes.c_int32) for name in _CODES),
        *((name, ctypes.c_double) for name in _NUMBERS),
        *((name, ctypes.c_void_p) for name in (*_pointers(LearnedInputs), *_pointers(FixedInputs))),
    )


class _Seen(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in _pointers(Seen))


class _Grads(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in _pointers(LearnedInputs))


@dataclass(frozen=True)
class PairStage:
    """The pair stage of one call but for what has gradients.

    `slowly` computes what `attend_seen` gives in PyTorch, for gradients that the kernel does not have.
    """

    circuit: Circuit
    options: PairOptions
    fixed: FixedInputs
    slowly: Callable[[LearnedInputs, FixedInputs], tuple[Tensor, Seen]]


def can_attend(learned: LearnedInputs, stage: PairStage) -> bool:
    """Whether the kernel can do it."""
    fixed = [x for x in vars(stage.fixed).values() if x is not None]
    tensors = [x for x in vars(learned).values() if x is not None]
    return (
        stage.circuit.has_kernel
        and not any(x.requires_grad for x in fixed)  # gradients of time stamps are PyTorch's
        and library.runs(*tensors)
    )


def attend_selected(learned: LearnedInputs, stage: PairStage) -> Tensor:
    """Attended values [R, H, D]."""
    return _Attend.apply(stage, *_contiguous(learned))


def attend_seen(learned: LearnedInputs, stage: PairStage) -> tuple[Tensor, Seen]:
    """The same bits, and every gate and neuron. Gradients are those of PyTorch, and as slow."""
    out, *seen = _AttendSeen.apply(stage, *_contiguous(learned))
    return out, Seen(*seen)


def _contiguous(learned: LearnedInputs) -> list[Tensor | None]:
    # Here and not in `forward`: gradients of gradients must find the tensors it was given.
    return [None if x is None else x.contiguous() for x in vars(learned).values()]


class _Attend(torch.autograd.Function):
    """`attend_selected`; stores nothing of a pair, and computes all again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, stage: PairStage, *tensors: Tensor | None) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(*tensors)
        ctx.stage = stage
        return _forward(LearnedInputs(*tensors), stage, None)  # pyright: ignore[reportArgumentType]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        tensors, stage = ctx.saved_tensors, ctx.stage  # read once: under checkpointing a second time is an error
        if torch.is_grad_enabled():  # create_graph=True asks for gradients that have gradients
            return (
                None,
                *torch_grads(lambda *x: stage.slowly(LearnedInputs(*x), stage.fixed)[:1], tensors, [grad]),
            )
        grads = [None if x is None else torch.zeros_like(x) for x in tensors]
        struct, held = _struct(LearnedInputs(*tensors), stage)  # pyright: ignore[reportArgumentType]
        pointers = _Grads(*(None if x is None else x.data_ptr() for x in grads))
        call("attend_back", grad.dtype, stage.circuit.struct(), struct, pointers, grad.contiguous())
        del held
        return (None, *grads)


class _AttendSeen(torch.autograd.Function):
    """`attend_seen`: attended values, then the fields of `Seen`."""

    @staticmethod
    def forward(ctx: Any, stage: PairStage, *tensors: Tensor | None) -> tuple[Tensor, ...]:  # noqa: ANN401
        ctx.save_for_backward(*tensors)
        ctx.stage = stage
        learned, index = LearnedInputs(*tensors), stage.fixed.index  # pyright: ignore[reportArgumentType]
        phase = stage.fixed.query_phase
        made = {name: learned.query.new_zeros(index.shape) for name in _pointers(Seen)}
        made["clock"] = learned.query.new_zeros(*index.shape, 0 if phase is None else phase.shape[1])
        made["states"] = learned.query.new_zeros(len(stage.circuit.program.kind), *index.shape)
        ctx.mark_non_differentiable(made["clock"])
        out = _forward(learned, stage, _Seen(*(x.data_ptr() for x in made.values())))
        return (out, *made.values())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        tensors, stage = ctx.saved_tensors, ctx.stage

        def outputs(*inputs: Tensor) -> list[Tensor]:
            out, seen = stage.slowly(LearnedInputs(*inputs), stage.fixed)
            return [out, *vars(seen).values()]

        return (None, *torch_grads(outputs, tensors, grads))


def _forward(learned: LearnedInputs, stage: PairStage, seen: ctypes.Structure | None) -> Tensor:
    out = learned.value.new_zeros(learned.query.shape[1], *learned.value.shape[1:])
    struct, held = _struct(learned, stage)
    call("attend", out.dtype, stage.circuit.struct(), struct, seen, out)
    del held
    return out


def _struct(learned: LearnedInputs, stage: PairStage) -> tuple[PairsStruct, list[Tensor | None]]:
    """The kernel's view of the inputs, and tensors that must live as long as it is used."""
    fixed = [None if x is None else x.detach().contiguous() for x in vars(stage.fixed).values()]
    tensors = [*vars(learned).values(), *fixed]
    index, phase, stamp = stage.fixed.index, stage.fixed.key_phase, stage.fixed.key_stamp
    apart = (stamp is not None and stamp.dim() > 1) or (phase is not None and phase.dim() > 2)
    heads, queries, selected = index.shape
    sizes = heads, queries, learned.key.shape[1], selected, *learned.scale.shape
    widths = (
        learned.value.shape[2],
        0 if learned.asked is None else learned.asked.shape[2],
        0 if phase is None else phase.shape[-1] // 2,
        heads if apart else 1,
    )
    pointers = (None if x is None else x.data_ptr() for x in tensors)
    return PairsStruct(*sizes, *widths, *vars(stage.options).values(), *pointers), tensors
