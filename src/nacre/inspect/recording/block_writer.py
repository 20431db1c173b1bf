"""`BlockWriter`: rows that come one after the other, written to a chunked array a whole chunk at a time."""

from collections.abc import Sequence

import numpy as np
import zarr
from numpy.typing import NDArray

_CHUNK_BYTES = 2**20


def new_array(
    group: zarr.Group, name: str, shape: Sequence[int], dtype: str, apart: int | None = None
) -> zarr.Array:
    """An array [samples, steps, ...] of zeros in chunks of a megabyte at most, each of one sample.

    Args:
        group: Where it goes.
        name: Its name.
        shape: Its shape.
        dtype: Its type.
        apart: A dimension of which each chunk has one place only, so that one can be read without the others.
    """
    inner = [1 if i == apart else size for i, size in enumerate(shape)][2:]
    row = max(1, int(np.prod(inner)) * np.dtype(dtype).itemsize)
    steps = min(2 ** int(np.log2(max(1, _CHUNK_BYTES // row))), max(1, shape[1]))
    # Uncompressed: floating-point noise hardly shrinks, and the viewer wants to read it at once.
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
    """Arrays of a group that nobody writes to any more. Each is opened once: that takes longer than reading.

    Args:
        group: Where they are.
    """

    def __init__(self, group: zarr.Group) -> None:
        self._group = group
        self._names = set(group.array_keys())
        self._open: dict[str, zarr.Array] = {}

    def __contains__(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self._names

    def __getitem__(self, name: str) -> zarr.Array:
        """An array; several threads may ask."""
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = array_of(self._group, name)
        return found


class BlockWriter:
    """Writes rows of an array [samples, steps, ...] in any order that goes forward, and reads nothing back.

    Args:
        array: From `new_array`. Rows that never come stay zero.
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
        """Write the block at hand."""
        if self._at is not None:
            sample, block = self._at
            start = block * self._size
            stop = min(start + self._size, self.array.shape[1])
            self.array[sample, start:stop] = self._block[: stop - start]
            self._block[...] = 0
            self._at = None
