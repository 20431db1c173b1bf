"""`Circuit`: a program and its sizes, as the compiled kernel sees them."""

import ctypes
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nacre.native.activations import ACTIVATIONS
from nacre.native.program import Program

_SIZES = ("rows", "columns", "constants", "synapses", "activation")
_ARRAYS = ("kind", "base", "active", "start", "source", "out_start", "out_target", "out_synapse")


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
