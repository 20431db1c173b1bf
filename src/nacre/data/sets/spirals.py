"""Generated spirals, seen at irregular times in their first half only (the protocol of ContiFormer)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre._util.checks import real, whole
from nacre.data.dataset import Dataset, Kind

POINTS = 150  # of a whole spiral
OBSERVED = 50  # points that are seen
HALF = POINTS // 2  # points before it are interpolation, from it on extrapolation
END = 6 * math.pi  # time runs from 0 to here: three turns
NOISE = 0.05  # standard deviation of the observations, where nothing is scaled


@dataclass(frozen=True)
class Spirals:
    """Noisy observations of spirals, and the clean curves."""

    x: Tensor  # [n, S, 2] noisy points, in order of time
    time: Tensor  # [n, S] their times in radians; every spiral has its own times, all in the first half
    target: Tensor  # [n, 150, 2] all clean points
    target_time: Tensor  # [n, 150] their times, evenly spaced on [0, 6 pi]
    clockwise: Tensor  # [n] bool, which of the two families a spiral belongs to

    def __len__(self) -> int:
        """Number of spirals n."""
        return len(self.x)


def load_spirals(n: int = 300, seed: int = 0, spread: float = 0.02) -> Dataset:
    """Spirals as one sequence each: observations and 150 queries in order of time.

    An observation holds x, y and seen = 1; a query holds zeros, and its answer is the clean x and y. At a time
    that is observed and queried, the observation comes first. Nothing is scaled.

    Args:
        n: Number of spirals, at least 6, each a group of its own.
        seed: Seed of a generator of its own; torch's global one is left alone.
        spread: Standard deviation of a and b (around 0 and 0.3) from spiral to spiral; 0.02 is ContiFormer's.

    Example:
        >>> data = load_spirals(6)
        >>> data.batch(torch.tensor([0, 1])).x.shape, data.parts
        (torch.Size([2, 200, 3]), ('interpolation', 'extrapolation'))
    """
    clean, noisy, seen = _draw(n, seed, spread)
    observed = torch.cat(
        [noisy.take_along_dim(seen.unsqueeze(-1), 1), torch.ones(n, OBSERVED, 1)], -1
    )  # [n, 50, 3]
    question = torch.zeros(n, POINTS, 3)
    place = torch.cat([seen, torch.arange(POINTS).expand(n, -1)], 1)  # [n, 200] moment of each row
    order = place.argsort(dim=1, stable=True)
    unknown = torch.full((n, OBSERVED, 2), float("nan"))
    rows = [torch.cat([observed, question], 1), torch.cat([unknown, clean], 1)]
    values, y = (part.take_along_dim(order.unsqueeze(-1), 1).flatten(0, 1).float() for part in rows)
    place = place.take_along_dim(order, 1).flatten()
    length = OBSERVED + POINTS
    return Dataset(
        name="spiral",
        kind=Kind.STEP_REGRESSION,
        values=values,
        time=times()[place],
        start=torch.arange(n) * length,
        length=torch.full((n,), length),
        y=y,
        group=torch.arange(n),
        groups=tuple(f"spiral {i}" for i in range(n)),
        features=("x", "y", "seen"),
        targets=("x", "y"),
        query_only=values[:, 2] == 0,
        part=(place >= HALF).long(),
        parts=("interpolation", "extrapolation"),
        time_unit="radians",
        form=f"generated, seed {seed}, spread {spread}",
    )


def times(points: int = POINTS) -> Tensor:
    """Evenly spaced times of a whole spiral, in float64."""
    return torch.linspace(0, END, points, dtype=torch.float64)


def _draw(n: int, seed: int, spread: float) -> tuple[Tensor, Tensor, Tensor]:
    """Clean and noisy points [n, 150, 2], and which of them are seen [n, 50]."""
    whole("n", n, 6)
    real("spread", spread, 0.0, 0.1)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    clockwise = torch.arange(n) % 2 == 0  # taking turns, so that every part of a split gets half of each
    clean = curves(times(), clockwise, draw_shapes(n, spread, generator))
    noise = torch.randn(clean.shape, generator=generator, dtype=clean.dtype)
    seen = torch.rand(n, HALF, generator=generator).argsort(1)[:, :OBSERVED].sort(1).values
    return clean, clean + NOISE * noise, seen


def draw_shapes(n: int, spread: float, generator: torch.Generator) -> Tensor:
    """Deviations of a and b of each spiral from the common ones, [2, n, 1] in float64."""
    return torch.randn(2, n, 1, generator=generator, dtype=torch.float64) * spread


def curves(time: Tensor, clockwise: Tensor, shape: Tensor) -> Tensor:
    """Clean points [n, P, 2] at `time` ([P] or [n, P], radians, float64), not scaled.

    The clockwise family r = a + 50 b / z runs from its wide outer end inwards; its angle z starts at 1, because r
    would be infinite at 0. `shape` [2, n, 1] comes from `draw_shapes`.

    Example:
        >>> shape = draw_shapes(2, 0.02, torch.Generator().manual_seed(0))
        >>> curves(torch.linspace(0, END, 7, dtype=torch.float64), torch.tensor([True, False]), shape).shape
        torch.Size([2, 7, 2])
    """
    a, b = shape[0], 0.3 + shape[1]  # [n, 1]
    turn = clockwise.unsqueeze(1)
    angle = torch.where(turn, time + 1, time)  # [n, P]
    radius = torch.where(turn, a + 50 * b / angle.clamp(min=1), a + b * angle)
    centre = torch.where(turn, -5.0, 5.0).to(time.dtype)
    return torch.stack([radius * angle.cos() + centre, radius * angle.sin()], -1)
