"""The task that a target column suggests, and classes from labels."""

import numpy as np
from numpy.typing import NDArray

from nacre.data.dataset import Kind

MOST_CLASSES = 20  # more distinct whole numbers than this are a quantity, not classes
ROWS_A_CLASS = 10  # rows that each class of steps has, on average, if whole numbers are to be classes


def infer_kind(name: str, target: NDArray, group: NDArray) -> tuple[Kind, str]:
    """The task that a target column [N] suggests, given the group of each row [N], and the reason in words.

    | target within each group | groups | its cells | kind |
    |---|---|---|---|
    | one value only, in the whole file | any | any | `ValueError` |
    | constant | 2 or more | text, true/false, at most 20 whole numbers | classification |
    | constant | 2 or more | fractions, more than 20 whole numbers | regression |
    | changes | any | text, true/false, few whole numbers | step-classification |
    | changes | any | fractions, many whole numbers | forecasting |

    Numbers such as `1.0` are whole: many programs write them so for classes. Two distinct whole numbers are always
    few; three to 20 are few where each occurs ten times on average. Without a group column the file is one group,
    so its target changes. Step-regression is never guessed: it looks like forecasting.

    Example:
        >>> kind, why = infer_kind("label", np.array(["calm", "calm", "storm"]), np.array([0, 0, 1]))
        >>> print(kind, "-", why)
        classification - 'label' holds text that is constant within each of the 2 groups
    """
    if not (target != target[0]).any():
        raise ValueError(
            f"target {name!r} holds one value only, {target[0]!s}, so there is nothing to learn; "
            "choose another column, or a file with more rows"
        )
    _, first, code = np.unique(group, return_index=True, return_inverse=True)
    constant = bool((target == target[first[code]]).all())  # in two groups or more, since values differ
    cells, are_classes = _describe(target, 0 if constant else ROWS_A_CLASS)
    if constant:
        where = f"constant within each of the {len(first):,} groups"
        return Kind.CLASSIFICATION if are_classes else Kind.REGRESSION, f"{name!r} holds {cells} that is {where}"
    kind = Kind.STEP_CLASSIFICATION if are_classes else Kind.FORECASTING
    return kind, f"{name!r} holds {cells} that changes from row to row"


def _describe(target: NDArray, rows_a_class: int) -> tuple[str, bool]:
    """What the cells are, in words, and whether they are classes."""
    if is_text(target):
        return "text", True
    if target.dtype.kind == "b":
        return "true or false", True
    if not is_whole(target):
        return "a fractional number", False
    distinct = len(np.unique(target))
    enough_rows = distinct == 2 or distinct * rows_a_class <= len(target)
    words = f"a whole number ({distinct:,} distinct ones in {len(target):,} rows)"
    return words, distinct <= MOST_CLASSES and enough_rows


def is_text(cells: NDArray) -> bool:
    """Whether an array holds text (or anything else that is neither a number nor true or false)."""
    return cells.dtype.kind not in "biuf"


def is_whole(cells: NDArray) -> bool:
    """Whether all cells are true, false or numbers without a fraction."""
    return cells.dtype.kind in "biu" or (cells.dtype.kind == "f" and bool((cells == np.rint(cells)).all()))


def classes_of(labels: NDArray) -> tuple[NDArray, tuple[str, ...]]:
    """[N] int64 classes of labels [N] (text, bools or whole numbers), and the sorted names of the classes.

    Example:
        >>> classes_of(np.array([10.0, 9.0, 10.0]))
        (array([1, 0, 1]), ('9', '10'))
    """
    if labels.dtype.kind == "f":
        labels = labels.astype(np.int64)
    if is_text(labels):  # by a dict: sorting a million strings takes seconds
        texts = labels.tolist()
        names = tuple(sorted(set(texts)))
        number = {name: code for code, name in enumerate(names)}
        return np.fromiter(map(number.__getitem__, texts), np.int64, len(texts)), names
    values, classes = np.unique(labels, return_inverse=True)
    return classes.astype(np.int64), tuple(str(value) for value in values)
