"""`nacre demo`: three models complete spirals that are seen at irregular times, in their first half only."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre._util.plotting import png
from nacre._version import __version__
from nacre.data.sets.spirals import Spirals, make_spirals
from nacre.demo.figures import plot_losses, plot_spirals, plot_trace
from nacre.demo.networks import CORES, SpiralNet, count_parameters
from nacre.demo.report import print_table, write_files
from nacre.study.spiral.data import PARTS, batches, direction_mean

STEPS = 600
LEARNING_RATE = 1e-2  # the highest of a one-cycle schedule, for all models
WARM_UP = 0.11  # share of steps; not 0.1, since torch's schedule divides by zero where this makes exactly one step
SPREAD = 0.02  # ContiFormer's
BATCH = 32
TARGETS = 50  # target points drawn for each spiral of a batch
SEEDS = range(1, 100)  # not those on which settings were chosen: 0, and 100 and up

Errors = dict[str, dict[str, float]]  # by metric ("rmse", "mae"), then by part ("interpolation", "extrapolation")


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured on test spirals, and what it wrote; mostly by name of the model."""

    models: dict[str, Errors]
    controls: dict[str, Errors]  # of what needs no training
    parameters: dict[str, dict[str, int]]  # in all ("all"), and of these in the core ("core")
    losses: dict[str, list[float]]  # of every training step
    settings: dict[str, float]  # seed, steps and spread
    versions: dict[str, str]  # of nacre and torch
    files: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What `result.json` holds: all but the files."""
        return {name: value for name, value in vars(self).items() if name != "files"}


def run_demo(out: Path, steps: int = STEPS, seed: int = SEEDS[0], spread: float = SPREAD) -> DemoResult:
    """Train three models on 200 spirals, test them on 100, print the errors, write figures and a report.

    Args:
        out: Directory for the files.
        steps: Training steps of each model.
        seed: Seed of data, weights and batches, 1 to 99.
        spread: How much spirals differ from each other, see `make_spirals`.
    """
    if whole("seed", seed, 0) not in SEEDS:
        raise ValueError(
            f"seed must be {SEEDS[0]} to {SEEDS[-1]}, got {seed}; on others the demo's settings were chosen, "
            "so a demo of those would look better than it is"
        )
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)  # fail now rather than after the training
    console = Console()
    console.print(
        "Each spiral is seen at 50 irregular moments of its first half. Where was it, and where will it go?"
    )
    result, figures = compare(console, steps, seed, spread)
    result = replace(result, files=write_files(out, result, figures))
    print_table(result, console)
    for file in result.files:
        console.print(f"wrote {file}", soft_wrap=True)
    return result


def compare(console: Console, steps: int, seed: int, spread: float) -> tuple[DemoResult, dict[str, bytes]]:
    """Train and measure, with any seed, and write nothing; returns the result, and the figures by name."""
    whole("steps", steps, 1)
    train, test = make_spirals(seed=seed, spread=spread)
    nets = {name: build(name, seed) for name in CORES}
    losses = _train_all(nets, train, steps, seed, console)
    with torch.no_grad():
        guesses = {name: net.eval()(test.x, test.time, test.target_time) for name, net in nets.items()}
        figures = _draw(nets["NAC"], test, guesses, losses)
    controls = {
        "straight lines, then last point held": _straight_lines(test),
        "average training spiral of its family": direction_mean(train, test),
    }
    result = DemoResult(
        models={name: _errors(guess, test.target) for name, guess in guesses.items()},
        controls={name: _errors(guess, test.target) for name, guess in controls.items()},
        parameters={n: {"all": count_parameters(x), "core": count_parameters(x.core)} for n, x in nets.items()},
        losses=losses,
        settings={"seed": seed, "steps": steps, "spread": spread},
        versions={"nacre": __version__, "torch": torch.__version__},
    )
    return result, figures


def build(name: str, seed: int) -> SpiralNet:
    """A network whose body starts from the same weights whatever its core."""
    torch.manual_seed(seed + 1)
    core = CORES[name]()
    torch.manual_seed(seed)
    return SpiralNet(core)


def _train_all(
    nets: dict[str, SpiralNet], data: Spirals, steps: int, seed: int, console: Console
) -> dict[str, list[float]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as progress:
        losses = {}
        for name, net in nets.items():
            bar = progress.add_task(f"training {name:4}", total=steps, loss="-")
            losses[name] = []
            for loss in _train(net, data, steps, seed):
                losses[name].append(loss)
                progress.update(bar, advance=1, loss=f"{loss:.5f}")
    return losses


def _train(net: SpiralNet, data: Spirals, steps: int, seed: int) -> Iterator[float]:
    """Train step by step, yielding each loss; the batches depend on the seed alone, not on the network."""
    optimiser = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps, pct_start=WARM_UP)
    for x, time, asked, target in islice(batches(data, BATCH, TARGETS, seed), steps):
        loss = (net(x, time, asked) - target).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        yield loss.item()


def _draw(
    nac: SpiralNet, test: Spirals, guesses: dict[str, Tensor], losses: dict[str, list[float]]
) -> dict[str, bytes]:
    trace = nac.trace(test.x[:1], test.time[:1], test.target_time[:1])
    return {
        "spirals.png": plot_spirals(test, guesses),
        "losses.png": plot_losses(losses),
        "circuit.png": png(trace.wiring.draw()),
        "trace.png": plot_trace(trace, test.target_time[0], test.time[0]),
    }


def _errors(guess: Tensor, target: Tensor) -> Errors:
    difference = guess - target  # [n, 150, 2]
    squared, absolute = difference.square().sum(-1), difference.abs().sum(-1)
    return {
        "rmse": {name: squared[:, part].mean().sqrt().item() for name, part in PARTS.items()},
        "mae": {name: absolute[:, part].mean().item() for name, part in PARTS.items()},
    }


def _straight_lines(data: Spirals) -> Tensor:
    """Control: straight lines between observations, and the last one held from then on."""
    rows = [
        np.stack([np.interp(asked, seen, x[:, i]) for i in range(2)], -1)
        for asked, seen, x in zip(data.target_time.numpy(), data.time.numpy(), data.x.numpy(), strict=True)
    ]
    return torch.from_numpy(np.stack(rows))
