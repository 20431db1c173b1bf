"""One run of the approximation study: a network of one width, trained to fit a function."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from nacre._util.checks import choice, whole
from nacre._util.provenance import provenance
from nacre.study.uat.data import Points, Target, grid, held_out, training
from nacre.study.uat.network import HEADS, UatNetwork, Variant
from nacre.tasks.recipe import Profile

if TYPE_CHECKING:
    from nacre.study.runs import OnStep


class Budget(NamedTuple):
    """How a network is trained: Adam, whose rate falls to 0 along half a cosine.

    Attributes:
        steps: Training steps.
        batch: Points of a step.
        rate: Learning rate at the start.
    """

    steps: int
    batch: int
    rate: float


# Paper: 150 epochs of 3,200 points by 64, as in the authors' demo (without their fixed rate: the noise that it
# leaves hides what width does). Quick: fewer steps, so larger and steadier ones; a set has 8 times the pairs.
BUDGETS = {
    Profile.QUICK: {Target.SIN: Budget(500, 256, 2e-2), Target.SET: Budget(400, 64, 1e-2)},
    Profile.PAPER: {Target.SIN: Budget(7500, 64, 1e-3), Target.SET: Budget(7500, 64, 1e-3)},
}


@dataclass(frozen=True)
class UatRun:
    """What to run.

    Attributes:
        target: "sin" or "set".
        variant: What is done with the layer's values.
        width: d_model.
        seed: Of weights and points.
        budget: How it is trained.
    """

    target: str
    variant: str
    width: int
    seed: int
    budget: Budget

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        choice("target", self.target, Target)
        choice("variant", self.variant, Variant)
        if whole("width", self.width, HEADS) % HEADS:
            raise ValueError(f"width must be a multiple of the {HEADS} heads, got {self.width}")
        whole("seed", self.seed, 0)

    @classmethod
    def of(cls, result: dict[str, Any]) -> UatRun:
        """The run that gave a result."""
        budget = Budget(**result["budget"])
        return cls(result["target"], result["variant"], result["width"], result["seed"], budget)

    @property
    def steps(self) -> int:
        """Training steps."""
        return self.budget.steps

    def path(self, out: Path) -> Path:
        """Its result file."""
        steps, batch, rate = self.budget
        name = f"{self.variant}-width{self.width}-seed{self.seed}.json"
        return out / f"{self.target}-{steps}steps-batch{batch}-rate{rate:g}" / name

    def __str__(self) -> str:
        """For people to read."""
        return f"{self.variant} on {self.target}, width {self.width}, seed {self.seed}"

    def do(self, on_step: OnStep) -> dict[str, Any]:
        """Train and score."""
        start = clock.perf_counter()
        torch.manual_seed(self.seed)
        net = UatNetwork(self.target, self.variant, self.width)
        train(net, self, on_step)
        error, largest = score(net, held_out(self.target))
        return {
            "target": self.target,
            "variant": self.variant,
            "width": self.width,
            "seed": self.seed,
            "budget": self.budget._asdict(),
            "heads": HEADS,
            "error": error,
            "largest": largest,
            "fit": [round(y, 5) for y in answers(net, grid().x).tolist()] if self.target == Target.SIN else None,
            "parameters": sum(p.numel() for p in net.parameters()),
            "seconds": clock.perf_counter() - start,
            "provenance": provenance(None),
        }


def train(net: UatNetwork, run: UatRun, on_step: OnStep) -> None:
    """Fit the training points of the run.

    Raises:
        RuntimeError: If the loss is no longer finite.
    """
    steps, batch, rate = run.budget
    points = training(run.target, run.seed)
    optimiser = torch.optim.Adam(net.parameters(), rate, fused=True)  # many small tensors: a fifth of a step less
    falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    generator = torch.Generator().manual_seed(run.seed + 1)  # not that of the points
    order = batches(len(points.y), batch, generator)
    for step in range(1, steps + 1):
        some = next(order)
        loss = mse_loss(net(points.x[some]), points.y[some])
        if not loss.isfinite():
            raise RuntimeError(f"the loss is {loss.item()} at step {step}; lower the rate, {rate:g}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        falling.step()
        on_step(step, loss.item())


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices of `count` points, `size` at a time, in a new order each epoch, without end.

    Example:
        >>> order = batches(5, 2, torch.Generator().manual_seed(0))
        >>> sorted(torch.cat([next(order) for _ in range(3)]).tolist())
        [0, 1, 2, 3, 4]
    """
    while True:
        yield from torch.randperm(count, generator=generator).split(size)


@torch.no_grad()
def answers(net: UatNetwork, x: Tensor) -> Tensor:
    """What a trained network says, [N]."""
    net.eval()
    return net(x)


def score(net: UatNetwork, points: Points) -> tuple[float, float]:
    """Mean squared and largest absolute error. The theorem speaks of the largest."""
    left = answers(net, points.x) - points.y
    return left.square().mean().item(), left.abs().max().item()
