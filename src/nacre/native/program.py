"""A backbone as a program of rows, and its view for the compiled kernel, which visits synapses one by one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nacre.native.activations import ACTIVATIONS

if TYPE_CHECKING:
    from nacre.layer.backbone import Stage

_SIZES = ("rows", "columns", "constants", "synapses", "activation")
_ARRAYS = ("kind", "base", "active", "start", "source", "out_start", "out_target", "out_synapse")


class Base(IntEnum):
    """What a row starts from, before its synapses are added."""

    DRIVE = 0
    """A column of the input drive."""
    CONSTANT = 1
    """A neuron's bias."""
    ROW = 2
    """An earlier row."""
    CLOCK = 3
    """A clock neuron."""


@dataclass(frozen=True)
class Program:
    """Rows in the order of computation; the last ones are the outputs.

    A row is one neuron at one settle step, the constant input of a neuron (not activated), or a clock neuron (not
    activated). Arrays are int32.
    """

    kind: np.ndarray  # [rows] `Base`
    base: np.ndarray  # [rows] drive column, neuron, row or clock neuron
    active: np.ndarray  # [rows] whether the activation applies
    target: np.ndarray  # [synapses] row that a synapse leads to, ascending
    source: np.ndarray  # [synapses] row that it comes from
    weight: np.ndarray  # [synapses] index of its weight: see `compile_rows`
    neuron: np.ndarray  # [rows] id of the neuron; -1 of clock neurons


def compile_rows(
    polarity: np.ndarray,
    clock: np.ndarray,
    projected: tuple[int, ...],
    once: tuple[int, ...],
    stages: tuple[Stage, ...],
) -> Program:
    """What `WiredBackbone.settle` computes, row by row.

    Takes the recurrent synapses [N, N], those of clock neurons [C, N], the neurons of the columns of the input
    drive, the neurons computed once, and the stages. Weights are numbered as the existing recurrent synapses and,
    after them, all of [C, columns].
    """
    number = np.full(polarity.shape, -1)
    number[polarity != 0] = np.arange(np.count_nonzero(polarity))
    recurrent = int(np.count_nonzero(polarity))
    column = {neuron: i for i, neuron in enumerate(projected)}
    rows: list[tuple[Base, int, bool, int]] = []
    synapses: list[tuple[int, int, int]] = []  # target row, source row, weight

    def add(kind: Base, base: int, neuron: int, inputs: dict[int, int], *, active: bool) -> int:
        rows.append((kind, base, active, neuron))
        row = len(rows) - 1
        if kind == Base.DRIVE:  # clock neuron i is row i
            ticks = np.flatnonzero(clock[:, neuron])
            synapses.extend((row, int(i), recurrent + int(i) * len(projected) + base) for i in ticks)
        sources = (i for i in sorted(inputs) if number[i, neuron] >= 0)
        synapses.extend((row, inputs[i], int(number[i, neuron])) for i in sources)
        return row

    rows.extend((Base.CLOCK, i, False, -1) for i in range(len(clock)))
    row_of_once = {n: add(Base.DRIVE, column[n], n, {}, active=True) for n in once}
    held: dict[int, int] = {}  # neuron -> row with its constant input
    before: dict[int, int] = {}
    for stage in stages:
        starts = {n: (Base.DRIVE, column[n]) if stage.fed else (Base.CONSTANT, n) for n in stage.neurons}
        if stage.from_once:
            new = [n for n in stage.neurons if n not in held]
            held |= {n: add(*starts[n], n, row_of_once, active=False) for n in new}
            starts = {n: (Base.ROW, held[n]) for n in stage.neurons}
        inputs = before if stage.from_before else {}
        before = {n: add(*start, n, inputs, active=True) for n, start in starts.items()}
    table = np.array(synapses, dtype=np.int32).reshape(-1, 3)
    kinds, bases, active, neurons = (np.array(values, dtype=np.int32) for values in zip(*rows, strict=True))
    return Program(kinds, bases, active, *np.ascontiguousarray(table.T), neuron=neurons)


def evaluate(
    program: Program,
    activation: str,
    drive: Tensor,
    clock: Tensor | None,
    weight: Tensor,
    constant: Tensor,
) -> Tensor:
    """All rows [rows, H, ...] of a program in PyTorch: slow, but differentiable any number of times.

    Takes drive [H, ..., P], clock neurons [H, ..., C], weight [H or 1, synapses] and constant [H or 1, N].
    """
    each = (-1, *[1] * (drive.dim() - 2))  # one number a head
    starts = np.searchsorted(program.target, np.arange(len(program.kind) + 1))
    rows: list[Tensor] = []
    for i, (kind, base) in enumerate(zip(program.kind, program.base, strict=True)):
        if kind == Base.DRIVE:
            x = drive[..., base]
        elif kind == Base.ROW:
            x = rows[base]
        elif kind == Base.CLOCK:
            assert clock is not None
            x = clock[..., base].to(drive.dtype)
        else:
            x = constant[:, base].view(each).expand(drive.shape[:-1])
        synapses = slice(starts[i], starts[i + 1])
        if synapses.start < synapses.stop:
            inputs = torch.stack([rows[j] for j in program.source[synapses]], -1)
            x = x + (inputs * weight[:, synapses].view(*each, synapses.stop - synapses.start)).sum(-1)
        rows.append(ACTIVATIONS[activation].function(x) if program.active[i] else x)
    return torch.stack(rows)


class CircuitStruct(ctypes.Structure):
    """`Program` of circuit.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    )


@dataclass(frozen=True)
class Circuit:
    """A program and its sizes; plain arrays, so that layers can be copied."""

    program: Program
    columns: int  # of the input drive
    constants: int  # neurons that have a bias
    activation: str

    @property
    def has_kernel(self) -> bool:
        """Whether the kernel knows the activation."""
        return ACTIVATIONS[self.activation].code is not None

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

    def struct(self) -> CircuitStruct:
        """The kernel's view of the arrays."""
        sizes = (len(self.program.kind), self.columns, self.constants, len(self.program.source))
        pointers = {name: array.ctypes.data for name, array in self.arrays.items()}
        return CircuitStruct(*sizes, ACTIVATIONS[self.activation].code, **pointers)
