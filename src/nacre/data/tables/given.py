"""Sequences as people hold them in Python, arrays or frames, read like a table: to train on, and to answer for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import there_are
from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.data.tables.arrays import Ragged, from_arrays, read_rows
from nacre.data.tables.columns import Columns
from nacre.data.tables.csv_unlabelled import new_data, read_new
from nacre.data.tables.frames import are_frames, is_frame, pandas_of, table_of
from nacre.data.tables.gaps import settle
from nacre.data.tables.reading import Reading
from nacre.data.tables.table_task import Asked, read_task
from nacre.data.tables.when import clock_of, seconds_by

if TYPE_CHECKING:
    import pandas as pd

SEQUENCE, TIME, TARGET = "sequence", "time", "y"  # columns that arrays have no names for
Sequences = Any  # [n, T, F], n items [T_i, F], a frame, or n frames


@dataclass(frozen=True)
class Given:
    """How X is to be read, in `fit`.

    Attributes:
        reading: What a recipe's `[data]` says of columns.
        features: Names of the inputs; None for all columns, or numbered ones.
        name: Of the data set.
        lookback: In forecasting, the rows that a forecast sees.
        horizon: In forecasting, the rows that are forecast.
    """

    reading: Reading
    features: Sequence[str] | None = None
    name: str = "data"
    lookback: int = 48
    horizon: int = 24


def read_given(
    x: Sequences,
    y: Any,  # noqa: ANN401 (labels or numbers in any form)
    classes: bool,
    time: Any = None,  # noqa: ANN401
    groups: Any = None,  # noqa: ANN401
    given: Given | None = None,
) -> tuple[Dataset, Columns]:
    """The data set of some sequences and their answers, and how new ones are read in the same way.

    Args:
        x: Sequences.
        y: An answer for each sequence, or for each step of each; of frames also the name of a column.
        classes: Whether answers are classes, or numbers.
        time: Stamps, numbers or dates: [n, T], or n items [T_i]; of frames the name of a column.
        groups: [n] labels of what is not split; of a frame the column that tells its sequences apart.
        given: How to read it.

    Example:
        >>> data, columns = read_given([[[1.0], [2.0]], [[3.0]]], ["calm", "storm"], True)
        >>> data.classes, columns.features
        (('calm', 'storm'), ('x',))
    """
    given = given or Given(Reading())
    if is_frame(x):
        return _from_frame(pandas_of(x), y, classes, time, groups, given)
    if are_frames(x):
        return _from_frames([pandas_of(item) for item in x], y, classes, time, groups, given)
    return _from_arrays(x, y, classes, time, groups, given)


def read_new_given(x: Sequences, time: Any, columns: Columns) -> tuple[Dataset, pd.DataFrame]:  # noqa: ANN401
    """Sequences to answer for, read by the columns of those that were trained on, and a table for the answers.

    Args:
        x: Sequences, in any of the forms of `read_given`, or a CSV file.
        time: Stamps, in any of its forms; None for the column of the same name as in training.
        columns: What columns are.
    """
    if isinstance(x, str | os.PathLike):
        return read_new(Path(x), columns)
    if is_frame(x) or are_frames(x):
        frame = pandas_of(x) if is_frame(x) else _stacked([pandas_of(item) for item in x], time, columns)
        if isinstance(time, str) and time != columns.time:
            frame = frame.rename(columns={time: columns.time})
        reading = columns.reading
        return new_data(table_of(frame, "X", columns.group, reading.texts, reading.gaps), columns)
    return _new_arrays(x, time, columns)


def _from_arrays(
    x: Any,  # noqa: ANN401
    y: Any,  # noqa: ANN401
    classes: bool,
    time: Any,  # noqa: ANN401
    groups: Any,  # noqa: ANN401
    given: Given,
) -> tuple[Dataset, Columns]:
    if isinstance(time, str) or isinstance(groups, str):
        argument, name = ("time", time) if isinstance(time, str) else ("groups", groups)
        raise ValueError(f"{argument}={name!r} names a column, but X holds arrays; give {argument} as a list")
    if isinstance(y, str):
        raise ValueError(f"y={y!r} names a column, but X holds arrays; give y as a list")
    x = _sized(x)
    clock = clock_of(time)
    stamps = None if time is None else seconds_by(clock, time)
    reading = given.reading
    if reading.variable or reading.categories:
        raise ValueError("variable and categories are of frames, but X holds arrays; leave them out of columns")
    answers = _items_of(y)
    data = from_arrays(
        x,
        answers,
        time=stamps,
        group=_labels(groups, len(answers)),
        kind=str(_kind_of(x, answers, classes)),
        name=given.name,
        features=given.features,
        missing=reading.missing,
        static=reading.static,
    )
    steps = data.time.diff()[data.time.diff() > 0]
    columns = Columns(
        kind=data.kind,
        time=_free(TIME, data.features),
        target=data.targets or (TARGET,),
        group=_free(SEQUENCE, data.features),
        features=data.features,
        classes=data.classes,
        lookback=given.lookback,
        horizon=given.horizon,
        pieces=False,
        clock=clock,
        step=float(steps.median()) if len(steps) else 1.0,
        reading=reading,
    )
    return replace(data, time_unit="" if clock.origin is None else "seconds"), columns


def _items_of(y: Any) -> Any:  # noqa: ANN401
    """Answers as a list or an array."""
    if y is None:
        raise ValueError("y is missing; give an answer for each sequence")
    return np.asarray(y) if hasattr(y, "iloc") else _sized(y)


def _sized(x: Any) -> Any:  # noqa: ANN401
    """What has no length but can be an array, as an array."""
    return np.asarray(x) if hasattr(x, "__array__") and not hasattr(x, "__len__") else x


def _kind_of(x: Any, y: Any, classes: bool) -> Kind:  # noqa: ANN401
    """What is asked: an answer for each step where y holds as many as there are steps."""
    each = len(x) == len(y) and all(np.ndim(b) > 0 and len(a) == len(b) for a, b in zip(x, y, strict=True))
    if classes:
        if not each and any(np.ndim(item) > 0 for item in y):
            raise ValueError("y must hold one class for each sequence, or one for each step of each sequence")
        return Kind.STEP_CLASSIFICATION if each else Kind.CLASSIFICATION
    return Kind.STEP_REGRESSION if each else Kind.REGRESSION


def _labels(groups: Any, sequences: int) -> list[object] | None:  # noqa: ANN401
    if groups is None:
        return None
    labels = list(groups.tolist() if hasattr(groups, "tolist") else groups)
    if len(labels) != sequences:
        raise ValueError(f"groups must hold {sequences:,} labels, one for each sequence, got {len(labels):,}")
    return labels


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _from_frame(
    frame: pd.DataFrame,
    y: Any,  # noqa: ANN401
    classes: bool,
    time: Any,  # noqa: ANN401
    groups: Any,  # noqa: ANN401
    given: Given,
) -> tuple[Dataset, Columns]:
    names = [str(name) for name in frame.columns]
    for argument, value, what in (("time", time, "stamps"), ("groups", groups, "the sequence of each row")):
        if not isinstance(value, str):
            came = "nothing" if value is None else type(value).__name__
            raise ValueError(
                f"X is a frame, so {argument} must be the name of its column of {what}, got {came}; "
                f"there are {', '.join(map(repr, names))}"
            )
        if value not in names:
            raise ValueError(f"{argument}={value!r} is no column of X; {there_are(value, names)}")
    if not isinstance(y, str):
        frame, y = _with_answers(frame, y, groups)
    elif y not in names:
        raise ValueError(f"y={y!r} is no column of X; {there_are(y, names)}")
    constant = bool((frame.groupby(groups, sort=False)[y].nunique() <= 1).all())
    kinds = (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION) if classes else (Kind.REGRESSION, Kind.STEP_REGRESSION)
    return read_frame(frame, y, kinds[not constant], time, groups, given)


def read_frame(
    frame: pd.DataFrame, target: str, kind: Kind, time: str, group: str | None, given: Given
) -> tuple[Dataset, Columns]:
    """The data set of a frame, as `nacre.data.from_frame` reads it, and how new ones are read in the same way."""
    reading = given.reading
    asked = Asked(time, target, group, str(kind), given.features, given.lookback, given.horizon, reading)
    return read_task(table_of(frame, given.name, group, reading.texts, reading.gaps), asked)


def _with_answers(frame: pd.DataFrame, y: Any, groups: str) -> tuple[pd.DataFrame, str]:  # noqa: ANN401
    """The frame with a column of answers, and its name."""
    import pandas as pd

    code, names = pd.factorize(frame[groups])
    target = _free(str(getattr(y, "name", None) or TARGET), [str(name) for name in frame.columns])
    if isinstance(y, dict):
        y = pd.Series(y)
    if hasattr(y, "index") and hasattr(y, "iloc") and set(names) <= set(y.index):
        answers = y.loc[names].to_numpy()
    else:
        answers = np.asarray(_items_of(y))
    if answers.ndim != 1 or len(answers) not in (len(names), len(frame)):
        raise ValueError(
            f"y must hold one answer for each of the {len(names):,} sequences of X, or for each of its "
            f"{len(frame):,} rows, or be the name of a column, got shape {answers.shape}"
        )
    return frame.assign(**{target: answers[code] if len(answers) == len(names) else answers}), target


def _from_frames(
    frames: list[pd.DataFrame],
    y: Any,  # noqa: ANN401
    classes: bool,
    time: Any,  # noqa: ANN401
    groups: Any,  # noqa: ANN401
    given: Given,
) -> tuple[Dataset, Columns]:
    if isinstance(groups, str):
        raise ValueError(f"X is a list of frames, one for each sequence; give groups as a list, got {groups!r}")
    names = [str(name) for name in frames[0].columns]
    when, which = time if isinstance(time, str) else _free(TIME, names), _free(SEQUENCE, names)
    labels = _labels(groups, len(frames))
    stacked = _stack(frames, time, when, which)
    if not isinstance(y, str) and len(_items_of(y)) == len(frames) and np.ndim(y[0]) > 0:
        y = np.concatenate([np.asarray(item) for item in y])  # an answer for each row
    data, columns = _from_frame(stacked, y, classes, when, which, given)
    return (data if labels is None else regrouped(data, labels)), columns


def regrouped(data: Dataset, labels: Sequence[object]) -> Dataset:
    """A data set whose groups are numbers of sequences, by their labels [n]."""
    kept = [str(labels[int(name)]) for name in data.groups]
    codes = {label: number for number, label in enumerate(dict.fromkeys(kept))}
    group = torch.tensor([codes[label] for label in kept])[data.group]
    return replace(data, group=group, groups=tuple(codes))


def _stacked(frames: list[pd.DataFrame], time: Any, columns: Columns) -> pd.DataFrame:  # noqa: ANN401
    return _stack(frames, time, columns.time, columns.group or SEQUENCE)


def _stack(frames: list[pd.DataFrame], time: Any, when: str, which: str) -> pd.DataFrame:  # noqa: ANN401
    """One frame of several, with a column of stamps and one that numbers them."""
    import pandas as pd

    parts = []
    for number, frame in enumerate(frames):
        part = frame.assign(**{which: number})
        if not isinstance(time, str) and (time is not None or when not in frame.columns):
            part = part.assign(**{when: np.arange(len(frame)) if time is None else np.asarray(time[number])})
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _new_arrays(x: Ragged, time: Any, columns: Columns) -> tuple[Dataset, pd.DataFrame]:  # noqa: ANN401
    """Arrays to answer for; the table has a row for each answer, with the number of its sequence."""
    import pandas as pd

    if isinstance(time, str):
        raise ValueError(f"time={time!r} names a column, but X holds arrays; give time as a list")
    inputs, gaps = columns.inputs, columns.reading.gaps
    rows = read_rows(_sized(x), None if time is None else seconds_by(columns.clock, time), None, (), gaps=gaps)
    if rows.values.shape[1] != len(inputs):
        names = ", ".join(inputs[:8]) + (", ..." if len(inputs) > 8 else "")
        raise ValueError(
            f"X has {rows.values.shape[1]} features, but training had {len(inputs)}: {names}; give the same ones, "
            "in the same order"
        )
    count, kind = len(rows.length), columns.kind
    start, length = torch.from_numpy(rows.start), torch.from_numpy(rows.length)
    if kind is Kind.FORECASTING:
        used = length.clamp(max=columns.lookback)
        start, length = start + length - used, used
    each = int(length.sum()) if kind.each_step else count
    owner = np.arange(count).repeat(length.numpy() if kind.each_step else 1)
    answers = pd.DataFrame({columns.group or SEQUENCE: owner})
    data = Dataset(
        name="X",
        kind=kind,
        values=torch.from_numpy(rows.values),
        time=torch.from_numpy(rows.time),
        start=start,
        length=length,
        y=unknown(columns, each),
        group=torch.arange(count),
        groups=tuple(map(str, range(count))),
        features=inputs,
        one_hot=columns.one_hot,
        static=columns.static_inputs,
        classes=columns.classes,
        targets=columns.targets,
        target_column=inputs.index(columns.target[0]) if kind is Kind.FORECASTING else None,
        form="your own",
    )
    return settle(data, columns.reading.policy, known=False), answers


def unknown(columns: Columns, count: int) -> Tensor:
    """So many answers that are not known."""
    if columns.kind.has_classes:
        return torch.full((count,), UNSCORED)
    return torch.full((count, len(columns.targets)), float("nan"))
