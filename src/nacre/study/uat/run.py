"""One run of the approximation study: one NAC layer of some width, trained to fit a function."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from nacre._util.checks import choice, whole
from nacre.layer.attention import NAC
from nacre.study.profile import StudyProfile
from nacre.study.uat.data import Points, Target, grid, held_out, training

if TYPE_CHECKING:
    from nacre.study.runs import OnStep

HEADS = 4


class Variant(StrEnum):
    """What is done with the layer's values."""

    WEIGHTED = "weighted"
    """They are weighted with the internal time t, as in the paper's integral."""
    UNWEIGHTED = "unweighted"
    """They are not."""
    AUTHORS = "authors"
    """They are not, and a sigmoid follows the layer, as in the demo of the paper's authors."""


class FitBudget(NamedTuple):
    """How a network is trained: Adam, with a cosine schedule of the learning rate that ends at 0."""

    steps: int
    batch: int  # points of a step
    rate: float  # at the start


# Paper: 150 epochs of 3,200 points by 64, as in the authors' demo (without their fixed rate: the noise that it
# leaves hides the effect of the width). Quick: fewer but larger steps; a set has 8 times the pairs.
BUDGETS = {
    StudyProfile.QUICK: {Target.SIN: FitBudget(500, 256, 2e-2), Target.SET: FitBudget(400, 64, 1e-2)},
    StudyProfile.PAPER: {Target.SIN: FitBudget(7500, 64, 1e-3), Target.SET: FitBudget(7500, 64, 1e-3)},
}


class UatNetwork(nn.Module):
    """A NAC layer with a linear read-out, which answers once for a sequence.

    The layer's value gate is a row of tanh neurons, so one step without time weighting gives W_o tanh(x w + b), up
    to scales and shifts: the classical network with one hidden layer. The circuit has no effect, since the softmax
    over one key is 1. With the weighting each head also multiplies by t, a sigmoid of its own. Without the
    weighting, and with neurons of activation "identity", the layer would be affine.

    Args:
        target: "sin": the one step asks itself. "set": an empty query, x = 0, asks all steps.
        variant: What is done with the layer's values.
        width: d_model, a multiple of 4.

    Example:
        >>> net = UatNetwork("set", "weighted", 8)
        >>> net(torch.randn(5, 8, 1)).shape
        torch.Size([5])
    """

    def __init__(self, target: str, variant: str, width: int) -> None:
        super().__init__()
        choice("target", target, Target)
        choice("variant", variant, Variant)
        weighted = variant == Variant.WEIGHTED
        self.layer = NAC(width, HEADS, d_input=1, top_k=8, mode="exact", sparsity=0.5, integrate=weighted)
        self.squash = nn.Sigmoid() if variant == Variant.AUTHORS else nn.Identity()
        self.read = nn.Linear(width, 1)
        self._asks_itself = target == Target.SIN

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, 1] -> [N]."""
        y = self.layer(x) if self._asks_itself else self.layer(x.new_zeros(len(x), 1, 1), x, x)
        return self.read(self.squash(y[:, 0])).squeeze(-1)


@dataclass(frozen=True)
class UatRun:
    """What to run."""

    target: str
    variant: str
    width: int  # d_model
    seed: int  # of weights and points
    budget: FitBudget

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
        budget = FitBudget(**result["budget"])
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
        }


def train(net: UatNetwork, run: UatRun, on_step: OnStep) -> None:
    """Fit the training points of the run.

    Raises:
        RuntimeError: If the loss is no longer finite.
    """
    steps, batch, rate = run.budget
    points = training(run.target, run.seed)
    optimiser = torch.optim.Adam(net.parameters(), rate, fused=True)  # many small tensors: a fifth of a step less
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: (1 + math.cos(math.pi * step / steps)) / 2
    )
    order = batches(len(points.y), batch, torch.Generator().manual_seed(run.seed + 1))  # not the points' seed
    for step in range(1, steps + 1):
        some = next(order)
        loss = mse_loss(net(points.x[some]), points.y[some])
        if not loss.isfinite():
            raise RuntimeError(f"the loss is {loss.item()} at step {step}; lower the rate, {rate:g}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
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
    """Answers [N] of a trained network."""
    net.eval()
    return net(x)


def score(net: UatNetwork, points: Points) -> tuple[float, float]:
    """Mean squared and largest absolute error. The theorem speaks of the largest."""
    residual = answers(net, points.x) - points.y
    return residual.square().mean().item(), residual.abs().max().item()
