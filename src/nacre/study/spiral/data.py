"""Spirals of any length for the spiral study, and controls that need no network."""

from collections.abc import Iterator

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre.data.sets.spirals import HALF, NOISE, POINTS, Spirals, curves, draw_shapes, times

TRAIN, TEST = 200, 100  # spirals, as ContiFormer has them
# ContiFormer's spirals differ by 0.02, so little that the mean spiral of each direction is nearly as good an
# answer as any; a layer that finds out which spiral it sees should gain something by it.
SPREAD = 0.08
PARTS = {"interpolation": slice(0, HALF), "extrapolation": slice(HALF, POINTS)}  # of the asked points


def draw_spirals(length: int, seed: int) -> tuple[Spirals, Spirals]:
    """Spirals of `length` points, at least 6, of which a third are seen, with noise, at times of the first half.

    Whatever the length, 150 clean points are asked for, evenly spaced over the whole time, and a seed stands for
    the same curves. The scale is that of the training spirals, which just fill the unit square. torch's global
    generator is left alone.

    Returns:
        200 training and 100 test spirals.

    Example:
        >>> train, test = draw_spirals(600, seed=0)
        >>> train.x.shape, test.target.shape
        (torch.Size([200, 200, 2]), torch.Size([100, 150, 2]))
    """
    whole("length", length, 6)
    n = TRAIN + TEST
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    clockwise = torch.arange(n) % 2 == 0
    shape = draw_shapes(n, SPREAD, generator)
    seen = torch.rand(n, length // 2, generator=generator).argsort(1)[:, : length // 3].sort(1).values
    time = times(length)[seen]  # [n, S]: each spiral has its own times
    observed = curves(time, clockwise, shape)
    observed += NOISE * torch.randn(observed.shape, generator=generator, dtype=observed.dtype)
    clean = curves(times(), clockwise, shape)
    low, high = clean[:TRAIN].amin((0, 1)), clean[:TRAIN].amax((0, 1))  # [2] each
    x, target = (((points - low) / (high - low)).float() for points in (observed, clean))
    parts = (x, time.float(), target, times().expand(n, -1).float(), clockwise)
    return Spirals(*(part[:TRAIN] for part in parts)), Spirals(*(part[TRAIN:] for part in parts))


def batches(
    spirals: Spirals, size: int, points: int, seed: int
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Training batches without end; they depend on the seed alone.

    Args:
        spirals: What to draw from.
        size: Spirals of a batch.
        points: Points asked of each.
        seed: Of a generator of its own.

    Yields:
        Seen points [B, S, 2] and their times [B, S], asked times [B, Q] and the clean points there [B, Q, 2].
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        rows = torch.randperm(len(spirals), generator=generator)[:size]  # [B]
        asked = torch.rand(len(rows), POINTS, generator=generator).argsort(1)[:, :points]  # [B, Q]
        at = rows.unsqueeze(1), asked
        yield spirals.x[rows], spirals.time[rows], spirals.target_time[at], spirals.target[at]


def errors(guess: Tensor, target: Tensor) -> dict[str, dict[str, float]]:
    """MSE and MAE of both parts of [n, 150, 2] points: means over spirals, points and the two coordinates.

    Returns:
        By metric ("mse", "mae"), then by part ("interpolation", "extrapolation").

    Example:
        >>> errors(torch.ones(2, 150, 2), torch.full((2, 150, 2), 3.0))["mse"]
        {'interpolation': 4.0, 'extrapolation': 4.0}
    """
    off = guess.double() - target.double()
    return {
        "mse": {name: off[:, part].square().mean().item() for name, part in PARTS.items()},
        "mae": {name: off[:, part].abs().mean().item() for name, part in PARTS.items()},
    }


def controls(train: Spirals, test: Spirals) -> dict[str, dict[str, dict[str, float]]]:
    """Errors on test spirals of three answers that need no network.

    Returns:
        By control: "direction_mean", the mean training spiral of the same direction; "overall_mean", that of both;
        "persistence", the last point seen at or before the asked time, or the first where there is none. Then as
        `errors` gives them.
    """
    last = torch.searchsorted(test.time, test.target_time.contiguous(), right=True) - 1  # [n, 150], -1: none yet
    guesses = {
        "direction_mean": direction_mean(train, test),
        "overall_mean": train.target.mean(0).expand_as(test.target),
        "persistence": test.x.take_along_dim(last.clamp(min=0).unsqueeze(-1), 1),
    }
    return {name: errors(guess, test.target) for name, guess in guesses.items()}


def direction_mean(train: Spirals, test: Spirals) -> Tensor:
    """For each test spiral the mean training spiral of its direction, [n, 150, 2]."""
    means = [train.target[train.clockwise == turn].mean(0) for turn in (False, True)]  # [150, 2] each
    return torch.stack(means)[test.clockwise.long()]
