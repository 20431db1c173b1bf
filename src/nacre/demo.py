"""`nacre demo`: complete spirals that are seen at irregular times, in their first half only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

from nacre._check import whole
from nacre.attention import NAC
from nacre.data.spirals import END, HALF, POINTS, make_spirals
from nacre.demo_plot import plot_circuit, plot_spirals

if TYPE_CHECKING:
    from pathlib import Path

    from nacre.data.spirals import Spirals

_BATCH = 32
_TARGETS = 50  # target points drawn for each spiral of a batch
_LEARNING_RATE = 2e-2
_PARTS = {"interpolation": slice(0, HALF), "extrapolation": slice(HALF, POINTS)}


class SpiralNet(nn.Module):
    """Where is the spiral at time s, given where it was seen at times t?

    One NAC layer lets the observations look at each other; a second one lets each asked time look at them.
    """

    waves: Tensor

    def __init__(self, width: int = 16, heads: int = 2, hidden: int = 128, waves: int = 8) -> None:
        super().__init__()
        self.register_buffer("waves", torch.arange(1, waves + 1) / 3)
        self.where = nn.Linear(2, hidden)
        self.when = nn.Linear(2 * waves, hidden)
        self.embed = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.encoder = NAC(width, heads, time_scale=END)
        self.ask = nn.Linear(2 * waves, width)
        self.decoder = NAC(width, heads, time_scale=END)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.answer = nn.Linear(width, hidden)
        self.at = nn.Linear(2 * waves, hidden)
        self.head = nn.Sequential(nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 2))

    def forward(self, x: Tensor, time: Tensor, asked: Tensor) -> Tensor:
        """Points [B, T, 2] seen at times [B, T], asked times [B, S] -> points [B, S, 2]."""
        seen = self.embed(self.where(2 * x - 1) * self.when(self._phase(time)))
        seen = self.norms[0](seen + self.encoder(seen, time=time))
        phase = self._phase(asked)
        found = self.norms[1](self.decoder(self.ask(phase), seen, seen, time=asked, key_time=time))
        return self.head(self.answer(found) + self.at(phase))

    def _phase(self, time: Tensor) -> Tensor:
        angle = time.unsqueeze(-1) * self.waves
        return torch.cat([angle.sin(), angle.cos()], -1)


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured on test spirals, as root mean squared distances, and where it drew it."""

    nac: dict[str, float]  # by part: "interpolation", "extrapolation"
    control: dict[str, float]  # linear interpolation; last observation held
    losses: list[float]
    pictures: list[Path]


def run_demo(out: Path, steps: int = 500, seed: int = 0) -> DemoResult:
    """Train on 200 spirals, test on 100, print the errors, draw the pictures.

    Args:
        out: Directory for the pictures.
        steps: Training steps.
        seed: Seed of data, weights and batches.
    """
    whole("steps", steps, 1)
    console = Console()
    console.print(
        "Each spiral is seen at 50 irregular moments of its first half. Where was it, and where will it go?"
    )
    train, test = make_spirals(seed=seed)
    torch.manual_seed(seed)
    net = SpiralNet()
    losses = _train(net, train, steps, console)
    net.eval()
    with torch.no_grad():
        guess = net(test.x, test.time, test.target_time)
    result = DemoResult(
        nac=_errors(guess, test.target),
        control=_errors(_control(test), test.target),
        losses=losses,
        pictures=[plot_spirals(test, guess, losses, out), plot_circuit(net.decoder.backbone.wiring, out)],
    )
    _report(result, console)
    return result


def _train(net: SpiralNet, data: Spirals, steps: int, console: Console) -> list[float]:
    optimiser = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LEARNING_RATE, total_steps=steps, pct_start=0.1)
    losses = []
    columns = (
        TextColumn("training NAC"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.5f}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("train", total=steps, loss=float("nan"))
        for _ in range(steps):
            rows = torch.randperm(len(data))[:_BATCH, None]
            points = torch.rand(len(rows), POINTS).argsort(1)[:, :_TARGETS]
            guess = net(data.x[rows[:, 0]], data.time[rows[:, 0]], data.target_time[rows, points])
            loss = (guess - data.target[rows, points]).square().sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
            progress.update(bar, advance=1, loss=losses[-1])
    return losses


def _errors(guess: Tensor, target: Tensor) -> dict[str, float]:
    squared = (guess - target).square().sum(-1)  # [n, 150]
    return {name: squared[:, part].mean().sqrt().item() for name, part in _PARTS.items()}


def _control(data: Spirals) -> Tensor:
    """What needs no learning: straight lines between observations, and the last one held from then on."""
    rows = [
        np.stack([np.interp(asked, seen, x[:, i]) for i in range(2)], -1)
        for asked, seen, x in zip(data.target_time.numpy(), data.time.numpy(), data.x.numpy(), strict=True)
    ]
    return torch.from_numpy(np.stack(rows))


def _report(result: DemoResult, console: Console) -> None:
    table = Table(title="error on 100 test spirals (root mean squared distance; the plot is 1 wide)")
    table.add_column("")
    table.add_column("NAC", justify="right")
    table.add_column("no learning", justify="right")
    table.add_column("which is", style="dim")
    how = {"interpolation": "straight lines between observations", "extrapolation": "last observation held"}
    for part in _PARTS:
        table.add_row(part, f"{result.nac[part]:.4f}", f"{result.control[part]:.4f}", how[part])
    console.print(table)
    for picture in result.pictures:
        console.print(f"wrote {picture}", soft_wrap=True)
