"""Measure streamed steps, into results/speed-stream.json: python tools/bench_stream.py [STREAMS ROUNDS].

One stream and many at once, with 4,096 remembered steps, by the kernel and in PyTorch, beside dot-product
attention that reads the last 4,096 steps again for each new one. What is compared runs in turns in one process;
compare the ratios.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from measured import in_turns, provenance, write_result
from torch import Tensor

import nacre
from nacre.native import library

STREAMS, ROUNDS = 1000, 200
LENGTH, D_MODEL, HEADS = 4096, 64, 4
SOME = 64  # streams for PyTorch alone, whose rounds would take long
MODELS = ("nac", "nac-plus")


class Streams:
    """Streams of a layer that remember as many steps as they can."""

    def __init__(self, model: str, count: int, *, kernel: bool = True) -> None:
        self.layer = nacre.create(model, d_input=D_MODEL, d_model=D_MODEL, num_heads=HEADS, causal=True).eval()
        assert isinstance(self.layer, nacre.NAC)
        state = self.layer.init_state(count, max_len=LENGTH, overflow="slide")
        for part in (state.key, state.value, state.offered, state.centroid):
            part.normal_()
        state.stamp.copy_(
            torch.arange(state.stamp[0].numel(), dtype=torch.float64).view_as(state.stamp[0]) / LENGTH
        )
        self.state = state._replace(length=state.length + LENGTH)
        self.x = torch.randn(count, D_MODEL)
        self.time = torch.full((count,), 2.0, dtype=torch.float64)
        self.kernel = kernel

    def step(self) -> None:
        """One more step of every stream."""
        assert isinstance(self.layer, nacre.NAC)
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if not self.kernel:
                stack.enter_context(library.switched_off())
            _, self.state = self.layer.step(self.x, self.state, time=self.time)


def window() -> Callable[[], Tensor]:
    """Dot-product attention of the newest step over the window, and all other steps with it."""
    layer = nacre.create("sdpa", d_input=D_MODEL, d_model=D_MODEL, num_heads=HEADS).eval()
    x = torch.randn(1, LENGTH, D_MODEL)
    return torch.inference_mode()(partial(layer, x))


def main() -> None:
    """Measure and write."""
    streams, rounds = map(int, sys.argv[1:] or (STREAMS, ROUNDS))
    torch.manual_seed(0)
    result: dict[str, Any] = provenance()
    size = {"remembered": LENGTH, "d_model": D_MODEL, "num_heads": HEADS, "streams": streams, "rounds": rounds}
    result["size"] = size
    result["one"] = in_turns(
        {
            **{model: Streams(model, 1).step for model in MODELS},
            **{f"{model} in PyTorch": Streams(model, 1, kernel=False).step for model in MODELS},
        },
        rounds,
    )
    result["window"] = in_turns({"sdpa": window()}, max(3, rounds // 40))
    many = {model: Streams(model, streams).step for model in MODELS}
    many |= {f"{model} in PyTorch": Streams(model, SOME, kernel=False).step for model in MODELS}
    result["many"] = in_turns(many, max(3, rounds // 20))
    for model in MODELS:
        result["many"][f"{model} in PyTorch"] *= streams / SOME
    write_result("speed-stream.json", result)


if __name__ == "__main__":
    main()
