"""Keys and values of ContiFormer between observations: solved once for all queries, and read at any time."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad

# Units of time since an observation at which a path is solved: after a few units, ever longer steps.
_KNOTS = (0.0, 1.0, 2.0, 4.0, 8.0, 32.0, 2.0**10, 2.0**20, 2.0**40)


class Field(nn.Module):
    """dy/du = sigmoid(LayerNorm(W y + w u + b)), with the time u since y was observed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width + 1, width)  # W and w
        self.norm = nn.LayerNorm(width)


class Knots:
    """Where paths are solved and how they are read between: cubic Hermite polynomials from knot to knot.

    Args:
        longest: Time that paths have to reach.
        unfolds: Number of Runge-Kutta steps, each to a knot of its own, to every time of `_KNOTS`.
        ways: (1,) for the future of an observation alone, (1, -1) for both.
    """

    def __init__(self, longest: float, unfolds: int, ways: Sequence[int]) -> None:
        cells = [(a, b) for a, b in pairwise(_KNOTS) if a < longest or a == 0]
        self.steps = [(b - a) / unfolds for a, b in cells for _ in range(unfolds)]
        self.starts = [a + n * (b - a) / unfolds for a, b in cells for n in range(unfolds)]
        self.ends = [a + h for a, h in zip(self.starts, self.steps, strict=True)]
        self.ways = ways

    def solve(self, field: Field, y: Tensor) -> Tensor:
        """Paths of y [B, T, d] as numbers that `at` and `means` weigh: [B, T, M, d].

        They are the state and the slope at the start, and for each knot and way what a step changes and the slope
        at its end. On the way back the path is that of -y, which makes its slope the field there, too.
        """
        sign = y.new_tensor(self.ways).view(-1, 1, 1)
        weight, time_weight = (
            sign * field.linear.weight[:, :-1].t(),
            sign * field.linear.weight[:, -1],
        )  # [S, ., d]
        norm = field.norm

        def slope(u: float, z: Tensor) -> Tensor:
            bias = torch.add(field.linear.bias, time_weight, alpha=u)
            return layer_norm(
                torch.baddbmm(bias, z, weight), norm.normalized_shape, norm.weight, norm.bias
            ).sigmoid()

        z = sign * y.flatten(0, 1)  # [S, B T, d]
        k1 = slope(0.0, z)
        parts, ends = [y.flatten(0, 1).unsqueeze(0), k1[:1]], []
        for u, h in zip(self.starts, self.steps, strict=True):
            k2 = slope(u + h / 2, torch.add(z, k1, alpha=h / 2))
            k3 = slope(u + h / 2, torch.add(z, k2, alpha=h / 2))
            k4 = slope(u + h, torch.add(z, k3, alpha=h))
            rise = torch.add(k1 + k4, k2 + k3, alpha=2) * (h / 6)
            z = z + rise
            k1 = slope(u + h, z)
            parts.append(rise)
            ends.append(k1)
        return torch.cat(parts + ends).transpose(0, 1).unflatten(0, y.shape[:2])

    def at(self, u: Tensor) -> Tensor:
        """Weights [..., M, N] whose sum over a path is its state at times u [..., N] since the observation."""
        r, sign, step = self._cells(u)
        square, left = r.square(), 1 - r
        return self._join(u, square * (3 - 2 * r) * sign, r * left.square() * step, square * left * -step)

    def means(self, u: Tensor) -> Tensor:
        """The same for the mean of a path from its observation to times u [..., N]: integrals of `at`, over u."""
        r, sign, step = self._cells(u)
        inverse = u.abs().clamp(min=torch.finfo(u.dtype).tiny).reciprocal().unsqueeze(-2)
        # What is very large where almost no time has passed is multiplied by an r of almost 0.
        share = (inverse * step.abs()).clamp(max=torch.finfo(u.dtype).max)
        ends = u.new_tensor([b for b in self.ends for _ in self.ways]).unsqueeze(-1)
        square = r.square()
        weight = square * share
        rise = torch.addcmul(weight * (r - square / 2), (u.unsqueeze(-2) * sign - ends).clamp(min=0), inverse)
        weight = weight * step
        return self._join(u, rise * sign, weight * (0.5 - r * (2 / 3) + square / 4), weight * (square / 4 - r / 3))

    def _cells(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of steps and ways [C]: the share that has passed [..., C, N], the sign and the signed length [C, 1]."""
        sign = u.new_tensor(self.ways).repeat(len(self.steps)).unsqueeze(-1)
        step, start = (
            u.new_tensor([x for x in xs for _ in self.ways]).unsqueeze(-1) for xs in (self.steps, self.starts)
        )
        return ((u.unsqueeze(-2) * sign - start) / step).clamp(0, 1), sign, sign * step

    def _join(self, u: Tensor, rise: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Weights in the order of `solve`: a slope has `after` of the step that it ends, `before` of the next."""
        ways = len(self.ways)
        first, rest = before[..., :ways, :].sum(-2, keepdim=True), before[..., ways:, :]
        return torch.cat([torch.ones_like(u).unsqueeze(-2), first, rise, after + pad(rest, (0, 0, 0, ways))], -2)
