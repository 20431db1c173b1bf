"""When values may be read, and when only PyTorch's own operators run."""

import torch
from torch.func import grad, vmap

from nacre._util.tracing import inside_torch_func, values_are_hidden


def test_what_the_transforms_hide():
    seen = []

    def look(x):
        seen.append((values_are_hidden(), inside_torch_func()))
        return x.sum()

    x = torch.ones(3)
    look(x)
    grad(look)(x)
    vmap(look)(x[None])
    vmap(grad(look))(x[None])
    assert seen == [(False, False), (False, True), (True, True), (True, True)]
