"""Forward and training-step times of NAC and `torch.nn.MultiheadAttention`, interleaved in one run."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nacre.attention import NAC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Timing:
    """Times of one model, in seconds."""

    name: str
    forward: float  # median
    forward_spread: float  # distance between the quartiles
    step: float  # forward and backward
    step_spread: float
    parameters: int


class TorchAttention(nn.Module):
    """`torch.nn.MultiheadAttention` as self attention on its fused kernel."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, T, d_model]."""
        return self.attention(x, x, x, need_weights=False)[0]


def measure(length: int = 1024, d_model: int = 64, num_heads: int = 4, rounds: int = 11) -> list[Timing]:
    """Time both models at batch 1.

    The rounds alternate between the models, so that a busy machine slows both; compare ratios, not seconds.

    Args:
        length: Steps of the sequence.
        d_model: Width.
        num_heads: Heads.
        rounds: Timed rounds after one to warm up.
    """
    torch.manual_seed(0)
    models: Mapping[str, nn.Module] = {
        "torch.nn.MultiheadAttention": TorchAttention(d_model, num_heads),
        "nacre.NAC": NAC(d_model, num_heads),
    }
    x = torch.randn(1, length, d_model)

    def forward(model: nn.Module) -> None:
        with torch.inference_mode():
            model(x)

    def step(model: nn.Module) -> None:
        model(x).sum().backward()

    seconds = {name: ([], []) for name in models}
    for i in range(rounds + 1):
        for name, model in models.items():
            for times, action in zip(seconds[name], (forward, step), strict=True):
                taken = _clock(action, model)
                if i:  # the first round warms up
                    times.append(taken)
    return [
        Timing(
            name, *_summary(seconds[name][0]), *_summary(seconds[name][1]), sum(p.numel() for p in m.parameters())
        )
        for name, m in models.items()
    ]


def _clock(action: Callable[[nn.Module], None], model: nn.Module) -> float:
    start = time.perf_counter()
    action(model)
    return time.perf_counter() - start


def _summary(times: list[float]) -> tuple[float, float]:
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, high - low
