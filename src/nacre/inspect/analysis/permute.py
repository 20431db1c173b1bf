"""Permuted labels, and what the best of many neurons reaches under them."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

TIE = 1e-9  # numbers that differ by no more than this share are equal
_NUMBERS = 2**24  # permuted labels at a time
_ONE_IN = 20  # 5 %


class Control(StrEnum):
    """How labels are permuted."""

    SHIFT = "shift"  # those of each sample in a circle
    SAMPLES = "samples"  # among samples, of which each has one; states are means over a sample then


class Permuted:
    """Permutations of labels, made when they are wanted.

    Args:
        label: [n] labels, sample after sample.
        lengths: [samples] how many of them each sample has.
        control: How they are permuted.
        count: How many permutations.
        seed: Of the permutations.

    Example:
        >>> import numpy as np
        >>> permuted = Permuted(np.array([0, 0, 1, 2, 3]), np.array([3, 2]), Control.SHIFT, 100, seed=0)
        >>> sorted({str(labels) for block in permuted.blocks() for labels in block})[:2]
        ['[0 0 1 2 3]', '[0 0 1 3 2]']
    """

    def __init__(
        self, label: NDArray[np.int64], lengths: NDArray[np.int64], control: Control, count: int, seed: int
    ) -> None:
        self.label, self.count, self._control = label, count, control
        random = np.random.default_rng(seed)
        if control is Control.SAMPLES:
            self._drawn = random.permuted(np.tile(np.arange(len(label)), (count, 1)), axis=1)
        else:
            # Offset 0 is one of them: with it, the shifts of a circle are a group, and p is exact.
            self._drawn = random.integers(0, lengths, (count, len(lengths)))
            self._sample = np.repeat(np.arange(len(lengths)), lengths)
            self._start = np.repeat(lengths.cumsum() - lengths, lengths)
            self._size = np.repeat(lengths, lengths)

    def blocks(self) -> Iterator[NDArray[np.int64]]:
        """Labelings [p, n], all of them in the end."""
        size = max(1, _NUMBERS // len(self.label))
        for i in range(0, self.count, size):
            drawn = self._drawn[i : i + size]
            if self._control is Control.SHIFT:
                step = np.arange(len(self.label)) - self._start + drawn[:, self._sample]
                drawn = self._start + step % self._size
            yield self.label[drawn]


def threshold(best: NDArray[np.float64]) -> float:
    """What is exceeded by accident with a chance of about 5 %; shifts in short samples are a little too lenient.

    Args:
        best: [P] the best of all neurons in each permutation. The truth counts as one more of them.

    Returns:
        The threshold; infinite where there are too few permutations to say.

    Example:
        >>> import numpy as np
        >>> threshold(np.arange(19.0)), threshold(np.arange(18.0)), threshold(np.arange(39.0))
        (18.0, inf, 37.0)
    """
    allowed = (len(best) + 1) // _ONE_IN
    return float(np.sort(best)[-allowed]) if allowed else float("inf")
