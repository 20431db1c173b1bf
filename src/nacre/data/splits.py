"""Splits: the training, validation and test sequences of each fold. No group is ever in two parts."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import Tensor

from nacre._util.checks import real, whole
from nacre.data.dataset import Dataset, Kind

_HELD_OUT = 5  # every so many groups, one is held out


class SplitBy(StrEnum):
    """What keeps the parts of a split apart."""

    GROUP = "group"  # each fold scores groups of its own
    OFFICIAL = "official"  # the official test part is scored, folds are validation parts of the rest
    TIME = "time"  # the last rows are scored, folds are blocks of time before them


@dataclass(frozen=True)
class Split:
    """One fold: indices of sequences.

    Attributes:
        train: What the network and its scaler see.
        valid: What chooses the checkpoint.
        test: What is scored, once, at the end.
        transfer: What comes from other machines and is scored separately; usually empty.
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    transfer: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    @property
    def digest(self) -> str:
        """Checksum of all parts."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid, self.test, *([self.transfer] if len(self.transfer) else [])):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()


def make_splits(data: Dataset, by: SplitBy, folds: int = 5, test_share: float = 0.2) -> list[Split]:
    """All folds of a data set.

    Args:
        data: What to split.
        by: What keeps parts apart.
        folds: Number of folds, at least 2; by group at least 3.
        test_share: By time, the share of rows at the end that is scored.

    Example:
        >>> from nacre.data import load_spirals
        >>> splits = make_splits(load_spirals(30), SplitBy.GROUP)
        >>> [len(part) for part in (splits[0].train, splits[0].valid, splits[0].test)]
        [18, 6, 6]
    """
    whole("folds", folds, 2)
    if data.transfer is not None and SplitBy(by) is not SplitBy.GROUP:
        raise ValueError(
            f"{data.name} has sequences of other machines, which only a split by 'group' keeps apart, got {by!r}"
        )
    match SplitBy(by):
        case SplitBy.GROUP:
            splits = _by_group(data, folds)
        case SplitBy.OFFICIAL:
            splits = _official(data, folds)
        case SplitBy.TIME:
            splits = _by_time(data, folds, real("test_share", test_share, 0.0, 0.9, open_low=True))
    for number, split in enumerate(splits):
        _check(data, split, number)
    return splits


def _by_group(data: Dataset, folds: int) -> list[Split]:
    """Fold i scores every folds-th group from group i on; the next fold's groups validate, the rest train."""
    home = torch.ones(len(data), dtype=torch.bool) if data.transfer is None else ~data.transfer
    present = data.group[home].unique()
    if folds < 3 or len(present) < folds:
        raise ValueError(
            f"{data.name}: folds must be 3 to {len(present)}, the number of groups, got {folds}; "
            "each fold needs groups of its own to train, to validate and to score"
        )
    present = _by_class(data, present)
    rank = torch.zeros(len(data.groups), dtype=torch.int64)
    rank[present] = torch.arange(len(present)) % folds
    fold = rank[data.group].masked_fill(~home, -1)  # [n]
    return [_split(fold >= 0, fold == (i + 1) % folds, fold == i, ~home) for i in range(folds)]


def _by_class(data: Dataset, groups: Tensor) -> Tensor:
    """Groups sorted by the class of their first sequence, so that every fold gets all classes."""
    if data.kind is not Kind.CLASSIFICATION:
        return groups
    first = torch.full((len(data.groups),), len(data)).scatter_reduce(
        0, data.group, torch.arange(len(data)), "amin"
    )
    return groups[data.y[first[groups]].argsort(stable=True)]


def hold_out(data: Dataset, groups: Collection[str] | None = None) -> Split:
    """Training and validation parts of a data set of which nothing is scored: no group is in both.

    Args:
        data: What to split.
        groups: Names of the groups that validate; None for every fifth one, of each class, but none whose class
            would not be left to train on. Of forecasts of fewer than five series, it is the last fifth of each.

    Example:
        >>> from nacre.data import load_spirals
        >>> split = hold_out(load_spirals(30))
        >>> len(split.train), len(split.valid), len(split.test)
        (24, 6, 0)
    """
    present = data.group.unique()
    if data.kind is Kind.FORECASTING and groups is None and len(present) < _HELD_OUT:
        block = _blocks(data, 1, 1 / _HELD_OUT)
        return _split(block >= 0, block == 1, torch.zeros_like(block, dtype=torch.bool))
    if len(present) < 2:
        raise ValueError(
            f"{data.name}: a part must be held out, but there is one group only, "
            f"{data.groups[int(present[0])]!r}; give more sequences, or groups that tell more of them apart"
        )
    if groups is None:
        count = min(_HELD_OUT, len(present))
        chosen = _by_class(data, present)[1::count]
    else:
        unknown = [name for name in groups if name not in data.groups]
        if unknown:
            raise ValueError(f"no group is called {unknown[0]!r}; there are {', '.join(data.groups[:8])}, ...")
        chosen = torch.tensor([data.groups.index(name) for name in groups], dtype=torch.int64)
    valid = torch.isin(data.group, chosen)
    if data.kind is Kind.CLASSIFICATION and groups is None:
        valid &= torch.isin(data.y, data.y[~valid])
    none = torch.zeros_like(valid)
    split = _split(~none, valid, none)
    for part, index in (("training", split.train), ("validation", split.valid)):
        if len(index) == 0:
            raise ValueError(f"{data.name}: the {part} part is empty; hold out some groups, but not all")
    return split


def _official(data: Dataset, folds: int) -> list[Split]:
    """Every fold is scored on the official test part; fold i validates on the i-th part of the other groups."""
    if data.test is None:
        raise ValueError(f"{data.name} has no official test part; split by 'group' or by 'time'")
    rest = (~data.test).nonzero().squeeze(1)
    groups, unit = data.group[rest].unique(return_inverse=True)
    if len(groups) < folds:  # too few to keep together
        unit = torch.arange(len(rest))
    units = int(unit.max()) + 1
    # Shuffled by a seed of its own, because files may be sorted by class.
    order = torch.randperm(units, generator=torch.Generator().manual_seed(0))
    part_of = torch.empty(units, dtype=torch.int64)
    part_of[order] = torch.arange(units) % folds
    part = torch.full((len(data),), -1)
    part[rest] = part_of[unit]
    return [_split(part >= 0, part == i, data.test) for i in range(folds)]


def _by_time(data: Dataset, folds: int, test_share: float) -> list[Split]:
    """The last rows of each group are scored; the rows before are `folds` blocks, fold i validates on block i."""
    block = _blocks(data, folds, test_share)
    return [_split(block >= 0, block == i, block == folds) for i in range(folds)]


def _blocks(data: Dataset, folds: int, test_share: float) -> Tensor:
    """[n] which block of time holds all rows that a sequence uses, inputs and targets; -1 across a border."""
    block = torch.full((len(data),), -1)  # [n]: 0 ... folds - 1, folds = test, -1 = across a border
    for group in data.group.unique():
        members = (data.group == group).nonzero().squeeze(1)
        start, stop = data.start[members], data.stop[members]
        first, last = int(start.min()), int(stop.max())
        train_rows = round((last - first) * (1 - test_share))
        borders = first + torch.tensor([train_rows * (i + 1) // folds for i in range(folds)])
        inside = torch.bucketize(start, borders, right=True)  # block of the first row
        whole_inside = inside == torch.bucketize(stop - 1, borders, right=True)
        block[members] = torch.where(whole_inside, inside, -1)
    return block


def _split(used: Tensor, valid: Tensor, test: Tensor, transfer: Tensor | None = None) -> Split:
    """A fold from masks [n]; what is used but neither validates nor is scored trains."""
    masks = (used & ~valid & ~test, valid, test, *([] if transfer is None else [transfer]))
    return Split(*(mask.nonzero().squeeze(1) for mask in masks))


def _check(data: Dataset, split: Split, number: int) -> None:
    for part, index in (("training", split.train), ("validation", split.valid), ("test", split.test)):
        if len(index) == 0:
            raise ValueError(
                f"{data.name}: the {part} part of fold {number} is empty; use fewer folds or shorter windows"
            )
    if data.classes:
        known = data.answers(split.train).unique()
        asked = data.answers(split.test).unique()
        missing = [data.classes[i] for i in asked.tolist() if i not in known]
        if missing:
            raise ValueError(
                f"{data.name}: fold {number} is scored on {', '.join(map(repr, missing))}, which never occurs in "
                "its training part; use fewer folds, merge classes, or give the class to more groups"
            )


def spread(index: Tensor, most: int) -> Tensor:
    """So many of these indices at most, spread evenly over them.

    Example:
        >>> spread(torch.arange(10), 4)
        tensor([0, 3, 6, 9])
    """
    return index if len(index) <= most else index[torch.linspace(0, len(index) - 1, most).long()]
