"""Measure what each step towards speed bought, into results/speed-steps.json: python tools/bench_steps.py.

What is compared runs in turns in one process, so that a busy machine slows all of it; compare the ratios.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from provenance import provenance, write_result
from torch import Tensor, nn

import nacre

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 15
LENGTH, D_MODEL, HEADS = 1024, 64, 4
KERNELS = {"circuits": "nacre.layer.backbone", "selection": "nacre.layer.selection", "mixing": "nacre.layer.pairs"}
NO_KERNELS = SimpleNamespace(runs=lambda *tensors: False)


@contextmanager
def with_kernels(*wanted: str) -> Iterator[None]:
    """Use only these kernels, and PyTorch for the rest."""
    with ExitStack() as stack:
        for name, module in KERNELS.items():
            if name not in wanted:
                stack.enter_context(mock.patch(f"{module}.library", NO_KERNELS))
        yield


def forward(layer: nn.Module, *args: Tensor, **options: Tensor) -> None:
    """A forward pass without gradients."""
    with torch.inference_mode():
        layer(*args, **options)


def step(layer: nn.Module, *args: Tensor, **options: Tensor) -> None:
    """A training step without the optimiser."""
    layer(*args, **options).sum().backward()
    layer.zero_grad()


def in_turns(actions: dict[str, Callable[[], None]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median milliseconds of each."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for i in range(rounds + 1):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if i:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    return {name: round(1e3 * statistics.median(values), 2) for name, values in times.items()}


def kernels(act: Callable[..., None], x: Tensor) -> dict[str, float]:
    """One kernel after the other, beside MultiheadAttention."""
    layer = nacre.NAC(D_MODEL, HEADS)
    attention = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    steps: dict[str, tuple[str, ...]] = {"PyTorch alone": ()}
    for i, name in enumerate(KERNELS, start=1):
        steps[f"+ {name}"] = tuple(KERNELS)[:i]

    def run(wanted: tuple[str, ...]) -> None:
        with with_kernels(*wanted):
            act(layer, x)

    actions = {name: partial(run, wanted) for name, wanted in steps.items()}
    return in_turns({**actions, "MultiheadAttention": partial(act, _Attention(attention), x)})


class _Attention(nn.Module):
    """MultiheadAttention of one input."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def sparsities(act: Callable[..., None], x: Tensor) -> dict[str, float]:
    """Layers with fewer and fewer synapses."""
    layers = {f"{s}": nacre.NAC(D_MODEL, HEADS, sparsity=s) for s in (0.0, 0.2, 0.5, 0.9)}
    return in_turns({name: partial(act, layer, x) for name, layer in layers.items()})


def padding(act: Callable[..., None]) -> dict[str, float]:
    """32 sequences of 256 steps, of which 53 are valid on average, as in event-based MNIST."""
    layer = nacre.NAC(D_MODEL, HEADS)
    x, stamps = torch.randn(32, 256, D_MODEL), torch.rand(32, 256).cumsum(1)
    valid = torch.arange(37, 69)  # mean 53 to the nearest whole number
    mask = torch.arange(256) >= valid[torch.randperm(32)].unsqueeze(1)
    return in_turns(
        {
            "without mask": partial(act, layer, x, time=stamps),
            "with mask": partial(act, layer, x, time=stamps, key_padding_mask=mask),
        }
    )


def main() -> None:
    """Measure and write."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    x = torch.randn(1, LENGTH, D_MODEL)
    result: dict[str, Any] = provenance("python tools/bench_steps.py")
    result["size"] = {"length": LENGTH, "d_model": D_MODEL, "num_heads": HEADS, "batch": 1, "rounds": ROUNDS}
    # Training first: it makes the heap keep memory. Without that, forward passes in PyTorch alone take half as
    # long again, and the kernels would look better than they are.
    for name, act in (("step", step), ("forward", forward)):
        result[name] = {"kernels": kernels(act, x), "sparsity": sparsities(act, x), "padding": padding(act)}
    print(f"wrote {write_result('speed-steps.json', result)}")  # noqa: T201


if __name__ == "__main__":
    main()
