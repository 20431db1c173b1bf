"""Between two observations of ContiFormer: keys and values follow an ODE, queries a spline."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, layer_norm, linear

# A cubic whose end slopes are at most this many times its mean slope is monotone. Here it bounds the ratio of an
# interval to the one before, so that the curve does not overshoot after two stamps that are close together.
_MAX_RATIO = 3.0


class Field(nn.Module):
    """dy/du = sigmoid(LayerNorm(W y + w u + b)), with the time u since y was observed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width + 1, width)  # W and w
        self.norm = nn.LayerNorm(width)

    def weights(self) -> tuple[Tensor, ...]:
        """What `path` takes: W and w, b, and scale and shift of the norm."""
        return self.linear.weight, self.linear.bias, self.norm.weight, self.norm.bias


def _slope(weights: Sequence[Tensor], u: Tensor, y: Tensor) -> Tensor:
    """Slopes like y [..., d] at times u [..., 1]."""
    weight, bias, scale, shift = weights
    y = torch.addcmul(linear(y, weight[:, :-1], bias), u, weight[:, -1])
    return layer_norm(y, scale.shape, scale, shift).sigmoid_()


def path(weights: Sequence[Tensor], y: Tensor, span: Tensor, stops: list[float], unfolds: int) -> Iterator[Tensor]:
    """States at ascending shares `stops` of a time span, `unfolds` classical Runge-Kutta steps apart.

    y [..., d] at the start is broadcast with span [..., 1], which may have either sign. All pairs share the steps.
    """
    start = 0.0
    for stop in stops:
        size = (stop - start) / unfolds
        h = size * span
        for step in range(unfolds):
            u = (start + step * size) * span
            middle = u + h / 2
            k1 = _slope(weights, u, y)
            k2 = _slope(weights, middle, torch.addcmul(y, h, k1, value=0.5))
            k3 = _slope(weights, middle, torch.addcmul(y, h, k2, value=0.5))
            k4 = _slope(weights, u + h, torch.addcmul(y, h, k3))
            y = torch.addcmul(y, h, torch.add(k1 + k4, k2 + k3, alpha=2), value=1 / 6)
        yield y
        start = stop


class QueryCurve:
    """Queries at any time: a cubic Hermite spline whose slope at an observation is that of the interval before.

    From observation a to a + 1, at the share r of that interval:

        q(r) = q_a + r² (2 - r) D_a + r (1 - r)² p_a D_{a-1},   D_a = q_{a+1} - q_a

    with p_a the ratio of this interval to the one before, at most 3, and a straight line in the first. No later
    observation than a + 1 enters. Where several observations share a stamp, the curve jumps from each to the next.
    """

    def __init__(self, query: Tensor, time: Tensor) -> None:  # [B, T, d], and [B, T] float64, ascending
        gap = time.diff(dim=1, append=time[:, -1:])  # [B, T], 0 after the last
        ratio = (gap[:, 1:] / gap[:, :-1].clamp(min=torch.finfo(gap.dtype).tiny)).clamp(max=_MAX_RATIO)
        rise = query.diff(dim=1, append=query[:, -1:])  # D, and 0 after the last
        slope = torch.cat([rise[:, :1], ratio.unsqueeze(-1).to(query.dtype) * rise[:, :-1]], 1)
        self.time = time.contiguous()
        self.gap = gap
        self.table = torch.cat([query, rise, slope], -1).flatten(0, 1)  # [B T, 3 d]
        self.row = torch.arange(query.shape[0], device=query.device)[:, None] * query.shape[1]  # first of a sample

    def __call__(self, table: Tensor, first: int, last: int, keys: int, share: float) -> Tensor:
        """Queries at a share in (0, 1) of the way from each of the first `keys` steps to steps first ... last - 1.

        The table of this curve is an argument, so that a block of queries is a function of its tensors. Returns
        [B, last - first, keys, d].
        """
        step = torch.arange(self.time.shape[1], device=self.time.device)
        i, j = step[first:last, None], step[:keys]
        there, here = self.time[:, first:last, None], self.time[:, None, :keys]
        tau = here + share * (there - here)  # [B, Q, K]
        flat = tau.flatten(1)
        # The bound: rounding must not lead past the later of both steps.
        before = torch.maximum(i, j).sub(1).clamp(min=0).expand_as(tau).flatten(1)
        start = torch.searchsorted(self.time, flat, right=True).sub(1).minimum(before)
        since = flat - self.time.gather(1, start)
        share_of_gap = since / self.gap.gather(1, start).clamp(min=torch.finfo(since.dtype).tiny)
        # Where no time passes, the query is that of its own step.
        still = (there == here).flatten(1)
        start = torch.where(still, i.expand_as(tau).flatten(1), start)
        r = share_of_gap.masked_fill(still, 0).clamp(0, 1).to(table.dtype).view(*tau.shape, 1)
        value, rise, slope = embedding(start + self.row, table).view(*tau.shape, -1).chunk(3, -1)
        return torch.addcmul(torch.addcmul(value, r.square() * (2 - r), rise), r * (1 - r).square(), slope)
