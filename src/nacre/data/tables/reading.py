"""`Reading`: how a table is read as it comes: unsorted, with repeated stamps, decimal commas, names."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice, flag
from nacre.data.tables.cells import Table

MOST_CATEGORIES = 200  # of one column: each becomes an input


class Duplicates(StrEnum):
    """What becomes of rows of one group with equal stamps."""

    ERROR = "error"
    """They are refused."""
    KEEP = "keep"
    """Each stays a step of its own, in the file's order."""
    MEAN = "mean"
    """They become one row, the mean of their numbers; their classes must agree."""


@dataclass(frozen=True)
class Reading:
    """Options for tables as they come.

    Attributes:
        sort: Whether rows are sorted by time within their group; otherwise stamps that go back are refused.
        duplicates: What becomes of equal stamps: "error", "keep" or "mean".
        decimal: What stands between a number's whole part and its fraction, "." or ",".
        categories: Columns whose cells are names, not numbers. Each name becomes an input, 1 or 0.
    """

    sort: bool = False
    duplicates: str = Duplicates.ERROR
    decimal: str = "."
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check them."""
        flag("sort", self.sort)
        choice("duplicates", self.duplicates, Duplicates)
        choice("decimal", self.decimal, (".", ","))
        names = self.categories
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"categories must be a list of columns, got {names!r}")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"categories must be different columns, got {twice!r} twice")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sort": self.sort,
            "duplicates": str(self.duplicates),
            "decimal": self.decimal,
            "categories": list(self.categories),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls(**{**data, "categories": tuple(data.get("categories", ()))})


def vocabulary(table: Table, name: str) -> tuple[str, ...]:
    """The different names in a column of categories, sorted."""
    table.require("categories", name)
    found = tuple(sorted(set(table.filled(name).astype(str))))
    if len(found) > MOST_CATEGORIES:
        raise ValueError(
            f"categories: column {name!r} of {table.path} has {len(found):,} different names, at most "
            f"{MOST_CATEGORIES} can be inputs; leave it out, or make it the group if it names the sequences"
        )
    return found


def one_hot(table: Table, name: str, known: tuple[str, ...]) -> NDArray[np.float32]:
    """[N, names] 1 where a cell of a column holds that name; a name that is not known is nowhere 1."""
    cells = table.filled(name).astype(str).to_numpy(object)
    return (cells[:, None] == np.array(known, object)).astype(np.float32)


def runs_of_equal(group: NDArray, time: NDArray) -> NDArray[np.int64]:
    """[m] where each run of rows with equal group [N] and stamp [N] begins; rows are sorted by both."""
    new = np.ones(len(time), bool)
    new[1:] = (np.diff(group) != 0) | (np.diff(time) != 0)
    return np.flatnonzero(new)


def means(values: NDArray, first: NDArray[np.int64]) -> NDArray:
    """Means [m, ...] of runs of rows [N, ...] that begin at `first` [m], in float64 until the end."""
    counts = np.diff(np.append(first, len(values)))
    sums = np.add.reduceat(values.astype(np.float64), first, axis=0)
    return (sums / counts.reshape(-1, *[1] * (values.ndim - 1))).astype(values.dtype)
