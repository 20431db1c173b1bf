"""Association of columns of numbers with labels: mutual information, F of an analysis of variance, permutations.

Many labelings are tried on the same columns, so both statistics come from matrix products: the counts of steps in
each bin with each label, and the sums of each column over the steps with each label.
"""

import math
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

TIE = 1e-9  # numbers that differ by no more than this share are equal
_ELEMENTS = 2**23  # of a one-hot matrix
_NUMBERS = 2**24  # permuted labels at a time
ONE_IN = 20  # 5 %


def quantile_bins(x: NDArray, bins: int) -> NDArray[np.int64]:
    """Cut columns [n, C] at their quantiles: [n, C] numbers of bins. Columns with ties may have fewer bins.

    Example:
        >>> import numpy as np
        >>> quantile_bins(np.arange(6.0)[:, None], 3).squeeze().tolist()
        [0, 0, 1, 1, 2, 2]
    """
    edges = np.quantile(x, np.arange(1, bins) / bins, axis=0)  # [bins - 1, C]
    found = np.zeros(x.shape, np.int64)
    for edge in edges:
        found += x >= edge
    return found


def standardised(x: NDArray) -> NDArray[np.float64]:
    """Columns [n, C] with mean 0 and variance 1; zeros where a column is constant."""
    x = np.asarray(x, np.float64)
    x = x - x.mean(0)
    spread = x.std(0)
    return x / np.where(spread > 0, spread, 1.0)


def associate(
    z: NDArray[np.float64], binned: NDArray[np.int64], labelings: NDArray[np.int64], labels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mutual information and F of each column under each of many labelings.

    Args:
        z: [n, C] from `standardised`.
        binned: [n, C] from `quantile_bins`, numbers from 0 on.
        labelings: [P, n] labels of the steps from 0 to labels - 1. All labelings have the same counts of labels.
        labels: How many labels there are; some may not occur.

    Returns:
        Information in bits (the plug-in estimate, which is too large by about (bins - 1)(labels - 1) / (2 n ln 2)
        bits for independent steps) and F, [P, C] each. F is 0 where a column is constant.
    """
    count = np.bincount(labelings[0], minlength=labels)
    information, f = (np.empty((len(labelings), z.shape[1])) for _ in range(2))
    for some in _blocks(len(labelings), len(z) * labels):
        hot = _one_hot(labelings[some], labels)  # [n, p * L]
        sums = (z.T @ hot.astype(np.float64)).reshape(z.shape[1], -1, labels)  # [C, p, L]
        f[some] = _f_of(sums, count).T
        information[some] = _information(binned, hot, count).T
    return information, f


def _information(binned: NDArray[np.int64], hot: NDArray[np.float32], count: NDArray[np.int64]) -> NDArray:
    """[C, p] bits."""
    steps, columns = binned.shape
    bins, labels = int(binned.max()) + 1, len(count)
    xlogx = np.arange(steps + 1, dtype=np.float64)
    xlogx[1:] *= np.log2(xlogx[1:])
    of_labels = xlogx[count].sum()
    found = np.empty((columns, hot.shape[1] // labels))
    for some in _blocks(columns, steps * bins):
        boxes = _one_hot(binned[:, some].T, bins)  # [n, c * bins]
        joint = (boxes.T @ hot).astype(np.int64)  # counts below 2**24 are exact in float32
        of_bins = xlogx[boxes.sum(0, dtype=np.float64).astype(np.int64)].reshape(-1, bins).sum(1)  # [c]
        of_both = xlogx[joint].reshape(-1, bins, found.shape[1], labels).sum((1, 3))  # [c, p]
        found[some] = (of_both - of_bins[:, None] - of_labels + xlogx[steps]) / steps
    return found.clip(min=0)  # rounding


def _f_of(sums: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
    """F [C, p] from sums [C, p, L] of standardised columns over steps with each label."""
    steps, groups = int(count.sum()), int((count > 0).sum())
    between = (sums**2 / count.clip(min=1)).sum(-1)
    within = (steps - between).clip(min=0)  # all of a standardised column is its number of steps
    with np.errstate(divide="ignore", invalid="ignore"):
        f = (between / (groups - 1)) / (within / (steps - groups))
    return np.where(between > 0, f, 0.0)


def _one_hot(numbers: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """[m, n] numbers below `size` -> [n, m * size]."""
    hot = np.zeros((numbers.shape[1], len(numbers), size), np.float32)
    hot[np.arange(numbers.shape[1])[:, None], np.arange(len(numbers)), numbers.T] = 1
    return hot.reshape(len(hot), -1)


def _blocks(count: int, each: int) -> Iterator[slice]:
    """Slices of `count` things, each of so many numbers, that fit the memory."""
    size = max(1, _ELEMENTS // max(1, each))
    return (slice(i, min(i + size, count)) for i in range(0, count, size))


def arrangements(counts: NDArray[np.int64]) -> int:
    """In how many ways labels of which there are so many can be given to as many samples.

    Example:
        >>> import numpy as np
        >>> arrangements(np.array([2, 2])), arrangements(np.array([8, 8]))
        (6, 12870)
    """
    parts = [int(count) for count in counts]
    return math.factorial(sum(parts)) // math.prod(math.factorial(part) for part in parts)


def most_information(counts: NDArray[np.int64], bins: int) -> float:
    """Bits that a state cut into bins can have about labels of which there are so many, at most.

    Example:
        >>> import numpy as np
        >>> most_information(np.array([4, 4]), 8), most_information(np.array([4, 4, 4, 4]), 2)
        (1.0, 1.0)
    """
    share = counts[counts > 0] / counts.sum()
    return min(float(-(share * np.log2(share)).sum()), math.log2(bins))


class PermutationControl(StrEnum):
    """How labels are permuted."""

    SHIFT = "shift"  # those of each sample in a circle
    SAMPLES = "samples"  # among samples, of which each has one; states are means over a sample then


class Permuted:
    """`count` permutations of the labels [n] of all samples, of which each has `lengths` [samples] many.

    Example:
        >>> import numpy as np
        >>> permuted = Permuted(np.array([0, 0, 1, 2, 3]), np.array([3, 2]), PermutationControl.SHIFT, 100, seed=0)
        >>> sorted({str(labels) for block in permuted.blocks() for labels in block})[:2]
        ['[0 0 1 2 3]', '[0 0 1 3 2]']
    """

    def __init__(
        self,
        label: NDArray[np.int64],
        lengths: NDArray[np.int64],
        control: PermutationControl,
        count: int,
        seed: int,
    ) -> None:
        self.label, self.count, self._control = label, count, control
        random = np.random.default_rng(seed)
        if control is PermutationControl.SAMPLES:
            self._drawn = random.permuted(np.tile(np.arange(len(label)), (count, 1)), axis=1)
        else:
            # Offset 0 is one of them: with it, the shifts of a circle are a group, and p is exact.
            self._drawn = random.integers(0, lengths, (count, len(lengths)))
            self._sample = np.repeat(np.arange(len(lengths)), lengths)
            self._start = np.repeat(lengths.cumsum() - lengths, lengths)
            self._size = np.repeat(lengths, lengths)

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """Labelings [p, n], block by block."""
        size = max(1, _NUMBERS // len(self.label))
        for i in range(0, self.count, size):
            drawn = self._drawn[i : i + size]
            if self._control is PermutationControl.SHIFT:
                step = np.arange(len(self.label)) - self._start + drawn[:, self._sample]
                drawn = self._start + step % self._size
            yield self.label[drawn]


def threshold(best: NDArray[np.float64]) -> float:
    """What the best of all neurons exceeds by chance with a probability of about 5 %.

    `best` [P] is the best of all neurons in each permutation; the true labels count as one more. The threshold is
    infinite if there are too few permutations. Shifts in short samples make it a little too low.

    Example:
        >>> import numpy as np
        >>> threshold(np.arange(19.0)), threshold(np.arange(18.0)), threshold(np.arange(39.0))
        (18.0, inf, 37.0)
    """
    allowed = (len(best) + 1) // ONE_IN
    return float(np.sort(best)[-allowed]) if allowed else float("inf")
