"""Arrays on disk: written a chunk at a time, with summaries of long curves.

A figure of a hundred thousand steps reads a few thousand numbers. Level 1 of an array [samples, steps, ...] has
the smallest, the largest and the mean of each 8 steps, [samples, steps / 8, 3, ...]; level 2 of each 64; etc.
"""

from collections.abc import Sequence

import numpy as np
import zarr
from numpy.typing import NDArray

FACTOR = 8  # steps of level 1, and rows of a level that become one of the next
FEWEST = 2048  # rows from which on there is a further level
_CHUNK_BYTES = 2**20
_READ = 2**14  # rows at a time


def new_array(
    group: zarr.Group, name: str, shape: Sequence[int], dtype: str, apart: int | None = None
) -> zarr.Array:
    """An array [samples, steps, ...] of zeros in chunks of a megabyte at most, each of one sample.

    Of the dimension `apart`, each chunk has one index only, so that one can be read without the others.
    """
    inner = [1 if i == apart else size for i, size in enumerate(shape)][2:]
    row = max(1, int(np.prod(inner)) * np.dtype(dtype).itemsize)
    steps = min(2 ** int(np.log2(max(1, _CHUNK_BYTES // row))), max(1, shape[1]))
    # Uncompressed: floating-point noise hardly shrinks, and the viewer reads faster.
    return group.create_array(
        name, shape=tuple(shape), chunks=(1, steps, *inner), dtype=dtype, fill_value=0, compressors=None
    )


def array_of(group: zarr.Group, name: str) -> zarr.Array:
    """An array of a recording."""
    if name not in group:
        there = ", ".join(sorted(group.array_keys()))
        raise ValueError(f"name must be an array of the recording, got {name!r}; there are {there}")
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


class Arrays:
    """Finished arrays of a group. Each is opened once, because opening takes longer than reading. Thread-safe."""

    def __init__(self, group: zarr.Group) -> None:
        self._group = group
        self._names = set(group.array_keys())
        self._open: dict[str, zarr.Array] = {}

    def __contains__(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self._names

    def __getitem__(self, name: str) -> zarr.Array:
        """An array by its name."""
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = array_of(self._group, name)
        return found


class BlockWriter:
    """Writes rows of an array from `new_array` in ascending order, and reads nothing back.

    Rows that are never written stay zero.
    """

    def __init__(self, array: zarr.Array) -> None:
        self.array = array
        self._size = array.chunks[1]
        self._block = np.zeros((self._size, *array.shape[2:]), array.dtype)
        self._at: tuple[int, int] | None = None  # sample and block

    def put(self, sample: int, step: int, rows: NDArray) -> None:
        """Take rows [n, ...] of a sample, from a step on."""
        while len(rows):
            block, place = divmod(step, self._size)
            if self._at != (sample, block):
                self.flush()
                self._at = (sample, block)
            count = min(self._size - place, len(rows))
            self._block[place : place + count] = rows[:count]
            rows, step = rows[count:], step + count

    def flush(self) -> None:
        """Write the block in memory."""
        if self._at is not None:
            sample, block = self._at
            start = block * self._size
            stop = min(start + self._size, self.array.shape[1])
            self.array[sample, start:stop] = self._block[: stop - start]
            self._block[...] = 0
            self._at = None


def level_name(name: str, level: int) -> str:
    """Name of the array that holds a level; level 0 is the curve itself."""
    return name if level == 0 else f"{name}.{FACTOR**level}"


def write_levels(group: zarr.Group, name: str, lengths: list[int], heads: int | None = None) -> None:
    """Write the summaries of an array beside it, reading it a block at a time.

    Args:
        group: Where the array is.
        name: Its name.
        lengths: Steps of each sample; later ones are padding.
        heads: The dimension of heads, which are read one by one; None if it has none.
    """
    level, steps = 0, lengths
    while max(lengths) > FEWEST:
        below = array_of(group, level_name(name, level))
        finer, lengths = lengths, [-(-length // FACTOR) for length in lengths]
        level += 1
        inner = below.shape[2:] if level == 1 else below.shape[3:]
        shape = (below.shape[0], max(lengths), 3, *inner)
        apart = None if heads is None else heads + 1
        writer = BlockWriter(new_array(group, level_name(name, level), shape, "float32", apart))
        for sample, length in enumerate(lengths):
            for start in range(0, length, _READ // FACTOR):
                stop = min(start + _READ // FACTOR, length)
                rows = np.asarray(below[sample, start * FACTOR : min(stop * FACTOR, finer[sample])])
                each = _counts(steps[sample], level - 1, start * FACTOR, len(rows))
                writer.put(sample, start, summary(rows if level > 1 else np.stack([rows] * 3, 1), FACTOR, each))
        writer.flush()


def read_curve(
    arrays: Arrays,
    name: str,
    sample: int,
    start: int,
    stop: int,
    points: int,
    length: int,
    head: int | None = None,
) -> tuple[NDArray, NDArray]:
    """See `LayerRecording.curve`; `length` is that of the sample."""
    level, size = 0, max(1, (stop - start) // max(1, points))  # steps of a summary
    while FACTOR ** (level + 1) <= size and level_name(name, level + 1) in arrays:
        level += 1
    unit = FACTOR**level
    array = arrays[level_name(name, level)]
    first, last = start // unit, -(-stop // unit)
    place = (sample, slice(first, last), *([slice(None)] * (level > 0)), *([] if head is None else [head]))
    rows = np.asarray(array[place], np.float32)
    if level == 0:
        rows = np.repeat(rows[:, None], 3, 1)
    each = max(1, size // unit)
    if each > 1:
        rows = summary(rows, each, _counts(length, level, first, len(rows)))
    return np.arange(first, last, each) * unit, rows


def _counts(length: int, level: int, first: int, rows: int) -> NDArray[np.int64]:
    """Steps that each of some rows of a level stands for: the last row of the sample may have fewer."""
    edges = np.arange(first, first + rows + 1) * FACTOR**level
    return np.diff(edges.clip(max=length))


def summary(rows: NDArray, size: int, counts: NDArray) -> NDArray:
    """Smallest, largest and mean [ceil(n / size), 3, ...] of each `size` rows [n, 3, ...] of finer summaries.

    `counts` [n] says how many steps each of the finer ones stands for.

    Example:
        >>> import numpy as np
        >>> summary(np.stack([np.arange(5.0)] * 3, 1), 2, np.ones(5)).tolist()
        [[0.0, 1.0, 0.5], [2.0, 3.0, 2.5], [4.0, 4.0, 4.0]]
    """
    rows = np.asarray(rows, np.float32)
    edges = np.arange(0, len(rows), size)
    each = np.asarray(counts, np.float32).reshape(-1, *[1] * (rows.ndim - 2))
    low, high = np.minimum.reduceat(rows[:, 0], edges), np.maximum.reduceat(rows[:, 1], edges)
    mean = np.add.reduceat(rows[:, 2] * each, edges) / np.add.reduceat(each, edges)
    return np.stack([low, high, mean], 1)
