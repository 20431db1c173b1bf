"""`run_step`: one step of many streams by one call of a compiled kernel."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property

import torch
from torch import Tensor

from nacre.native.library import call
from nacre.native.pairs import PairOptions, PairsStruct
from nacre.native.program import Circuit

_SIZES = ("inputs", "match_width", "near", "wanted", "activation", "owners")
_RING = ("key", "value", "stamp", "offered", "centroid", "origin", "length", "owner")


class Refusal(IntEnum):
    """What the kernel says; as in step.cpp."""

    FINE = 0
    REFUSED = 1
    """A stream cannot take this step, or belongs to other weights; nothing was written."""
    STALE = 2
    """The weights are no longer those that were laid out; nothing was written."""


@dataclass(frozen=True)
class StepWeights:
    """Weights of a layer: H heads of width D, F inputs, P columns of the circuit, C = H or 1 circuits."""

    sensory: Tensor  # [F, 3 H D] of queries, keys and values
    sensory_bias: Tensor  # [3 H D]
    sensory_scale: Tensor  # [3 H D] output map
    sensory_shift: Tensor  # [3 H D]
    by_query: Tensor  # [C, D, P] drive of the circuit
    by_key: Tensor  # [C, D, P]
    drive_bias: Tensor  # [C, P]
    gain: Tensor | None  # [H] of the match
    time_weight: Tensor | None  # [H, 2 D, 2]
    time_bias: Tensor | None  # [H, 2]
    out_weight: Tensor  # [H D, H D] from input to output
    out_bias: Tensor  # [H D]
    periods: Tensor  # [scales] float64, of the clock


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        *((field.name, ctypes.c_void_p) for field in fields(StepWeights)),
        *((name, ctypes.c_void_p) for name in ("owner", "owner_size", "laid_owner")),
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("streams", "blocks", "size", "limit")),
        *((name, ctypes.c_void_p) for name in _RING),
    )


@dataclass(frozen=True)
class StepPlan:
    """A layer laid out for many steps."""

    weights: StepWeights
    circuit: Circuit
    synapses: Tensor  # [C, synapses] in the program's order
    constant: Tensor  # [C, constants]
    scale: Tensor  # [C, 2 or 3] output map of the motor neurons
    shift: Tensor  # [C, 2 or 3]
    options: PairOptions
    heads: int
    selected: int  # keys of a query
    near: int
    reach: int  # keys with which a query is compared
    activation: int  # of sensory neurons, as in circuit.h
    owner: Sequence[Tensor]  # live weights, the first numbers of which tell whether the layer has changed
    laid_owner: Tensor  # these numbers as they were

    @cached_property
    def pairs(self) -> PairsStruct:
        """What the kernel knows of pairs, whatever the streams are."""
        width = self.weights.by_query.shape[1]
        return PairsStruct(
            heads=self.heads,
            selected=self.selected,
            weight_heads=len(self.synapses),
            motors=self.scale.shape[1],
            value_width=width,
            match_width=0 if self.weights.gain is None else width,
            scales=len(self.weights.periods),
            stamp_heads=self.heads,
            **vars(self.options),
            weight=self.synapses.data_ptr(),
            constant=self.constant.data_ptr(),
            scale=self.scale.data_ptr(),
            shift=self.shift.data_ptr(),
        )

    @cached_property
    def _owner_arrays(self) -> tuple[ctypes.Array[ctypes.c_void_p], ctypes.Array[ctypes.c_int64]]:
        count = len(self.owner)
        sizes = (ctypes.c_int64 * count)(*(min(4, x.numel()) for x in self.owner))
        return (ctypes.c_void_p * count)(*(x.data_ptr() for x in self.owner)), sizes

    def layer(self, block: int, blocks: int) -> ctypes.Structure:
        """The weights, for rings of this many blocks."""
        wanted = min(-(-max(self.selected, self.reach) // block), blocks)
        weights, (owner, counts) = self.weights, self._owner_arrays
        sizes = (
            weights.sensory.shape[0],
            self.pairs.match_width,
            self.near,
            wanted,
            self.activation,
            len(owner),
        )
        pointers = (None if x is None else x.data_ptr() for x in vars(weights).values())
        ends = ctypes.addressof(owner), ctypes.addressof(counts), self.laid_owner.data_ptr()
        return _Layer(*sizes, *pointers, *ends)


def run_step(plan: StepPlan, state: dict[str, Tensor], x: Tensor, time: Tensor | None) -> tuple[Refusal, Tensor]:
    """Output [B, H D] of the newest step [B, F] of each stream, and whether there is one.

    Args:
        plan: The layer.
        state: Contiguous tensors of `StreamState` by name. They are written to, but for the length.
        x: [B, F] in the precision of the layer.
        time: [B] float64, or None.
    """
    blocks, size = state["stamp"].shape[1:]
    y = torch.empty(len(x), plan.weights.out_bias.shape[0], dtype=x.dtype)
    memory = _Memory(len(x), blocks, size, int(state["limit"]), *(state[name].data_ptr() for name in _RING))
    structs = plan.circuit.struct(), plan.pairs, plan.layer(size, blocks), memory
    return Refusal(call("step", x.dtype, *structs, x, time, y)), y
