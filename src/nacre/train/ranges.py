"""How far each feature went in training, and where new data lies outside of that: networks do not extrapolate."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.text import json_text
from nacre.data.dataset import Dataset

RANGES = "inputs.json"  # in the directory of a run
_BEYOND = 0.1  # of the range in training: what lies farther outside is named
_SHOWN = 8  # features


def write_ranges(directory: Path, data: Dataset, train: Tensor) -> None:
    """Write the smallest and largest value of each feature in these training sequences; of images, nothing."""
    if not data.has_images:
        write_atomic(directory / RANGES, json_text(ranges_of(data, train)).encode())


def ranges_of(data: Dataset, train: Tensor) -> dict[str, list[float]]:
    """The smallest and largest value of each feature in these training sequences; of images, nothing."""
    if data.has_images:
        return {}
    observed = _observed(data, data.known_values(train))
    return {name: [float(known.min()), float(known.max())] for name, known in observed if len(known)}


def _observed(data: Dataset, values: Tensor) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """What was observed of each feature but names of categories, among these rows, or events, of a data set."""
    numbers = [number for number in range(len(data.features)) if number not in data.one_hot]
    if data.has_events:
        variable, order = values[:, 0].long().sort()
        ends = variable.bincount(minlength=len(data.features)).cumsum(0)
        columns = values[order, 1].tensor_split(ends[:-1])
    else:
        columns = values.unbind(1)
    for number in numbers:
        column = columns[number]
        yield data.features[number], column[column.isfinite()].double().numpy()


def far_outside(directory: Path, data: Dataset) -> list[str]:
    """A line for each feature of new data that lies far outside of what a run saw in training, the worst first.

    A line before them names the features of which nothing was observed. Runs of before there was such a file know
    nothing.
    """
    return outside(read_ranges(directory), data)


def read_ranges(directory: Path) -> dict[str, list[float]]:
    """What `write_ranges` wrote; nothing if there is no such file."""
    path = directory / RANGES
    if not path.is_file():
        return {}
    try:
        known = json.loads(path.read_bytes())
        return {str(name): [float(low), float(high)] for name, (low, high) in known.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}; delete it to predict without its warnings") from None


def outside(known: Mapping[str, Sequence[float]], data: Dataset) -> list[str]:
    """As `far_outside`, of known ranges."""
    if data.has_images or not known:
        return []
    said, silent = [], []
    for name, column in _observed(data, data.values):
        if name not in known:
            continue
        if not len(column):
            silent.append(repr(name))
            continue
        low, high = known[name]
        off = np.maximum(low - column, column - high)  # beyond the range
        far = off > _BEYOND * (high - low)
        if far.any():
            worst = int(off.argmax())
            times = f", {off[worst] / (high - low):.3g} times the range beyond it" if high > low else ""
            rows = f"{int(far.sum()):,} of {len(column):,} values, the farthest is {column[worst]:.6g}{times}"
            line = f"{name!r} lies far outside of what training saw, {low:.6g} to {high:.6g}: {rows}"
            said.append((off[worst] / max(high - low, 1e-300), line))
    lines = [line for _, line in sorted(said, reverse=True)]
    lines = lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more features"]
    more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
    if silent:
        lines.insert(0, f"nothing was observed of {', '.join(silent[:_SHOWN])}{more}, which training knew")
    return lines
