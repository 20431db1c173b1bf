"""How much columns of numbers have to do with labels: mutual information and the F of an analysis of variance.

Many labelings are tried on the same columns, so both come from matrix products: the numbers of steps in each bin
with each label, and the sums of each column over the steps with each label.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_ELEMENTS = 2**23  # of a one-hot matrix


def quantile_bins(x: NDArray, bins: int) -> NDArray[np.int64]:
    """Cut columns at their quantiles; equal numbers are never parted, so that columns with ties have fewer bins.

    Args:
        x: [n, C].
        bins: How many bins.

    Returns:
        [n, C] numbers of bins.

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
    """Stretches of `count` things, each of so many numbers, that fit the memory."""
    size = max(1, _ELEMENTS // max(1, each))
    return (slice(i, min(i + size, count)) for i in range(0, count, size))
