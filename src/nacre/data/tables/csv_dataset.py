"""`from_csv` and `from_frame`: a data set from a table of your own, one row for each observation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nacre.data.dataset import Dataset
from nacre.data.tables.cells import read_table
from nacre.data.tables.columns import Columns
from nacre.data.tables.frames import table_of
from nacre.data.tables.reading import Reading
from nacre.data.tables.table_task import Asked, read_task

if TYPE_CHECKING:
    import pandas as pd


def from_csv(
    path: str | os.PathLike[str],
    *,
    time: str,
    target: str | Sequence[str],
    group: str | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    lookback: int = 48,
    horizon: int = 24,
    sort: bool = False,
    duplicates: str = "error",
    decimal: str = ".",
    categories: Sequence[str] = (),
    missing: str = "error",
    static: Sequence[str] = (),
    variable: str = "",
    value: str = "",
) -> Dataset:
    """Read a CSV file: one row for each observation, groups one after the other or mixed.

    Args:
        path: The file: UTF-8, with a header; separated by commas, semicolons or tabs; `.gz` is unpacked.
        time: Column of stamps, numbers or dates; dates become seconds since the earliest one of the file. Within a
            group stamps must ascend, unless `sort` and `duplicates` say otherwise.
        target: Column to predict; for regressions it may be several.
        group: Column that names the sequence of a row: patient, machine, recording; None if there is one only.
        kind: What is asked, one of `nacre.data.Kind`; None infers it by the table at
            `nacre.data.tables.targets.infer_kind`, and says so in the log and in the notes of the data set.
        features: Input columns. None takes all columns of numbers, without time, group and target. In forecasting
            the past of the target is always an input.
        lookback: In forecasting, the rows a forecast sees. Where every step has an answer and there are fewer than
            three groups, series are cut into pieces of this many rows.
        horizon: In forecasting, the rows that are forecast.
        sort: Whether to sort rows by time within their group; otherwise stamps that go back are refused.
        duplicates: What becomes of equal stamps within a group: "error", "keep" (each row is a step of its own) or
            "mean" (one row, the mean of their numbers).
        decimal: What stands between a number's whole part and its fraction, "." or ",".
        categories: Columns that hold names, such as a machine's type. Each name becomes an input, 1 or 0; of names
            that a fold's training part lacks, its network learns nothing, and they count as unknown.
        missing: What is done about empty cells, and about NaN, NA, N/A, null and None: "error", "flags", "last" or
            "events", as `nacre.data.Missing` says. Unless it is "error", targets that are missing are not scored.
        static: Inputs that never change within a group, such as an age; of a category, too.
        variable: In a long table, which has one row for each observed value, the column that says of what. Its
            names become the features, or those that `features` names; columns of its own are static.
        value: In a long table, the column of values.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If something is wrong with the file, with its line and what to do; or if a column is not there.

    Example:
        >>> rows = ["who,second,pulse,state", "ann,0,61,calm", "ann,9,64,calm", "bob,0,90,tense", "bob,4,97,tense"]
        >>> _ = (tmp / "pulse.csv").write_text(chr(10).join(rows))
        >>> data = from_csv(tmp / "pulse.csv", time="second", target="state", group="who")
        >>> print(data.kind, data.features, data.classes, data.length.tolist())
        classification ('pulse',) ('calm', 'tense') [2, 2]
    """
    options = kind, features, lookback, horizon, sort, duplicates, decimal, categories
    return read_csv_task(path, time, target, group, *options, missing, static, variable, value)[0]


def from_frame(
    frame: pd.DataFrame,
    *,
    time: str,
    target: str | Sequence[str],
    group: str | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    lookback: int = 48,
    horizon: int = 24,
    sort: bool = False,
    duplicates: str = "error",
    categories: Sequence[str] = (),
    missing: str = "error",
    static: Sequence[str] = (),
    variable: str = "",
    value: str = "",
    name: str = "frame",
) -> Dataset:
    """A data set from a frame of pandas; arguments as those of `from_csv`, and `name`, part of file names.

    Example:
        >>> import pandas as pd
        >>> rows = [("ann", 0, "pulse", 61), ("ann", 5, "weight", 70), ("bob", 0, "pulse", 90)]
        >>> frame = pd.DataFrame(rows, columns=["who", "hour", "what", "number"])
        >>> frame["state"] = frame["who"].map({"ann": "calm", "bob": "tense"})
        >>> asked = {"time": "hour", "target": "state", "group": "who", "variable": "what", "value": "number"}
        >>> data = from_frame(frame, **asked, missing="flags")
        >>> print(data.features, data.values.tolist())
        ('pulse', 'weight') [[61.0, nan], [nan, 70.0], [90.0, nan]]
    """
    reading = Reading(sort, duplicates, ".", tuple(categories), missing, tuple(static), variable, value)
    asked = Asked(time, target, group, kind, features, lookback, horizon, reading)
    return read_task(table_of(frame, name, group, reading.texts, reading.gaps), asked)[0]


def read_csv_task(
    path: str | os.PathLike[str],
    time: str,
    target: str | Sequence[str],
    group: str | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    lookback: int = 48,
    horizon: int = 24,
    sort: bool = False,
    duplicates: str = "error",
    decimal: str = ".",
    categories: Sequence[str] = (),
    missing: str = "error",
    static: Sequence[str] = (),
    variable: str = "",
    value: str = "",
) -> tuple[Dataset, Columns]:
    """As `from_csv`, and how to read new files in the same way."""
    for argument, names in (("categories", categories), ("static", static)):
        if isinstance(names, str):
            raise ValueError(f"{argument} must be a list of columns, got {names!r}; write [{names!r}]")
    reading = Reading(sort, duplicates, decimal, tuple(categories), missing, tuple(static), variable, value)
    asked = Asked(time, target, group, kind, features, lookback, horizon, reading)
    table = read_table(path, group, reading.texts, decimal, reading.gaps, asked.targets)
    return read_task(table, asked)
