"""How far each feature went in training, and where new data lies outside of that: networks do not extrapolate."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.text import json_text
from nacre.data.dataset import Dataset

RANGES = "inputs.json"  # in the directory of a run
_BEYOND = 0.1  # of the range in training: what lies farther outside is named
_SHOWN = 8  # features


def write_ranges(directory: Path, data: Dataset, train: Tensor) -> None:
    """Write the smallest and largest value of each feature in these training sequences; of images, nothing."""
    if not data.has_images and data.values.shape[-1] == len(data.features):
        write_atomic(directory / RANGES, json_text(ranges_of(data, train)).encode())


def ranges_of(data: Dataset, train: Tensor) -> dict[str, list[float]]:
    """The smallest and largest value of each feature in these training sequences; of images or events, none."""
    if data.has_images or data.values.shape[-1] != len(data.features):
        return {}
    values = data.known_values(train).double().numpy()
    found = {}
    for number, name in enumerate(data.features):
        known = values[:, number][np.isfinite(values[:, number])]
        if number not in data.one_hot and len(known):
            found[name] = [float(known.min()), float(known.max())]
    return found


def far_outside(directory: Path, data: Dataset) -> list[str]:
    """A line for each feature of new data that lies far outside of what a run saw in training, the worst first.

    Runs of before there was such a file know nothing.
    """
    return outside(read_ranges(directory), data)


def read_ranges(directory: Path) -> dict[str, list[float]]:
    """What `write_ranges` wrote; nothing if there is no such file."""
    path = directory / RANGES
    if not path.is_file():
        return {}
    try:
        return {
            str(name): [float(low), float(high)] for name, (low, high) in json.loads(path.read_bytes()).items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}; delete it to predict without its warnings") from None


def outside(known: Mapping[str, Sequence[float]], data: Dataset) -> list[str]:
    """A line for each feature of new data that lies far outside of known ranges, the worst first."""
    if data.values.shape[-1] != len(data.features):
        return []
    said = []
    for number, name in enumerate(data.features):
        if name not in known:
            continue
        low, high = known[name]
        column = data.values[:, number].double().numpy()
        off = np.nan_to_num(np.maximum(low - column, column - high), nan=0.0)  # beyond the range; NaN is not there
        far = off > _BEYOND * (high - low)
        if far.any():
            worst = int(off.argmax())
            times = f", {off[worst] / (high - low):.3g} times the range beyond it" if high > low else ""
            rows = f"{int(far.sum()):,} of {len(column):,} rows, the farthest is {column[worst]:.6g}{times}"
            line = f"{name!r} lies far outside of what training saw, {low:.6g} to {high:.6g}: in {rows}"
            said.append((off[worst] / max(high - low, 1e-300), line))
    lines = [line for _, line in sorted(said, reverse=True)]
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more features"]
