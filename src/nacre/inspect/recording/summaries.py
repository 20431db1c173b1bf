"""Summaries of long curves, so that a picture of a hundred thousand steps reads a few thousand numbers.

Level 1 of an array [samples, steps, ...] has the smallest, the largest and the mean of each 8 steps,
[samples, steps / 8, 3, ...]; level 2 of each 64, and so on.
"""

import numpy as np
import zarr
from numpy.typing import NDArray

from nacre.inspect.recording.block_writer import BlockWriter, array_of, new_array

FACTOR = 8
FEWEST = 2048  # rows of which a picture takes all
_READ = 2**14  # rows at a time


def level_name(name: str, level: int) -> str:
    """Name of the array that holds a level; level 0 is the curve itself."""
    return name if level == 0 else f"{name}.{FACTOR**level}"


def write_levels(group: zarr.Group, name: str, lengths: list[int], heads: int | None = None) -> None:
    """Write the summaries of an array beside it, reading it a block at a time.

    Args:
        group: Where the array is.
        name: Its name.
        lengths: Steps of each sample; what lies behind them is padding.
        heads: The dimension of heads, which are read one by one; None if it has none.
    """
    level, steps = 0, lengths
    while max(lengths) > FEWEST:
        below = array_of(group, level_name(name, level))
        finer, lengths = lengths, [-(-length // FACTOR) for length in lengths]
        level += 1
        inner = below.shape[2:] if level == 1 else below.shape[3:]
        shape = (below.shape[0], max(lengths), 3, *inner)
        writer = BlockWriter(
            new_array(group, level_name(name, level), shape, "float32", apart=heads and heads + 1)
        )
        for sample, length in enumerate(lengths):
            for start in range(0, length, _READ // FACTOR):
                stop = min(start + _READ // FACTOR, length)
                rows = np.asarray(below[sample, start * FACTOR : min(stop * FACTOR, finer[sample])])
                each = counts_of(steps[sample], level - 1, start * FACTOR, len(rows))
                writer.put(sample, start, summary(rows if level > 1 else np.stack([rows] * 3, 1), FACTOR, each))
        writer.flush()


def counts_of(length: int, level: int, first: int, rows: int) -> NDArray[np.int64]:
    """Steps that each of some rows of a level stands for: the last one of all may have fewer."""
    edges = np.arange(first, first + rows + 1) * FACTOR**level
    return np.diff(edges.clip(max=length))


def summary(rows: NDArray, size: int, counts: NDArray) -> NDArray:
    """Smallest, largest and mean [ceil(n / size), 3, ...] of each so many rows [n, 3, ...] of such summaries.

    Args:
        rows: The finer summaries.
        size: How many of them make one.
        counts: [n] steps that each of them stands for.

    Example:
        >>> import numpy as np
        >>> summary(np.stack([np.arange(5.0)] * 3, 1), 2, np.ones(5)).tolist()
        [[0.0, 1.0, 0.5], [2.0, 3.0, 2.5], [4.0, 4.0, 4.0]]
    """
    rows = np.asarray(rows, np.float32)
    edges = np.arange(0, len(rows), size)
    each = np.asarray(counts, np.float32).reshape(-1, *[1] * (rows.ndim - 2))
    return np.stack(
        [
            np.minimum.reduceat(rows[:, 0], edges),
            np.maximum.reduceat(rows[:, 1], edges),
            np.add.reduceat(rows[:, 2] * each, edges) / np.add.reduceat(each, edges),
        ],
        1,
    )
