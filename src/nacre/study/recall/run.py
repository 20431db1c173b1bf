"""One run of the recall study: one layer, read out at the step that asks, trained on one question."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from nacre.layer.attention import NAC
from nacre.layer.backbone import NeuronStates
from nacre.layer.pairs import Gates
from nacre.layer.trace import Scene
from nacre.study.recall.data import VALUES, WIDTH, Sample, draw
from nacre.study.spec import ModelSpec

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

BATCH, RATE, CLIP = 128, 3e-3, 1.0
_D_MODEL, _HEADS = 32, 4
_HELD_OUT, _HELD_OUT_SEED = 2048, 1_000_003  # sequences that no run trains on
_POINTS = 20  # of a curve


class RecallNetwork(nn.Module):
    """A model of the zoo and a linear read-out of its answer to the last step.

    Example:
        >>> net = RecallNetwork(ModelSpec("nac-plus"))
        >>> net(draw("key", 2, 24, torch.Generator().manual_seed(0))).shape
        torch.Size([2, 4])
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.layer = spec.create(d_input=WIDTH, d_model=_D_MODEL, num_heads=_HEADS)
        self.read = nn.Linear(_D_MODEL, VALUES)
        self._uses_time = spec.uses_time
        self._selects = isinstance(self.layer, NAC) and not self.layer.config.causal

    def forward(self, sample: Sample) -> Tensor:
        """Scores [B, VALUES] of each value."""
        return self.read(self.layer(sample.x, **self._words(sample))[:, -1])

    def found(self, sample: Sample) -> float | None:
        """Share of the heads' selections that hold the item asked for; None where the model selects no keys."""
        if not self._selects:
            return None
        with _Chosen.by(self.layer) as chosen:
            self(sample)
        hit = (chosen.index == sample.place.view(-1, 1, 1, 1)) & chosen.valid
        return hit[:, :, -1].any(-1).float().mean().item()

    def _words(self, sample: Sample) -> dict[str, Tensor | None]:
        words = {"time": sample.time if self._uses_time else None}
        if getattr(self.layer, "takes_key_only", False):  # the last step alone is read
            shape = sample.x.shape[:2]
            words["key_only"] = (torch.arange(shape[1]) < shape[1] - 1).expand(shape)
        return words


class _Chosen:
    """An observer that keeps which keys were chosen, and nothing else of the pairs."""

    index: Tensor  # [B, H, T, K]
    valid: Tensor

    def begin(self, scene: Scene) -> None:
        self.index, self.valid = scene.index, scene.valid

    def see(self, rows: slice, gates: Gates, neurons: NeuronStates) -> None:
        pass

    @classmethod
    @contextmanager
    def by(cls, layer: nn.Module) -> Iterator[_Chosen]:
        assert isinstance(layer, NAC)
        layer.observer = chosen = cls()
        try:
            yield chosen
        finally:
            layer.observer = None


@dataclass(frozen=True)
class RecallRun:
    """What to run."""

    question: str  # "key" or "time"
    spec: ModelSpec
    length: int  # steps of a sequence, at least 2
    steps: int  # of training
    seed: int  # of weights and sequences
    ask_at: tuple[int, ...] = ()  # other lengths at which the trained network is asked

    def path(self, out: Path) -> Path:
        """Its result file."""
        name = f"{self.spec.slug}-seed{self.seed}.json"
        return out / f"{self.question}-T{self.length}-{self.steps}steps" / name

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.spec} on {self.question}, T={self.length}, seed {self.seed}"

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Train on new sequences in every step, with AdamW, and score on held-out ones at regular intervals."""
        torch.manual_seed(self.seed)
        net = RecallNetwork(self.spec)
        optimiser = torch.optim.AdamW(net.parameters(), RATE)
        generator = torch.Generator().manual_seed(self.seed)
        sample = held_out(self.question, self.length)
        curve = [{"step": 0, "loss": None} | score(net, sample)]
        every = math.ceil(self.steps / _POINTS)
        for step in range(1, self.steps + 1):
            net.train()
            fresh = draw(self.question, BATCH, self.length, generator)
            loss = cross_entropy(net(fresh), fresh.answer)
            optimiser.zero_grad()
            loss.backward()
            clip_grad_norm_(net.parameters(), CLIP)
            optimiser.step()
            if step % every == 0 or step == self.steps:
                curve.append({"step": step, "loss": loss.item()} | score(net, sample))
            on_step(step, loss.item())
        return {
            "question": self.question,
            "model": str(self.spec),
            "length": self.length,
            "steps": self.steps,
            "seed": self.seed,
            "top_k": getattr(getattr(net.layer, "config", None), "top_k", None),
            "accuracy": curve[-1]["accuracy"],
            "found": curve[-1]["found"],
            "curve": curve,
            "asked_at": [
                {"length": length} | score(net, held_out(self.question, length, _HELD_OUT // 8))
                for length in self.ask_at
            ],
            "parameters": sum(p.numel() for p in net.parameters()),
            "budget": {"batch": BATCH, "learning_rate": RATE, "gradient_norm": CLIP, "held_out": _HELD_OUT},
        }


def held_out(question: str, length: int, count: int | None = None) -> Sample:
    """Sequences that no run trains on, the same for all."""
    return draw(question, count or _HELD_OUT, length, torch.Generator().manual_seed(_HELD_OUT_SEED))


def guessed(question: str, length: int) -> float:
    """Accuracy of a control that finds nothing: it answers with the most frequent value of a sequence."""
    sample = held_out(question, length)
    return (sample.values.sum(1).argmax(1) == sample.answer).float().mean().item()


@torch.no_grad()
def score(net: RecallNetwork, sample: Sample) -> dict[str, float | None]:
    """Accuracy, and how often the selected keys hold the answer."""
    net.eval()
    count, right, found = len(sample.answer), 0, 0.0
    for part in sample.split(BATCH):
        right += int((net(part).argmax(-1) == part.answer).sum())
        share = net.found(part)
        found = None if share is None or found is None else found + share * len(part.answer)
    return {"accuracy": right / count, "found": None if found is None else found / count}
