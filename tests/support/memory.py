"""How much memory a block takes."""

import tracemalloc
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode


class _Tensors(TorchFunctionMode):
    """Adds up the bytes of all tensors that functions return, freed or not, views or not."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if type(x) in (torch.Tensor, torch.nn.Parameter):
                self.bytes += torch._C._TensorBase.numel(x) * torch._C._TensorBase.element_size(x)
        return out


@contextmanager
def takes_at_most(megabytes):
    """What torch makes in all, and the peak of what Python and numpy allocate, stay below that."""
    tracemalloc.start()
    try:
        with _Tensors() as tensors:
            yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tensors.bytes < megabytes * 1e6
    assert peak < megabytes * 1e6
