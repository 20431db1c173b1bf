"""`from_arrays`: a data set from arrays, tensors or lists of your own."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.checks import choice
from nacre.data.dataset import UNSCORED, Dataset, Kind, check_labels
from nacre.data.missing import Missing
from nacre.data.tables.gaps import settle, spread_static, unscored
from nacre.data.tables.none import close_gaps, none_as_nan
from nacre.data.tables.targets import classes_of

Ragged = np.ndarray | Tensor | Sequence[Any]  # [n, ...], or n items of different lengths
_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)
_log = logging.getLogger("nacre")


def from_arrays(
    x: Ragged,
    y: Ragged,
    *,
    time: Ragged | None = None,
    group: Sequence[object] | NDArray | Tensor | None = None,
    kind: str | None = None,
    name: str = "arrays",
    features: Sequence[str] | None = None,
    missing: str = "error",
    static: Sequence[str] = (),
) -> Dataset:
    """Make a data set of n sequences, which may differ in length.

    The form of y decides what is asked, unless `kind` is given:

    | y | text, bools or integers | floats |
    |---|---|---|
    | one for each sequence: [n] | classification | regression |
    | several for each sequence: [n, D] | regression | regression |
    | one for each step: [n, T], or n items [T_i] | step-classification | step-regression |
    | several for each step: [n, T, D], or n items [T_i, D] | step-regression | step-regression |

    Where D equals the length of every sequence, [n, D] is taken for one number a step, unless `kind` is given.

    Args:
        x: [n, T, F] numbers, or n items [T_i, F]; without F it is one feature.
        y: The answers, as above. A step of integer class -100 is not scored.
        time: [n, T] stamps or n items [T_i] that never go back within a sequence; None counts steps 0, 1, 2, ...
        group: [n] labels of what must not be split between training and test, such as persons; None makes each
            sequence a group of its own.
        kind: One of `nacre.data.Kind`, without forecasting. "multi-label" asks for several 0 or 1 [n, D].
        name: Short name, part of file names.
        features: F names; None calls them x0, x1, ...
        missing: What is done about NaN and None in x: "error", "flags", "last" or "events", as
            `nacre.data.Missing` says. Unless it is "error", answers that are NaN or None are not scored.
        static: Names of features that never change within a sequence, such as an age.

    Raises:
        ValueError: If shapes do not fit, or numbers are missing or not finite.

    Example:
        >>> data = from_arrays([[[1.0], [2.0]], [[3.0]]], ["calm", "storm"])
        >>> print(data.kind, data.classes, data.length.tolist())
        classification ('calm', 'storm') [2, 1]
    """
    if not name or "/" in name or "\\" in name:
        raise ValueError(f"name must be fit for a file name, got {name!r}")
    choice("missing", missing, Missing)
    policy = Missing(missing)
    gaps = policy is not Missing.ERROR
    rows = read_rows(x, time, features, static, gaps=gaps)
    known, unknown = close_gaps(y) if gaps else (y, None)
    found, answers, notes = _answers(known, rows.length, kind)
    answers, classes = _classes(answers, found, unknown) if found.has_classes else (_finite(answers), ())
    codes, groups = _groups(group, len(rows.length))
    y_all = torch.from_numpy(answers)
    data = Dataset(
        name=name,
        kind=found,
        values=torch.from_numpy(rows.values),
        time=torch.from_numpy(rows.time),
        start=torch.from_numpy(rows.start),
        length=torch.from_numpy(rows.length),
        y=y_all if unknown is None else unscored(y_all, unknown.reshape(answers.shape)),
        group=torch.from_numpy(codes),
        groups=groups,
        features=rows.features,
        static=rows.static,
        classes=classes,
        targets=() if found.has_classes else numbered("y", answers.shape[1]),
        form="your own",
        notes=notes,
    )
    return settle(check_labels(data), policy)


class ArrayRows(NamedTuple):
    """The steps of all sequences, one after the other."""

    values: NDArray[np.float32]  # [N, F]
    time: NDArray[np.float64]  # [N]
    length: NDArray[np.int64]  # [n] steps of each sequence
    features: tuple[str, ...]
    static: tuple[int, ...]  # places of the features that never change within a sequence

    @property
    def start(self) -> NDArray[np.int64]:
        """[n] first row of each sequence."""
        return np.cumsum(self.length) - self.length


def read_rows(
    x: Ragged, time: Ragged | None, features: Sequence[str] | None, static: Sequence[str], *, gaps: bool
) -> ArrayRows:
    """The steps of sequences, checked; arguments as those of `from_arrays`, `gaps` says whether x may hold NaN."""
    sequences = [_two_dimensional(item, number) for number, item in enumerate(_items("x", x, gaps))]
    if not sequences:
        raise ValueError("x must hold at least one sequence, got none")
    lengths = np.array([len(item) for item in sequences], np.int64)
    values = _joined("x", sequences, lengths, np.float32, gaps)  # [N, F]
    names = _names(features, values.shape[1])
    places = _static(values, np.cumsum(lengths) - lengths, lengths, names, static)
    return ArrayRows(values, _stamps(time, lengths), lengths, names, places)


def _static(
    values: NDArray, start: NDArray, lengths: NDArray, names: tuple[str, ...], static: Sequence[str]
) -> tuple[int, ...]:
    """Places of the static features, which are the same in all rows of a sequence afterwards."""
    if isinstance(static, str):
        raise ValueError(f"static must be a list of names, got {static!r}; write [{static!r}]")
    for name in static:
        choice("static", name, names)
    places = tuple(names.index(name) for name in static)
    changed = spread_static(values, start, places)
    if changed is not None:
        row, column = changed
        number, step = _place(row, lengths)
        raise ValueError(
            f"static: {names[column]!r} changes within sequence {number}, to {values[row, column]} at step "
            f"{step}; leave it out of static"
        )
    return places


def _items(argument: str, value: Ragged, gaps: bool = False) -> list[NDArray]:
    """The items of an array, a tensor or a list, each as an array; None is NaN where there may be gaps."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray | Tensor):
        if not hasattr(value, "__array__"):  # a pandas column has it
            raise ValueError(f"{argument} must be an array, a tensor or a list, got {type(value).__name__}")
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        value = value.tolist()  # of sequences that differ in length, or of text
    if isinstance(value, np.ndarray | Tensor):
        try:
            whole = _array(value, gaps)
        except ValueError as error:
            raise ValueError(f"{argument} {error}") from None
        if whole.ndim == 0:
            raise ValueError(f"{argument} must hold one item for each sequence, got a single number")
        return list(whole)
    items = []
    for number, item in enumerate(value):
        try:
            items.append(_array(item, gaps))
        except ValueError as error:
            raise ValueError(f"{argument}: item {number} {error}") from None
    return items


def _array(value: object, gaps: bool = False) -> NDArray:
    if isinstance(value, Tensor):
        try:
            dense = value.detach().to_dense().cpu()
            value = (
                dense.float() if dense.is_floating_point() and dense.dtype not in _NUMPY_HAS else dense
            ).numpy()
        except (TypeError, NotImplementedError, RuntimeError) as error:
            raise ValueError(f"is a tensor on {value.device} that cannot be read: {error}") from None
    try:
        array = np.asarray(value)
        # Python strings in an array of objects, as pandas keeps them, become an array of text.
        if array.dtype == object and array.ndim:
            array = np.asarray(array.tolist())
    except ValueError as error:
        raise ValueError(f"is not an array of one shape: {error}") from None
    if array.dtype == object and gaps:
        array = none_as_nan(array)
    if array.dtype == object:
        odd = next((item for item in np.ravel(array) if not np.isscalar(item)), 0)
        wrong = "an integer beyond 64 bits" if odd == 0 else "None" if odd is None else f"a {type(odd).__name__}"
        hint = "; say missing='flags' if it was not observed" if odd is None else ""
        raise ValueError(f"holds {wrong}, wanted are numbers or text{hint}")
    return array


def _two_dimensional(item: NDArray, number: int) -> NDArray:
    if item.ndim == 1:
        item = item[:, None]
    if item.ndim != 2 or item.shape[0] == 0 or item.shape[1] == 0:
        raise ValueError(
            f"x must be [n, T, F] or n items [T, F] with one step and one feature at least, got shape "
            f"{item.shape} for sequence {number}"
        )
    return item


def _joined(argument: str, items: list[NDArray], lengths: NDArray, dtype: type, gaps: bool = False) -> NDArray:
    """[N, ...] numbers of all sequences, concatenated; refuse those that do not fit or are not finite.

    NaN is not refused where there may be gaps.
    """
    if len(items) != len(lengths):
        raise ValueError(f"{argument} must hold {len(lengths):,} items, one for each sequence, got {len(items):,}")
    for number, (item, length) in enumerate(zip(items, lengths, strict=True)):
        if item.dtype.kind not in "biuf":
            raise ValueError(f"{argument} must hold numbers, got {item.dtype} in sequence {number}")
        if item.shape[:1] != (length,) or item.shape[1:] != items[0].shape[1:]:
            wanted = (int(length), *items[0].shape[1:])
            raise ValueError(f"{argument} must have shape {wanted} for sequence {number}, got {item.shape}")
    with np.errstate(over="ignore"):
        joined = np.concatenate(items).astype(dtype)
    lost = (np.isinf(joined) if gaps else ~np.isfinite(joined)).reshape(len(joined), -1).any(1)
    if lost.any():
        number, step = _place(int(lost.argmax()), lengths)
        raise ValueError(
            f"{argument} must be finite, got {items[number][step]} in sequence {number}, step {step}; "
            + ("fill missing numbers, or say missing='flags'" if argument == "x" else "leave the step out")
        )
    joined[np.isnan(joined)] = np.nan  # one NaN is as good as another
    return joined


def _place(row: int, lengths: NDArray) -> tuple[int, int]:
    """Sequence and step of a row."""
    number = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
    return number, row - int(lengths[:number].sum())


def _stamps(time: Ragged | None, lengths: NDArray) -> NDArray[np.float64]:
    """[N] stamps that never go back within a sequence."""
    if time is None:
        return np.concatenate([np.arange(length, dtype=np.float64) for length in lengths])
    items = [item[:, 0] if item.ndim == 2 and item.shape[1] == 1 else item for item in _items("time", time)]
    if any(item.ndim != 1 for item in items):
        raise ValueError("time must be [n, T] or n items [T], one stamp for each step of each sequence")
    stamps = _joined("time", items, lengths, np.float64)
    late = np.diff(stamps) < 0
    late[np.cumsum(lengths)[:-1] - 1] = False  # from one sequence to the next
    if late.any():
        row = int(late.argmax()) + 1
        number, step = _place(row, lengths)
        raise ValueError(
            f"time must not go back within a sequence, got {stamps[row]} after {stamps[row - 1]} in sequence "
            f"{number}, step {step}; sort the steps by time"
        )
    return stamps


def _answers(y: Ragged, lengths: NDArray, kind: str | None) -> tuple[Kind, NDArray, tuple[str, ...]]:
    """The kind; labels [n] or [N], or numbers [n, D] or [N, D]; and notes."""
    if kind is not None:
        choice("kind", kind, [option for option in Kind if option is not Kind.FORECASTING])
    items = _items("y", y)
    if len(items) != len(lengths):
        raise ValueError(f"y must hold {len(lengths):,} items, one for each sequence, got {len(items):,}")
    depth = items[0].ndim
    if any(item.ndim != depth for item in items) or depth > 2:
        raise ValueError("y must hold one answer for each sequence, or one for each step of each sequence")
    fits_steps = depth > 0 and all(len(item) == length for item, length in zip(items, lengths, strict=True))
    each_step = fits_steps if kind is None else Kind(kind).each_step
    if each_step and not fits_steps:
        number = next((i for i, item in enumerate(items) if item.shape[:1] != (lengths[i],)), 0)
        raise ValueError(
            f"y must hold one answer for each step: {lengths[number]:,} of them in sequence {number}, "
            f"got shape {items[number].shape}"
        )
    return _named_kind(kind, items, each_step)


def _named_kind(kind: str | None, items: list[NDArray], each_step: bool) -> tuple[Kind, NDArray, tuple[str, ...]]:
    width = {item.shape[each_step:] for item in items}  # of one answer: () or (D,)
    if len(width) > 1 or len(min(width)) > 1:
        raise ValueError(
            "y must hold one answer for each step of each sequence, or equally many numbers for each sequence, "
            f"got shapes {', '.join(str(item.shape) for item in items[:4])}"
        )
    answers = np.concatenate(items) if each_step else np.stack(items)
    one_label = answers.ndim == 1 and answers.dtype.kind != "f"
    if kind is not None:
        found, notes = Kind(kind), ()
    else:
        found = Kind.CLASSIFICATION if one_label else Kind.REGRESSION
        found = Kind(f"step-{found}") if each_step else found
        a_label = "one label" if one_label else "numbers"
        where = "step" if each_step else "sequence"
        notes = (f"The task is {found}, because y holds {a_label} for each {where}; give kind to choose another.",)
        _log.info(notes[0])
    if found.has_classes and answers.ndim > 1:
        raise ValueError(f"y must hold one class for each answer in {found}, got {answers.shape[1]}")
    return found, answers if found.has_classes or answers.ndim > 1 else answers[:, None], notes


def _classes(
    labels: NDArray, kind: Kind, unknown: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes and their names; steps of class -100 keep it, and what is unknown gets it."""
    if labels.dtype.kind == "f" and not (labels == np.rint(labels)).all():
        odd = labels[(labels != np.rint(labels)).argmax()]
        raise ValueError(f"y must hold text, bools or whole numbers in {kind}, got {odd}")
    asked = labels != UNSCORED if kind.each_step and labels.dtype.kind in "iuf" else np.ones(len(labels), bool)
    if unknown is not None:
        asked &= ~unknown
    classes = np.full(len(labels), UNSCORED, np.int64)
    classes[asked], names = classes_of(labels[asked])
    if len(names) < 2:
        raise ValueError(f"y must hold two classes or more, got {', '.join(map(repr, names)) or 'none'}")
    return classes, names


def _finite(y: NDArray) -> NDArray[np.float32]:
    """Numbers [m, D]; refuse what is not finite."""
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, got {y.dtype}; give kind='classification' for classes")
    with np.errstate(over="ignore"):
        cast = y.astype(np.float32)
    lost = ~np.isfinite(cast).all(1)
    if lost.any():
        raise ValueError(f"y must be finite, got {y[lost.argmax()]} at answer {int(lost.argmax()):,}")
    return cast


def _groups(group: Sequence[object] | NDArray | Tensor | None, sequences: int) -> tuple[NDArray, tuple[str, ...]]:
    """[n] group of each sequence, and names in the order of appearance."""
    if group is None:
        return np.arange(sequences), tuple(str(number) for number in range(sequences))
    if isinstance(group, str) or not hasattr(group, "__iter__"):
        raise ValueError(f"group must be a list of labels, one for each sequence, got {group!r}")
    labels = [str(label) for label in (group.tolist() if isinstance(group, np.ndarray | Tensor) else group)]
    if len(labels) != sequences:
        raise ValueError(f"group must hold {sequences:,} labels, one for each sequence, got {len(labels):,}")
    codes = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([codes[label] for label in labels], np.int64), tuple(codes)


def _names(features: Sequence[str] | None, width: int) -> tuple[str, ...]:
    if features is None:
        return numbered("x", width)
    names = tuple(features) if hasattr(features, "__iter__") else ()
    if len(names) != width or len(set(names)) != width or isinstance(features, str):
        raise ValueError(f"features must be {width} different names, one for each feature of x, got {features!r}")
    return names


def numbered(stem: str, count: int) -> tuple[str, ...]:
    """Names of columns that have none."""
    return (stem,) if count == 1 else tuple(f"{stem}{number}" for number in range(count))
