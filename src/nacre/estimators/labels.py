"""Labels of classes: nacre names them by text, scikit-learn keeps what they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def flat(y: Any) -> NDArray:  # noqa: ANN401 (labels in any form)
    """Labels of sequences [n], or of steps, one after the other."""
    if hasattr(y, "to_numpy"):
        return y.to_numpy()
    if isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) > 0:
        return np.concatenate([np.asarray(item) for item in y])
    found = np.asarray(y)
    return found.reshape(-1)


def name_of(label: Any) -> str:  # noqa: ANN401
    """How nacre calls a class.

    Example:
        >>> name_of(1.0), name_of(np.True_), name_of("storm")
        ('1', 'True', 'storm')
    """
    if isinstance(label, float | np.floating) and label == int(label):
        return str(int(label))
    return str(label)


def labels_of(y: Any, names: Sequence[str]) -> NDArray:  # noqa: ANN401
    """Labels of the classes with these names, as they came.

    Example:
        >>> labels_of([3, 1, 3], ["1", "3"])
        array([1, 3])
    """
    known = {name_of(label): label for label in _present(y)}
    return np.array([known.get(name, name) for name in names])


def codes_of(y: Any, labels: NDArray) -> NDArray[np.int64]:  # noqa: ANN401
    """[m] places of labels among those of `fit`; refuses others."""
    place = {name_of(label): number for number, label in enumerate(labels)}
    names = [name_of(label) for label in flat(y)]
    odd = next((name for name in names if name not in place), None)
    if odd is not None:
        raise ValueError(f"y holds the class {odd!r}, which fit never saw; it knows {', '.join(place)}")
    return np.array([place[name] for name in names], np.int64)


def plain_labels(labels: NDArray) -> dict[str, Any]:
    """Labels for JSON."""
    return {"type": labels.dtype.kind, "values": labels.tolist()}


def restored(record: dict[str, Any]) -> NDArray:
    """Labels of a result file; of runs of `nacre train` the names of their classes."""
    kept = record.get("estimator", {}).get("labels")
    if kept is None:
        return np.array(record["classes"])
    return np.array(kept["values"], object if kept["type"] == "O" else None)


def _present(y: Any) -> list[Any]:  # noqa: ANN401
    """Labels that are there; NaN and None are none."""
    return [label for label in flat(y).tolist() if label is not None and label == label]
