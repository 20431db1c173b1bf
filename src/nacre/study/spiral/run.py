"""One run of the spiral study: a network trained on 200 spirals and scored on 100 others."""

from __future__ import annotations

import time as clock
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from nacre._util.provenance import provenance
from nacre.data.sets.spirals import POINTS, Spirals
from nacre.study.spiral.data import SPREAD, TEST, TRAIN, controls, draw_spirals, errors
from nacre.study.spiral.grid import DEFAULT, Setting, sections_of
from nacre.study.spiral.network import SpiralRegressor, build

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

BATCH, ASKED = 16, 25  # spirals of a training step, and points asked of each
RATE, WARM_UP, CLIP = 1e-2, 0.11, 1.0  # highest rate of a one-cycle schedule, and the share of steps up to it
_SHOWN = 4  # test spirals whose trajectories a result of the default holds, taking turns in direction
_PLACES = 4  # digits of a trajectory


@dataclass(frozen=True)
class SpiralRun:
    """What to run.

    Attributes:
        setting: Network and length.
        steps: Training steps.
        seed: Of spirals, weights and wiring.
    """

    setting: Setting
    steps: int
    seed: int

    def path(self, out: Path) -> Path:
        """Its result file; the default, which belongs to two sections, has a folder of its own."""
        folder = "default" if self.setting == DEFAULT else str(sections_of(self.setting)[0])
        return out / folder / f"{self.setting.slug}-{self.steps}steps-seed{self.seed}.json"

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.setting}, seed {self.seed}"

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Train and score."""
        start = clock.perf_counter()
        train_set, test_set = draw_spirals(self.setting.length, self.seed)
        net = build(self.setting, self.seed)
        train(net, train_set, self, on_step)
        guess = predict(net, test_set)
        shown = {"trajectories": _trajectories(test_set, guess)} if self.setting == DEFAULT else {}
        return {
            **asdict(self.setting),
            "steps": self.steps,
            "seed": self.seed,
            **errors(guess, test_set.target),
            "controls": controls(train_set, test_set),
            "parameters": sum(p.numel() for p in net.parameters()),
            "seconds": clock.perf_counter() - start,
            "budget": _budget(),
            **shown,
            "provenance": provenance(None),
        }


def train(net: SpiralRegressor, spirals: Spirals, run: SpiralRun, on_step: OnStep) -> None:
    """Train with AdamW; batches and asked points depend on the seed alone, not on the network."""
    generator = torch.Generator().manual_seed(run.seed)
    optimiser = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=run.steps, pct_start=WARM_UP)
    net.train()
    for step in range(1, run.steps + 1):
        rows = torch.randperm(len(spirals), generator=generator)[:BATCH]  # [B]
        points = torch.rand(BATCH, POINTS, generator=generator).argsort(1)[:, :ASKED]  # [B, Q]
        at = rows.unsqueeze(1), points
        guess = net(spirals.x[rows], spirals.time[rows], spirals.target_time[at])
        loss = (guess - spirals.target[at]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(net.parameters(), CLIP)
        optimiser.step()
        schedule.step()
        on_step(step, loss.item())


@torch.no_grad()
def predict(net: SpiralRegressor, spirals: Spirals) -> Tensor:
    """All asked points [n, 150, 2], some spirals at a time: long ones take memory."""
    net.eval()
    parts = zip(spirals.x.split(BATCH), spirals.time.split(BATCH), spirals.target_time.split(BATCH), strict=True)
    return torch.cat([net(x, time, asked) for x, time, asked in parts])


def _trajectories(spirals: Spirals, guess: Tensor) -> list[dict[str, Any]]:
    """What was seen, what is true and what was said, for a few spirals."""

    def plain(points: Tensor) -> list[list[float]]:
        return [[round(number, _PLACES) for number in point] for point in points.tolist()]

    return [
        {
            "clockwise": bool(spirals.clockwise[i]),
            "seen": plain(spirals.x[i]),
            "truth": plain(spirals.target[i]),
            "guess": plain(guess[i]),
        }
        for i in range(_SHOWN)
    ]


def _budget() -> dict[str, Any]:
    """What is the same in all runs."""
    return {
        "optimiser": "AdamW",
        "batch": BATCH,
        "asked_points": ASKED,
        "learning_rate": RATE,
        "warm_up": WARM_UP,
        "gradient_norm": CLIP,
        "train_spirals": TRAIN,
        "test_spirals": TEST,
        "spread": SPREAD,
    }
