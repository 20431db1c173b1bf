"""Load the compiled kernels, and decide when they replace PyTorch."""

import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from nacre._util.tracing import inside_torch_func
from nacre.native.build import build

SWITCH = "NACRE_NATIVE"
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


_off = False


@contextmanager
def switched_off() -> Iterator[None]:
    """Compute in PyTorch what the kernels could do, to compare the two."""
    global _off
    before, _off = _off, True
    try:
        yield
    finally:
        _off = before


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where `NACRE_NATIVE=0`, or, with one warning, where they cannot be built."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        return ctypes.CDLL(str(build()))
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"nacre runs without its compiled kernels: equal results, several times slower. {error}. "
            f"Install a C++ compiler (g++ 12 or newer, or clang) if there is none; nacre doctor says what to do. "
            f"{SWITCH}=0 silences this.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def runs(*tensors: Tensor) -> bool:
    """Whether the kernels can work on these: tensors of one precision on the CPU, outside of any tracing."""
    return (
        all(type(x) in (Tensor, torch.nn.Parameter) for x in tensors)  # no subclass, such as a fake tensor
        and all(x.device.type == "cpu" and x.dtype == tensors[0].dtype for x in tensors)
        and tensors[0].dtype in _SUFFIX
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not inside_torch_func()
        and forward_ad._current_level < 0
        and not _off
        and library() is not None
    )


def torch_grads(
    function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients of a function that computes a kernel's outputs in PyTorch; if need be, they have gradients."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = [x if x is None or again else x.detach().requires_grad_(x.requires_grad) for x in inputs]
        wanted = [x for x in leaves if x is not None and x.requires_grad]
        outputs = [(x, grad) for x, grad in zip(function(*leaves), grads, strict=True) if x.requires_grad]
        ends, by_end = zip(*outputs, strict=True)
        made = iter(torch.autograd.grad(ends, wanted, by_end, create_graph=again, allow_unused=True))
    return [next(made) if x is not None and x.requires_grad else None for x in inputs]


def call(name: str, dtype: torch.dtype, *structs_and_tensors: ctypes.Structure | Tensor | None) -> int:
    """Call a kernel with pointers to its arguments, on as many threads as torch uses; gives what it returns."""
    function = getattr(library(), f"nacre_{name}_{_SUFFIX[dtype]}")
    return function(*map(_pointer, structs_and_tensors), ctypes.c_int(torch.get_num_threads()))


def _pointer(x: ctypes.Structure | Tensor | None) -> Any:  # noqa: ANN401  ctypes has no public type for what byref gives
    if x is None:
        return ctypes.c_void_p(None)
    return ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.byref(x)
