"""Spirals of any length for the spiral study, and what can be said of them without a network."""

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre.data.sets.spirals import END, HALF, NOISE, POINTS, Spirals, curves, draw_shapes

TRAIN, TEST = 200, 100  # spirals, as ContiFormer has them
# ContiFormer's spirals differ by 0.02, so little that the mean spiral of each direction is nearly as good an
# answer as any; a layer that finds out which spiral it sees should gain something by it.
SPREAD = 0.08
PARTS = {"interpolation": slice(0, HALF), "extrapolation": slice(HALF, POINTS)}  # of the asked points


def draw_spirals(length: int, seed: int) -> tuple[Spirals, Spirals]:
    """Spirals of `length` points, of which a third are seen, with noise, at irregular times of the first half.

    Whatever the length, 150 clean points are asked for, evenly spaced over the whole time, and a seed stands for
    the same curves. The scale is that of the training spirals, which just fill the unit square.

    Args:
        length: Points of a spiral, at least 6.
        seed: Of curves, noise and times; torch's global generator is left alone.

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
    asked = torch.linspace(0, END, POINTS, dtype=torch.float64)
    target = curves(asked, clockwise, shape)  # [n, 150, 2]
    time = _seen_times(n, length, generator)  # [n, S]
    clean = curves(time, clockwise, shape)
    noisy = clean + NOISE * torch.randn(clean.shape, generator=generator, dtype=clean.dtype)
    low, high = target[:TRAIN].amin((0, 1)), target[:TRAIN].amax((0, 1))  # [2] each
    target, noisy = ((points - low) / (high - low) for points in (target, noisy))

    def rows(some: slice) -> Spirals:
        return Spirals(
            x=noisy[some].float(),
            time=time[some].float(),
            target=target[some].float(),
            target_time=asked.expand(n, -1)[some].float(),
            clockwise=clockwise[some],
        )

    return rows(slice(0, TRAIN)), rows(slice(TRAIN, n))


def _seen_times(n: int, length: int, generator: torch.Generator) -> Tensor:
    """Ascending times [n, length // 3], each row its own choice of the even times of the first half."""
    even = torch.linspace(0, END, length, dtype=torch.float64)
    seen = torch.rand(n, length // 2, generator=generator).argsort(1)[:, : length // 3].sort(1).values
    return even[seen]


def errors(guess: Tensor, target: Tensor) -> dict[str, dict[str, float]]:
    """MSE and MAE of both parts: means over spirals, points and the two coordinates.

    Args:
        guess: [n, 150, 2].
        target: [n, 150, 2].

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
    means = [train.target[train.clockwise == turn].mean(0) for turn in (False, True)]  # [150, 2] each
    guesses = {
        "direction_mean": torch.stack(means)[test.clockwise.long()],
        "overall_mean": train.target.mean(0).expand_as(test.target),
        "persistence": _persistence(test),
    }
    return {name: errors(guess, test.target) for name, guess in guesses.items()}


def _persistence(spirals: Spirals) -> Tensor:
    """[n, 150, 2]."""
    last = torch.searchsorted(spirals.time, spirals.target_time.contiguous(), right=True) - 1  # -1: none yet
    return spirals.x.take_along_dim(last.clamp(min=0).unsqueeze(-1), 1)
