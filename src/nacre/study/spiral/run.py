"""One run of the spiral study: a network trained on 200 spirals and scored on 100 others."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

from nacre.data.sets.spirals import END, Spirals
from nacre.layer.attention import NAC
from nacre.study.spiral.data import SPREAD, TEST, TRAIN, batches, controls, draw_spirals, errors
from nacre.study.spiral.grid import DEFAULT, WIDTH, SpiralSetting, sections_of

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

BATCH, ASKED = 16, 25  # spirals of a training step, and points asked of each
RATE, WARM_UP, CLIP = 1e-2, 0.11, 1.0  # highest rate of a one-cycle schedule, and the share of steps up to it
_HIDDEN = 128
_TIME_WAVES, _PLACE_WAVES = 8, 16
_SHOWN = 4  # test spirals whose trajectories a result of the default holds, taking turns in direction
_PLACES = 4  # digits of a trajectory


class SpiralRegressor(nn.Module):
    """Where is a spiral at time s, given where it was seen at times t?

    Asked times are queries, observations are keys and values of one NAC layer of width 64. Only the layer can tell
    spirals apart: the rest of the network knows the asked times only. There is no self-attention among the
    observations, since its cost would grow with the length of a spiral.

    Example:
        >>> net = SpiralRegressor(nacre.NAC(64, 4))
        >>> net(torch.rand(2, 50, 2), torch.rand(2, 50).sort().values, torch.rand(2, 7)).shape
        torch.Size([2, 7, 2])
    """

    time_waves: Tensor
    place_waves: Tensor

    def __init__(self, layer: NAC) -> None:
        super().__init__()
        # Sines and cosines separate what is close together; the slowest has twice the period of the whole range.
        self.register_buffer("time_waves", torch.arange(1, _TIME_WAVES + 1) * (math.pi / END))
        self.register_buffer("place_waves", torch.arange(1, _PLACE_WAVES + 1) * math.pi)
        self.where = nn.Linear(4 * _PLACE_WAVES, _HIDDEN)
        self.when = nn.Linear(2 * _TIME_WAVES, _HIDDEN)
        self.embed = nn.Sequential(
            nn.Linear(_HIDDEN, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, WIDTH), nn.LayerNorm(WIDTH)
        )
        self.ask = nn.Linear(2 * _TIME_WAVES, WIDTH)
        self.layer = layer
        self.answer = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, _HIDDEN))
        self.at = nn.Linear(2 * _TIME_WAVES, _HIDDEN)
        self.head = nn.Sequential(nn.GELU(), nn.Linear(_HIDDEN, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, 2))

    def forward(self, x: Tensor, time: Tensor, asked: Tensor) -> Tensor:
        """Points [B, S, 2] seen at times [B, S], asked times [B, Q] -> points [B, Q, 2]."""
        phase = waves(asked, self.time_waves)  # [B, Q, 16]
        place = waves(x, self.place_waves).flatten(-2)  # [B, S, 64]
        # Products, because a point of a spiral is a radius times a function of time.
        seen = self.embed(self.where(place) * self.when(waves(time, self.time_waves)))  # [B, S, 64]
        found = self.layer(self.ask(phase), seen, seen, time=asked, key_time=time)  # [B, Q, 64]
        return self.head(self.answer(found) * self.at(phase))


def waves(x: Tensor, frequency: Tensor) -> Tensor:
    """Sines and cosines, [...] -> [..., 2 * frequencies]."""
    angle = x.unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)


def build(setting: SpiralSetting, seed: int) -> SpiralRegressor:
    """A network whose wiring and weights come from a seed; all but the layer starts the same in every setting."""
    torch.manual_seed(seed + 1)
    options = {"top_k": setting.top_k, "sparsity": setting.sparsity}
    layer = NAC(WIDTH, setting.heads, **options, time_scale=END, seed=seed)
    torch.manual_seed(seed)
    return SpiralRegressor(layer)


@dataclass(frozen=True)
class SpiralRun:
    """What to run."""

    setting: SpiralSetting
    steps: int  # of training
    seed: int  # of spirals, weights and wiring

    def path(self, out: Path) -> Path:
        """Its result file; the default, which belongs to two sections, has a folder of its own."""
        folder = "default" if self.setting == DEFAULT else str(sections_of(self.setting)[0])
        return out / folder / f"{self.setting.slug}-{self.steps}steps-seed{self.seed}.json"

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.setting}, seed {self.seed}"

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Train and score."""
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
            "budget": {  # the same in all runs
                "optimiser": "AdamW",
                "batch": BATCH,
                "asked_points": ASKED,
                "learning_rate": RATE,
                "warm_up": WARM_UP,
                "gradient_norm": CLIP,
                "train_spirals": TRAIN,
                "test_spirals": TEST,
                "spread": SPREAD,
            },
            **shown,
        }


def train(net: SpiralRegressor, spirals: Spirals, run: SpiralRun, on_step: OnStep) -> None:
    """Train with AdamW."""
    optimiser = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=run.steps, pct_start=WARM_UP)
    net.train()
    drawn = islice(batches(spirals, BATCH, ASKED, run.seed), run.steps)
    for step, (x, time, asked, target) in enumerate(drawn, 1):
        loss = mse_loss(net(x, time, asked), target)
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(net.parameters(), CLIP)
        optimiser.step()
        schedule.step()
        on_step(step, loss.item())


@torch.no_grad()
def predict(net: SpiralRegressor, spirals: Spirals) -> Tensor:
    """All asked points [n, 150, 2], in batches: long spirals take memory."""
    net.eval()
    parts = zip(spirals.x.split(BATCH), spirals.time.split(BATCH), spirals.target_time.split(BATCH), strict=True)
    return torch.cat([net(x, time, asked) for x, time, asked in parts])


def _trajectories(spirals: Spirals, guess: Tensor) -> list[dict[str, Any]]:
    """Observations, truth and guess for a few spirals."""

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
