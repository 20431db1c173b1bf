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
NOISE = 0.05  # standard deviation of the observations, before normalisation


@dataclass(frozen=True)
class Spirals:
    """Some spirals: what is seen of them, and what they really are.

    Coordinates are scaled so that the clean training spirals just fill the unit square.

    Attributes:
        x: [n, 50, 2] noisy points, in order of time.
        time: [n, 50] when they were seen, in radians; every spiral has its own times, all in the first half.
        target: [n, 150, 2] all clean points.
        target_time: [n, 150] their times, evenly spaced on [0, 6 pi].
        clockwise: [n] bool, which of the two families a spiral belongs to.
    """

    x: Tensor
    time: Tensor
    target: Tensor
    target_time: Tensor
    clockwise: Tensor

    def __len__(self) -> int:
        """Number of spirals n."""
        return len(self.x)


def make_spirals(n: int = 300, seed: int = 0, spread: float = 0.02) -> tuple[Spirals, Spirals]:
    """Draw spirals, half of each family, and split them into two thirds for training and one third for testing.

    The scale comes from the training spirals alone, so test points may lie a little outside the unit square.

    Args:
        n: Number of spirals, at least 6.
        seed: Seed of a generator of its own; torch's global one is left alone.
        spread: Standard deviation of a and b (around 0 and 0.3) from spiral to spiral; 0.02 is ContiFormer's. More
            makes each spiral more of its own kind.

    Returns:
        Training and test spirals.

    Example:
        >>> train, test = make_spirals()
        >>> len(train), len(test), tuple(test.x.shape)
        (200, 100, (100, 50, 2))
    """
    clean, noisy, seen, clockwise = _draw(n, seed, spread)
    time = _times()
    size = 2 * n // 3  # of the training split
    low, high = clean[:size].amin((0, 1)), clean[:size].amax((0, 1))  # [2] each
    target, noisy = ((points - low) / (high - low) for points in (clean, noisy))
    whole_set = Spirals(
        x=noisy.take_along_dim(seen.unsqueeze(-1), 1).float(),
        time=time[seen].float(),
        target=target.float(),
        target_time=time.expand(n, -1).float(),
        clockwise=clockwise,
    )
    return _rows(whole_set, slice(0, size)), _rows(whole_set, slice(size, n))


def load_spirals(n: int = 300, seed: int = 0, spread: float = 0.02) -> Dataset:
    """Spirals as one sequence each: what was seen, and among it, in order of time, 150 questions.

    A row holds x, y and seen = 1, or, where the spiral is asked for, zeros; the answers are the clean x and y. At
    a moment that is seen and asked for, the observation comes first. Nothing is scaled.

    Args:
        n: Number of spirals, at least 6, each a group of its own.
        seed: Seed of a generator of its own.
        spread: As in `make_spirals`.

    Example:
        >>> data = load_spirals(6)
        >>> data.batch(torch.tensor([0, 1])).x.shape, data.parts
        (torch.Size([2, 200, 3]), ('interpolation', 'extrapolation'))
    """
    clean, noisy, seen, _ = _draw(n, seed, spread)
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
        time=_times()[place],
        start=torch.arange(n) * length,
        length=torch.full((n,), length),
        y=y,
        group=torch.arange(n),
        groups=tuple(f"spiral {i}" for i in range(n)),
        features=("x", "y", "seen"),
        targets=("x", "y"),
        part=(place >= HALF).long(),
        parts=("interpolation", "extrapolation"),
        time_unit="radians",
        form=f"generated, seed {seed}, spread {spread}",
    )


def _times() -> Tensor:
    return torch.linspace(0, END, POINTS, dtype=torch.float64)


def _draw(n: int, seed: int, spread: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Clean and noisy points [n, 150, 2], which of them are seen [n, 50], and who runs clockwise [n]."""
    whole("n", n, 6)
    real("spread", spread, 0.0, 0.1)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    clockwise = torch.arange(n) % 2 == 0  # taking turns, so that both splits get half of each
    clean = curves(_times(), clockwise, draw_shapes(n, spread, generator))
    noise = torch.randn(clean.shape, generator=generator, dtype=clean.dtype)
    seen = torch.rand(n, HALF, generator=generator).argsort(1)[:, :OBSERVED].sort(1).values
    return clean, clean + NOISE * noise, seen, clockwise


def draw_shapes(n: int, spread: float, generator: torch.Generator) -> Tensor:
    """How much a and b of each spiral differ from the common ones, [2, n, 1] in float64."""
    return torch.randn(2, n, 1, generator=generator, dtype=torch.float64) * spread


def curves(time: Tensor, clockwise: Tensor, shape: Tensor) -> Tensor:
    """Clean curves in the plane, each with its own a and b.

    The clockwise family r = a + 50 b / z is walked backwards, from its wide outer end into its eye; its angle z
    starts at 1 where r would be infinite at 0.

    Args:
        time: [P] times of all spirals, or [n, P] times of each, in radians, in float64.
        clockwise: [n] bool, which family a spiral belongs to.
        shape: [2, n, 1] from `draw_shapes`.

    Returns:
        [n, P, 2] points, not scaled.

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


def _rows(spirals: Spirals, rows: slice) -> Spirals:
    return Spirals(
        x=spirals.x[rows],
        time=spirals.time[rows],
        target=spirals.target[rows],
        target_time=spirals.target_time[rows],
        clockwise=spirals.clockwise[rows],
    )
