"""Measure what each step towards speed bought, into results/speed-steps.json: python tools/bench_steps.py.

What is compared runs in turns in one process; compare the ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from measured import forward, in_turns, provenance, step, write_result
from torch import Tensor

import nacre
from nacre.bench.entries import TorchAttention

ROUNDS = 15
LENGTH, D_MODEL, HEADS = 1024, 64, 4
KERNELS = {"pairs": "nacre.native.pairs", "selection": "nacre.layer.selection.blocks"}
NO_KERNELS = SimpleNamespace(runs=lambda *tensors: False)


@contextmanager
def with_kernels(*wanted: str) -> Iterator[None]:
    """Use only these kernels, and PyTorch for the rest."""
    with ExitStack() as stack:
        for name, module in KERNELS.items():
            if name not in wanted:
                stack.enter_context(mock.patch(f"{module}.library", NO_KERNELS))
        yield


def kernels(act: Callable[..., None], x: Tensor) -> dict[str, Callable[[], None]]:
    """One kernel after the other, beside MultiheadAttention."""
    layer = nacre.NAC(D_MODEL, HEADS)

    def run(count: int) -> None:
        with with_kernels(*list(KERNELS)[:count]):
            act(layer, x)

    actions = {"PyTorch alone": partial(run, 0)}
    actions |= {f"+ {name}": partial(run, i) for i, name in enumerate(KERNELS, start=1)}
    return {**actions, "MultiheadAttention": partial(act, TorchAttention(D_MODEL, HEADS), x)}


def sparsities(act: Callable[..., None], x: Tensor) -> dict[str, Callable[[], None]]:
    """Layers with fewer and fewer synapses."""
    return {f"{s}": partial(act, nacre.NAC(D_MODEL, HEADS, sparsity=s), x) for s in (0.0, 0.2, 0.5, 0.9)}


def padding(act: Callable[..., None]) -> dict[str, Callable[[], None]]:
    """32 sequences of 256 steps, of which 53 are valid on average, as in event-based MNIST."""
    layer = nacre.NAC(D_MODEL, HEADS)
    x, stamps = torch.randn(32, 256, D_MODEL), torch.rand(32, 256).cumsum(1)
    valid = torch.arange(37, 69)  # mean 53 to the nearest whole number
    mask = torch.arange(256) >= valid[torch.randperm(32)].unsqueeze(1)
    return {
        "without mask": partial(act, layer, x, time=stamps),
        "with mask": partial(act, layer, x, time=stamps, key_padding_mask=mask),
    }


def main() -> None:
    """Measure and write."""
    torch.manual_seed(0)
    x = torch.randn(1, LENGTH, D_MODEL)
    result: dict[str, Any] = provenance()
    result["size"] = {"length": LENGTH, "d_model": D_MODEL, "num_heads": HEADS, "batch": 1, "rounds": ROUNDS}
    # Training first: it makes the heap keep memory. Without that, forward passes in PyTorch alone take half as
    # long again, and the kernels would look better than they are.
    for name, act in (("step", step), ("forward", forward)):
        parts = {"kernels": kernels(act, x), "sparsity": sparsities(act, x), "padding": padding(act)}
        result[name] = {
            part: {what: round(1e3 * seconds, 2) for what, seconds in in_turns(actions, ROUNDS).items()}
            for part, actions in parts.items()
        }
    write_result("speed-steps.json", result)


if __name__ == "__main__":
    main()
