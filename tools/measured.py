"""What measuring tools share: times of actions in turns, and how a result is written under results/."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import nacre._util.provenance
from nacre._util.files import write_atomic
from nacre._util.text import json_text

RESULTS = Path(__file__).parents[1] / "results"


def provenance() -> dict[str, Any]:
    """As of a nacre command, but with the name of the tool."""
    return nacre._util.provenance.provenance() | {"command": f"python tools/{Path(sys.argv[0]).name}"}


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write a file under results/."""
    target = RESULTS / name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, json_text(result).encode())
    sys.stdout.write(f"wrote {target}\n")
    return target


def in_turns(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each action; they run in turns, so that a busy machine slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for i in range(rounds + 1):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if i:  # the first round warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def forward(layer: nn.Module, *args: Tensor, **options: Tensor) -> None:
    """A forward pass without gradients."""
    with torch.inference_mode():
        layer(*args, **options)


def step(layer: nn.Module, *args: Tensor, **options: Tensor) -> None:
    """A training step without the optimiser."""
    layer(*args, **options).sum().backward()
    layer.zero_grad()
