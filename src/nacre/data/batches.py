"""Batches of sequences of similar length, in an order that depends on the seed and the step alone."""

import hashlib
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Sampler

from nacre._util.checks import whole
from nacre.data.dataset import UNSCORED, Batch, Dataset

Augmentation = Callable[[Dataset, Tensor, Generator], Batch]  # a randomly changed batch of these sequences

POOL = 50  # batches that are sorted by length together: little padding, and yet much of the order is random


class Indexed(TorchDataset):
    """A data set that torch's DataLoader can ask for a whole batch at once: `item[indices]`."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def __getitem__(self, index: Tensor) -> Batch:
        """The batch of these sequences."""
        return self.data.batch(index)


class Augmented(Indexed):
    """A data set with random augmentation, for training.

    What is drawn depends on the seed and the indices of a batch only: neither on how far torch's DataLoader
    prefetches, nor on where training was interrupted, nor on which process asks.
    """

    def __init__(self, data: Dataset, augmentation: Augmentation, seed: int) -> None:
        super().__init__(data)
        self.augmentation, self.seed = augmentation, seed

    def __getitem__(self, index: Tensor) -> Batch:
        """The augmented batch of these sequences."""
        drawn = hashlib.sha256(f"{self.seed} {index.tolist()}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(drawn[:4], "little"))  # a CPU's takes 32 bits
        return self.augmentation(self.data, index, generator)


class Rounds(Sampler):
    """Indices of training batches, a round of so many steps at a time.

    Epochs follow each other in one endless stream, each in an order of its own; a round is a section of it. Step s
    holds the same sequences whenever it is asked for, so training resumes exactly after a crash.

    Args:
        length: [m] lengths of the sequences to draw from.
        index: [m] their indices.
        batch_size: Sequences in a batch; the last of an epoch may be smaller, none is left out.
        steps: Batches in a round.
        seed: Seed of the order.

    Example:
        >>> rounds = Rounds(torch.tensor([5, 3, 4]), torch.tensor([10, 11, 12]), batch_size=2, steps=2, seed=0)
        >>> sorted(i for batch in rounds for i in batch.tolist())
        [10, 11, 12]
    """

    def __init__(self, length: Tensor, index: Tensor, batch_size: int, steps: int, seed: int) -> None:
        self.length, self.index, self.seed = length, index, seed
        self.batch_size = whole("batch_size", batch_size, 1)
        self.steps = whole("steps", steps, 1)
        self.round = 0
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    def set_epoch(self, epoch: int) -> None:
        """Choose the round; Lightning calls it so."""
        self.round = epoch

    def __len__(self) -> int:
        """Batches in a round."""
        return self.steps

    def __iter__(self) -> Iterator[Tensor]:
        """Indices of the batches of the chosen round."""
        for step in range(self.round * self.steps, (self.round + 1) * self.steps):
            yield self.batch_of(step)

    def batch_of(self, step: int) -> Tensor:
        """Indices of the sequences of a step, counted from the first one of training."""
        epoch, place = divmod(step, steps_of_epoch(len(self.index), self.batch_size))
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._shuffled(epoch))
        return self._epoch[1][place]

    def _shuffled(self, epoch: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.index), generator=generator)
        batches = [
            batch
            for pool in order.split(POOL * self.batch_size)
            for batch in pool[self.length[pool].argsort(stable=True)].split(self.batch_size)
        ]
        return [self.index[batches[i]] for i in torch.randperm(len(batches), generator=generator).tolist()]


def steps_of_epoch(sequences: int, batch_size: int) -> int:
    """Batches that hold every sequence once."""
    return -(-sequences // batch_size)


def by_length(length: Tensor, index: Tensor, batch_size: int) -> list[Tensor]:
    """Every sequence of `index` [m] once, in batches of similar `length` [m], for evaluation."""
    return list(index[length.argsort(stable=True)].split(batch_size))


def part_of(batch: Batch, part: int, parts: int) -> Batch:
    """Every `parts`-th sequence of a batch from number `part` on, for processes that share the batch.

    If the batch has too few sequences, the part is one of them with nothing to be scored.

    Example:
        >>> from nacre.data import from_arrays
        >>> data = from_arrays([[[1.0], [2.0]], [[3.0]], [[4.0]]], [5.0, 6.0, 7.0])
        >>> part_of(data.batch(torch.arange(3)), 1, 2).x.shape
        torch.Size([1, 2, 1])
    """
    if part < len(batch.x):
        return _some(batch, slice(part, None, parts))
    first = _some(batch, slice(1))
    return first._replace(y=torch.full_like(first.y, float("nan") if first.y.is_floating_point() else UNSCORED))


def _some(batch: Batch, rows: slice) -> Batch:
    return Batch(*(None if value is None else value[rows] for value in batch))  # pyright: ignore[reportArgumentType]
