"""The nonlinearities that neurons may have."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "softsign": nn.functional.softsign,
    "identity": lambda x: x,
}

# Those of circuit.h, whose slope follows from their value; layers with another one run in PyTorch.
ACTIVATION_CODES = {"tanh": 0, "sigmoid": 1, "relu": 2, "softsign": 3, "identity": 4}
