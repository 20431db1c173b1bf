"""`BinSums`: how much of the variance of states lies between bins of elapsed time, and how much does by chance."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nacre.inspect.analysis.association import standardised
from nacre.inspect.analysis.pairs import Pairs

_STILL = 1e-6  # states that differ by no more than this are the same, as in `certify`
_SAME = 1e-9  # share of all elapsed times by which equal ones may differ
_RUNS = 16  # at least, if there are as many steps


def edges_of(elapsed: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Elapsed times at which bins begin, ascending, without the first; no bin is empty."""
    tick = _SAME * max(np.abs(elapsed).max(initial=0.0), np.finfo(float).tiny / _SAME)
    rounded = np.round(elapsed / tick) * tick
    edges = np.unique(rounded)
    if len(edges) > bins:
        edges = np.unique(np.quantile(rounded, np.arange(1, bins) / bins, method="higher"))
    return edges[edges > rounded.min(initial=np.inf)] - tick / 2


def label_of(elapsed: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of the bin of each elapsed time."""
    return np.searchsorted(edges, elapsed, side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums from which the strength follows, whatever the signs of runs. R runs, L bins, C columns.

    Example:
        >>> import numpy as np
        >>> elapsed, states = np.array([0.0, 1.0, 0.0, 1.0]), np.array([[1.0], [3.0], [5.0], [7.0]])
        >>> pairs = Pairs(elapsed, states, np.array([2, 2]), np.array([0, 1]))  # two steps, of a run each
        >>> sums = BinSums.of(pairs, edges_of(elapsed, bins=2))
        >>> sums.strengths(np.array([[1.0, 1.0], [1.0, -1.0]])).round(2).tolist()
        [[0.2], [0.0]]
    """

    counts: NDArray[np.int64]  # [L] pairs of each bin
    means: NDArray[np.float64]  # [L, C] sums over the pairs of each bin, of means of steps
    within: NDArray[
        np.float64
    ]  # [R, L, C] the same of a run, of differences of states from the mean of their step

    @classmethod
    def of(cls, pairs: Pairs, edges: NDArray[np.float64]) -> Self:
        """Sums of states of variance 1."""
        z, label, labels = _standardised(pairs.states), label_of(pairs.elapsed, edges), len(edges) + 1
        step = np.repeat(np.arange(len(pairs.lengths)), pairs.lengths)
        mean = np.add.reduceat(z, pairs.lengths.cumsum() - pairs.lengths)[step] / pairs.lengths[step, None]
        run = runs_of(pairs.sample)
        within = np.zeros(((run.max() + 1) * labels, z.shape[1]))
        np.add.at(within, run[step] * labels + label, z - mean)
        means = np.zeros((labels, z.shape[1]))
        np.add.at(means, label, mean)
        return cls(np.bincount(label, minlength=labels), means, within.reshape(-1, labels, z.shape[1]))

    def strengths(self, signs: NDArray[np.float64]) -> NDArray[np.float64]:
        """[P, C] share of the variance that lies between bins, if runs have these signs [P, R]."""
        sums = self.means + np.tensordot(signs, self.within, 1)  # [P, L, C]
        between = (sums**2 / self.counts.clip(min=1)[:, None]).sum(1)
        return (between / self.counts.sum()).clip(max=1)  # rounding

    def strength(self) -> NDArray[np.float64]:
        """[C] share of the variance that lies between bins."""
        return self.strengths(np.ones((1, len(self.within))))[0]


def runs_of(sample: NDArray[np.int64]) -> NDArray[np.int64]:
    """Runs of steps, numbered, from the sample [steps] of each: samples, or parts of them where they are few."""
    counts = np.unique(sample, return_counts=True)[1]
    parts = -(-_RUNS // len(counts))
    number = np.concatenate([np.arange(n) * min(parts, n) // n for n in counts])
    return np.unique(np.repeat(np.arange(len(counts)), counts) * parts + number, return_inverse=True)[1]


def _standardised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.ptp(x, axis=0) <= _STILL, 0.0, standardised(x))
