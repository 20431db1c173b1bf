"""The nonlinearities that neurons may have: one record each, which layers, kernels and certificates read."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Nonlinearity(NamedTuple):
    """A nonlinearity.

    Attributes:
        function: What it computes, element by element.
        low: Its lower bound.
        high: Its upper bound.
        span: The width between bounds that counts as 100 % where saturation is judged: of one that has a single
            bound, the part that is bent. 0 where neurons cannot saturate.
        code: Its number in circuit.h, where slopes follow from values; None if the kernel does not know it, so
            that layers with it run in PyTorch.
    """

    function: Callable[[Tensor], Tensor]
    low: float = -math.inf
    high: float = math.inf
    span: float = 0.0
    code: int | None = None

    @property
    def limit(self) -> float:
        """Largest size of what it gives."""
        return max(-self.low, self.high)


ACTIVATIONS: dict[str, Nonlinearity] = {
    "tanh": Nonlinearity(torch.tanh, -1.0, 1.0, span=2.0, code=0),
    "sigmoid": Nonlinearity(torch.sigmoid, 0.0, 1.0, span=1.0, code=1),
    "relu": Nonlinearity(torch.relu, low=0.0, code=2),
    "elu": Nonlinearity(nn.functional.elu, low=-1.0, span=1.0),
    "gelu": Nonlinearity(nn.functional.gelu, low=-0.17),
    "silu": Nonlinearity(nn.functional.silu, low=-0.2785),
    "softsign": Nonlinearity(nn.functional.softsign, -1.0, 1.0, span=2.0, code=3),
    "identity": Nonlinearity(lambda x: x, code=4),
}
