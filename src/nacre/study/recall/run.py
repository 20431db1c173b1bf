"""One run of the recall study: a model trained on one question, and what it learned on the way."""

from __future__ import annotations

import math
import time as clock
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from nacre._util.provenance import provenance
from nacre.study.recall.data import Sample, draw
from nacre.study.recall.network import RecallNetwork
from nacre.study.spec import ModelSpec

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

BATCH, RATE, CLIP = 128, 3e-3, 1.0
_HELD_OUT, _HELD_OUT_SEED = 2048, 1_000_003  # sequences that no run trains on
_POINTS = 20  # of a curve


@dataclass(frozen=True)
class RecallRun:
    """What to run.

    Attributes:
        question: "key" or "time".
        spec: The model.
        length: Steps of a sequence, at least 2.
        steps: Training steps.
        seed: Of weights and sequences.
    """

    question: str
    spec: ModelSpec
    length: int
    steps: int
    seed: int

    def path(self, out: Path) -> Path:
        """Its result file."""
        name = f"{self.spec.slug}-seed{self.seed}.json"
        return out / f"{self.question}-T{self.length}-{self.steps}steps" / name

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.spec} on {self.question}, T={self.length}, seed {self.seed}"

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Train and score."""
        return train(self, on_step)


def train(run: RecallRun, on_step: OnStep) -> dict[str, Any]:
    """Train a model on fresh sequences, with AdamW, and score it on held-out ones every now and then."""
    start = clock.perf_counter()
    torch.manual_seed(run.seed)
    net = RecallNetwork(run.spec)
    optimiser = torch.optim.AdamW(net.parameters(), RATE)
    generator = torch.Generator().manual_seed(run.seed)
    sample = held_out(run.question, run.length)
    curve = [{"step": 0, "loss": None} | score(net, sample)]
    every = math.ceil(run.steps / _POINTS)
    for step in range(1, run.steps + 1):
        net.train()
        fresh = draw(run.question, BATCH, run.length, generator)
        loss = cross_entropy(net(fresh), fresh.answer)
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(net.parameters(), CLIP)
        optimiser.step()
        if step % every == 0 or step == run.steps:
            curve.append({"step": step, "loss": loss.item()} | score(net, sample))
        on_step(step, loss.item())
    return {
        "question": run.question,
        "model": str(run.spec),
        "length": run.length,
        "steps": run.steps,
        "seed": run.seed,
        "top_k": getattr(getattr(net.layer, "config", None), "top_k", None),
        "accuracy": curve[-1]["accuracy"],
        "found": curve[-1]["found"],
        "curve": curve,
        "parameters": sum(p.numel() for p in net.parameters()),
        "seconds": clock.perf_counter() - start,
        "budget": {"batch": BATCH, "learning_rate": RATE, "gradient_norm": CLIP, "held_out": _HELD_OUT},
        "provenance": provenance(None),
    }


def held_out(question: str, length: int) -> Sample:
    """Sequences that no run trains on, the same for all."""
    return draw(question, _HELD_OUT, length, torch.Generator().manual_seed(_HELD_OUT_SEED))


def guessed(question: str, length: int) -> float:
    """Accuracy of a control that finds nothing: it answers with the most frequent value of a sequence."""
    sample = held_out(question, length)
    return (sample.values.sum(1).argmax(1) == sample.answer).float().mean().item()


@torch.no_grad()
def score(net: RecallNetwork, sample: Sample) -> dict[str, float | None]:
    """Accuracy, and how often the chosen keys hold the answer."""
    net.eval()
    parts = list(sample.split(BATCH))
    right = sum(int((net(part).argmax(-1) == part.answer).sum()) for part in parts)
    found = [(net.found(part), len(part.answer)) for part in parts]
    chosen = None if found[0][0] is None else sum((share or 0) * count for share, count in found)
    count = len(sample.answer)
    return {"accuracy": right / count, "found": None if chosen is None else chosen / count}
