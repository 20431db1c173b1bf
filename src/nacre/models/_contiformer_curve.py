"""The curve of ContiFormer's queries, and integrals along it."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import Legendre, Polynomial
from torch import Tensor
from torch.nn.functional import pad

from nacre.models._base import Steps
from nacre.models._questions import Questions

# A cubic whose end slopes are at most this many times its mean slope is monotone. Here it bounds the ratio of an
# interval to the one before, so that the curve does not overshoot after two stamps that are close together.
_MAX_RATIO = 3.0
_PARTS = Polynomial((0, 0, 2, -1)), Polynomial((0, 1, -2, 1))  # of D_a and p_a D_(a-1), see `QueryCurve`


class Rule(NamedTuple):
    """A Gauss-Legendre rule on [0, 1], and both parts of a piece at its points, see `QueryCurve.at`."""

    points: list[float]
    weights: list[float]
    rise: list[float]
    slope: list[float]


def gauss(nodes: int) -> Rule:
    """The rule of so many nodes."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    points, weights = (points + 1) / 2, weights / 2
    parts = [part.convert(kind=Legendre, domain=[0, 1]).truncate(nodes)(points) for part in _PARTS]
    return Rule(*(numbers.tolist() for numbers in (points, weights, *parts)))


class QueryCurve:
    """Queries at any time: a cubic Hermite spline whose slope at an observation is that of the interval before.

    From observation a to a + 1, at the share r of that interval:

        q(r) = q_a + r² (2 - r) D_a + r (1 - r)² p_a D_{a-1},   D_a = q_{a+1} - q_a

    with p_a the ratio of this interval to the one before, at most 3, and a straight line in the first. No later
    observation than a + 1 enters. Where several observations share a stamp, the curve jumps from each to the next.
    A step that only asks is on a curve of its own, as if it alone had been observed, too.

    Args:
        query: Those of all steps, [B, T, d].
        steps: These steps.
        known: Observations among them, [B, R]: all, or what `split` gives, with
        questions: the others.
    """

    def __init__(self, query: Tensor, steps: Steps, known: Steps, questions: Questions | None) -> None:
        self.time = known.time - known.time[:, :1]  # so that points between two stamps are exact
        self.questions = questions
        if questions is None or steps.query_only is None:
            pieces = _between(query, self.time)
        else:
            hidden = steps.hidden()
            assert hidden is not None
            seen, asks = (
                mask.to(torch.uint8).argsort(dim=1, stable=True)[:, :length]
                for mask, length in ((hidden, known.x.shape[1]), (~steps.query_only, questions.before.shape[1]))
            )
            observed, asked = (query.take_along_dim(place.unsqueeze(-1), 1) for place in (seen, asks))
            moment = (steps.time - known.time[:, :1]).gather(1, asks)
            around = _around(observed, self.time, asked, moment, questions.before)
            pieces = [torch.cat(pair, 1) for pair in zip(_between(observed, self.time), around, strict=True)]
        self.start, self.gap, self.value, self.rise, self.slope = pieces  # [B, P] float64 twice, [B, P, d]

    def at(self, rule: Rule) -> tuple[Tensor, Tensor]:
        """What integrates products with the curve over pieces: queries [B, P, nodes, d] and times [B, P, nodes].

        The queries are those of the curve at the times if there are three nodes or more. Of fewer, they are such
        that the sum is the exact integral wherever the other factor is a polynomial of lower degree than their
        number.
        """
        rise, slope = (self.value.new_tensor(part).unsqueeze(-1) for part in (rule.rise, rule.slope))
        query = self.value.unsqueeze(2) + rise * self.rise.unsqueeze(2) + slope * self.slope.unsqueeze(2)
        time = self.start.unsqueeze(-1) + self.gap.unsqueeze(-1) * self.gap.new_tensor(rule.points)
        return query, time

    def to_steps(self, pieces: Tensor) -> Tensor:
        """Integrals [B, R, T, H] from observations to all steps, given those [B, R, P, H] over pieces."""
        between = self.time.shape[1] - 1
        outward = _outward(pieces[:, :, :between])
        if self.questions is None:
            return outward
        answers = _to_questions(outward, pieces[:, :, between:], self.questions.before)
        return torch.cat([outward, answers], 2).take_along_dim(self.questions.place[:, None, :, None], 2)


def _between(query: Tensor, time: Tensor) -> list[Tensor]:
    """Pieces between observations [B, R]: start, gap, q_a, D_a and p_a D_(a-1)."""
    gap, rise = time.diff(dim=1), query.diff(dim=1)
    slope = torch.cat([rise[:, :1], _slope(rise[:, :-1], gap[:, 1:], gap[:, :-1])], 1)
    return [time[:, :-1], gap, query[:, :-1], rise, slope]


def _around(query: Tensor, time: Tensor, asked: Tensor, moment: Tensor, before: Tensor) -> list[Tensor]:
    """Pieces that a question changes, if the curve goes through its query.

    They are those from the observations before the questions to these, then from the questions to the observations
    after, then from these to the next; 3 Q in all. Pieces that do not exist are finite.
    """

    def pick(offset: int) -> tuple[Tensor, Tensor]:
        place = (before + offset).clamp(0, time.shape[1] - 1)
        return query.take_along_dim(place.unsqueeze(-1), 1), time.gather(1, place)

    points = [pick(-1), pick(0), (asked, moment), pick(1), pick(2)]
    gaps = [(b - a).clamp(min=0) for (_, a), (_, b) in pairwise(points)]
    rises = [b - a for (a, _), (b, _) in pairwise(points)]
    slopes = [_slope(rises[n], gaps[n + 1], gaps[n]) for n in range(3)]
    for n, first in enumerate((before == 0, before < 0)):  # where the curve begins with the piece, it is straight
        slopes[n] = torch.where(first.unsqueeze(-1), rises[n + 1], slopes[n])
    values, starts = zip(*points[1:4], strict=True)
    return [torch.cat(each, 1) for each in (starts, gaps[1:], values, rises[1:], slopes)]


def _slope(rise: Tensor, gap: Tensor, before: Tensor) -> Tensor:
    """The rise of the interval before [B, P, d], in the ratio of this interval [B, P] to that one."""
    ratio = gap / before.clamp(min=torch.finfo(gap.dtype).tiny)
    return ratio.clamp(max=_MAX_RATIO).to(rise.dtype).unsqueeze(-1) * rise


def _outward(pieces: Tensor) -> Tensor:
    """Integrals [B, R, R, H] from observations (second axis) to each other, over pieces between, [B, R, R - 1, H].

    They are summed from where a path starts, both ways: differences of sums from the first observation on would
    lose what is small.
    """
    start = torch.arange(pieces.shape[1], device=pieces.device)[:, None, None]
    piece = torch.arange(pieces.shape[2], device=pieces.device)[:, None]
    later = pieces.masked_fill(piece < start, 0).cumsum(2)
    earlier = pieces.masked_fill(piece >= start, 0).flip(2).cumsum(2).flip(2)
    return pad(later, (0, 0, 1, 0)) + pad(earlier, (0, 0, 0, 1))


def _to_questions(outward: Tensor, pieces: Tensor, before: Tensor) -> Tensor:
    """Integrals [B, R, Q, H] from observations to questions, by the pieces [B, R, 3 Q, H] around these."""
    to, back, next_back = pieces.chunk(3, 2)
    start = torch.arange(pieces.shape[1], device=pieces.device)[:, None]
    before = before.unsqueeze(1)  # [B, 1, Q]

    def reached(offset: int) -> Tensor:
        place = (before + offset).clamp(0, outward.shape[2] - 1)
        return outward.take_along_dim(place.unsqueeze(-1), 2)

    earlier, beyond = (start <= before).unsqueeze(-1), (start > before + 1).unsqueeze(-1)
    return torch.where(earlier, reached(0) + to, back + torch.where(beyond, reached(2) + next_back, 0))
