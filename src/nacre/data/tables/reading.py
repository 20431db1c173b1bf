"""`Reading`: how a table is read as it comes: unsorted, with repeated stamps, decimal commas, names."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice, flag
from nacre.data.missing import Missing
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
        missing: What is done about cells that are missing, one of `Missing`.
        static: Inputs that never change within a sequence.
        variable: In a long table, the column that names what was observed; empty for none.
        value: In a long table, the column of what was observed.
    """

    sort: bool = False
    duplicates: str = Duplicates.ERROR
    decimal: str = "."
    categories: tuple[str, ...] = ()
    missing: str = Missing.ERROR
    static: tuple[str, ...] = ()
    variable: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        """Check them."""
        flag("sort", self.sort)
        choice("duplicates", self.duplicates, Duplicates)
        choice("decimal", self.decimal, (".", ","))
        choice("missing", self.missing, Missing)
        for argument, names in (("categories", self.categories), ("static", self.static)):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{argument} must be a list of columns, got {names!r}")
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{argument} must be different columns, got {twice!r} twice")
        self._check_long()
        if self.variable:  # all else that a long table tells is static
            object.__setattr__(self, "static", self.beside)

    def _check_long(self) -> None:
        if bool(self.variable) != bool(self.value):
            raise ValueError(
                "variable and value belong together: the columns of a long table that say what was observed, "
                f"got variable={self.variable!r} and value={self.value!r}"
            )
        if not self.variable:
            return
        if self.missing == Missing.ERROR:
            raise ValueError(
                "a long table (variable=..., value=...) has no value of most variables at most stamps; say "
                "missing='flags', 'last' or 'events'"
            )
        if self.duplicates == Duplicates.KEEP and self.missing != Missing.EVENTS:
            raise ValueError("duplicates='keep' in a long table needs missing='events'; say 'mean' or 'error'")

    @property
    def policy(self) -> Missing:
        """What is done about cells that are missing."""
        return Missing(self.missing)

    @property
    def texts(self) -> dict[str, str]:
        """Columns that are read as text, and what for."""
        return dict.fromkeys(self.categories, "categories") | (
            {self.variable: "variable"} if self.variable else {}
        )

    @property
    def beside(self) -> tuple[str, ...]:
        """Inputs of a long table that are columns: they are static."""
        return tuple(dict.fromkeys((*self.static, *self.categories)))

    @property
    def is_events(self) -> bool:
        """Whether the rows of a long table are the steps of its sequences."""
        return bool(self.variable) and self.policy is Missing.EVENTS

    @property
    def gaps(self) -> bool:
        """Whether cells may be missing."""
        return self.policy is not Missing.ERROR

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "sort": self.sort,
            "duplicates": str(self.duplicates),
            "decimal": self.decimal,
            "categories": list(self.categories),
            "missing": str(self.missing),
            "static": list(self.static),
            "variable": self.variable,
            "value": self.value,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        names: dict[str, Any] = {key: tuple(data.get(key, ())) for key in ("categories", "static")}
        return cls(**data | names)


def vocabulary(table: Table, name: str) -> tuple[str, ...]:
    """The different names in a column of categories, sorted."""
    table.require("categories", name)
    cells = table.cells(name).dropna() if table.gaps else table.filled(name)
    found = tuple(sorted(set(cells.astype(str))))
    if not found:
        raise ValueError(f"{table.path}: categories: nothing was observed of {name!r}; leave it out")
    if len(found) > MOST_CATEGORIES:
        raise ValueError(
            f"categories: column {name!r} of {table.path} has {len(found):,} different names, at most "
            f"{MOST_CATEGORIES} can be inputs; leave it out, or make it the group if it names the sequences"
        )
    return found


def one_hot(table: Table, name: str, known: tuple[str, ...]) -> NDArray[np.float32]:
    """[N, names] 1 where a cell of a column holds that name; a name that is not known is nowhere 1.

    A cell that is missing is NaN.
    """
    cells = table.cells(name) if table.gaps else table.filled(name)
    hot = (cells.astype(str).to_numpy(object)[:, None] == np.array(known, object)).astype(np.float32)
    hot[cells.isna().to_numpy()] = np.nan
    return hot


def runs_of_equal(group: NDArray, time: NDArray) -> NDArray[np.int64]:
    """[m] where each run of rows with equal group [N] and stamp [N] begins; rows are sorted by both."""
    new = np.ones(len(time), bool)
    new[1:] = (np.diff(group) != 0) | (np.diff(time) != 0)
    return np.flatnonzero(new)


def means(values: NDArray, first: NDArray[np.int64]) -> NDArray:
    """Means [m, ...] of what is known in runs of rows [N, ...] that begin at `first`, summed in float64."""
    known = ~np.isnan(values)
    counts = np.add.reduceat(known.astype(np.int64), first, axis=0)
    sums = np.add.reduceat(np.where(known, values, 0.0).astype(np.float64), first, axis=0)
    with np.errstate(invalid="ignore"):
        return (sums / counts).astype(values.dtype)
