"""Measures one action of one entry, in a process of its own: `python -m nacre.bench.worker`.

The request is one JSON object on stdin. The answer comes in parts, each a JSON object on a line of stdout as soon
as it is known, so that what was measured survives the end of the process: parameters, peak memory, and times after
every round. Memory comes first, while the process holds nothing but the model.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nacre.bench.entries import build
from nacre.bench.record import MIN_ROUNDS, Action, BenchEntry
from nacre.bench.system import die_first, die_with_parent, peak_of

WARM_UP_LENGTH = 64
MAX_ROUNDS = 200
NO_PEAK = "peak memory is not known: the kernel's high-water mark cannot be reset here"

Emit = Callable[[dict[str, Any]], None]  # takes a part of the answer
Inputs = tuple[Tensor, ...]  # x [B, T, d_model], and stamps [B, T] where the entry has them
Act = Callable[[nn.Module, Inputs], None]


@dataclass(frozen=True)
class Request:
    """What a worker is asked for."""

    entry: BenchEntry
    action: Action
    reference: str | None  # the model that is timed beside it, in turns
    budget: float  # seconds of timing after which no further round starts
    threads: int | None = None  # of torch; None for its own choice

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """What `to_json` wrote."""
        data = json.loads(text)
        return cls(**{**data, "entry": BenchEntry(**data["entry"])})


def answer(request: Request, emit: Emit) -> None:
    """Measure, and emit the parts of the answer."""
    entry = request.entry
    model = build(entry.model, entry.d_model, entry.num_heads)
    emit({"parameters": sum(p.numel() for p in model.parameters())})
    inputs = _inputs(entry)
    act = _ACTIONS[request.action]
    act(
        model, tuple(part[:, :WARM_UP_LENGTH].contiguous() for part in inputs)
    )  # loads what is loaded on first use
    model.zero_grad()
    peak = peak_of(lambda: act(model, inputs))
    model.zero_grad()
    emit({"note": NO_PEAK} if peak is None else asdict(peak))
    reference = None
    if request.reference is not None:
        reference = build(request.reference, entry.d_model, entry.num_heads)
        _seconds(act, reference, inputs)  # the model has had its first run at this length, the reference has not
    timed_reference = reference and (lambda: _seconds(act, reference, inputs))
    _time(lambda: _seconds(act, model, inputs), timed_reference, request.budget, emit)


def _inputs(entry: BenchEntry) -> Inputs:
    x = torch.randn(entry.batch, entry.length, entry.d_model)
    if not entry.stamps:
        return (x,)
    return x, torch.rand(entry.batch, entry.length, dtype=torch.float64).sort(1).values


def _time(model: Callable[[], float], reference: Callable[[], float] | None, budget: float, emit: Emit) -> None:
    """Rounds of the reference, then the model: a busy machine slows both, and the ratio stays."""
    start = time.perf_counter()
    times, ratios = [], []
    while len(times) < MIN_ROUNDS or (len(times) < MAX_ROUNDS and time.perf_counter() - start < budget):
        before = None if reference is None else reference()
        times.append(model())
        if before is not None:
            ratios.append(times[-1] / before)
        emit(summary(times, ratios))


def summary(times: list[float], ratios: list[float]) -> dict[str, Any]:
    """Median, interquartile range, and the median ratio."""
    spread = None
    if len(times) > 1:
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        spread = high - low
    return {
        "seconds": statistics.median(times),
        "spread": spread,
        "rounds": len(times),
        "ratio": statistics.median(ratios) if ratios else None,
    }


def _forward(model: nn.Module, inputs: Inputs) -> None:
    model.eval()
    with torch.inference_mode():
        model(*inputs)


def _step(model: nn.Module, inputs: Inputs) -> None:
    model.train()
    model(*inputs).sum().backward()


_ACTIONS: dict[str, Act] = {"forward": _forward, "step": _step}


def _seconds(act: Act, model: nn.Module, inputs: Inputs) -> float:
    start = time.perf_counter()
    act(model, inputs)
    taken = time.perf_counter() - start
    model.zero_grad()  # frees the gradients
    return taken


def main() -> None:
    """Answer the request on stdin."""
    die_with_parent()
    die_first()
    request = Request.from_json(sys.stdin.read())
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what a library prints must not mix with the answers

        def emit(part: dict[str, Any]) -> None:
            out.write(json.dumps(part) + "\n")
            out.flush()

        answer(request, emit)


if __name__ == "__main__":
    main()
