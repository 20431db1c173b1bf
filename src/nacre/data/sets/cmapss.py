"""C-MAPSS: simulated turbofan engines that run to failure, and how many cycles each has left."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import recorded_in

SUBSETS = ("FD001", "FD002", "FD003", "FD004")
FOLDER = "cmapss"
_FEATURES = (*(f"setting {i}" for i in range(1, 4)), *(f"sensor {i}" for i in range(1, 22)))
_COLUMNS = 2 + len(_FEATURES)  # engine, cycle


@dataclass(frozen=True)
class CmapssScore:
    """NASA's score, a sum over sequences: engines said to last longer than they do cost more than the reverse."""

    def of(self, index: Tensor, predicted: Tensor, actual: Tensor) -> dict[str, float]:
        """`cmapss score`, the lower the better; infinite where an error is too large for a number."""
        late = (predicted.double() - actual.double()).flatten()  # [m] cycles
        cost = torch.where(late < 0, torch.expm1(-late / 13), torch.expm1(late / 10)).sum().item()
        return {"cmapss score": cost if math.isfinite(cost) else math.inf}


def load_cmapss(data_dir: Path | None = None, subset: str = "FD001", window: int = 30, most: int = 125) -> Dataset:
    """Windows of engines, and the cycles that are left at the end of each, at most `most`.

    An engine is a group. Of a training engine, a window ends at every cycle from the `window`-th on. Of a test
    engine there is one, its last `window` cycles, or all if it has fewer: the official test part. Answers of both
    parts are cut off at `most`, as is usual: long before it fails, nothing in an engine says when it will. Stamps
    are cycles; networks see how long ago each was, and the control `time-only` sees them as they are.

    The files are those of NASA's archive, `train_FD001.txt`, `test_FD001.txt` and `RUL_FD001.txt`, and so on, in a
    folder `cmapss`, or in `data_dir` itself. They were not at hand when this was written: it is tested on small
    files in their format.

    Args:
        data_dir: Where to look first; see `nacre.data.files.store.recorded_in`.
        subset: FD001 to FD004: one or six operating conditions, one or two kinds of fault.
        window: Cycles of a window.
        most: Answers are at most this.

    Raises:
        FileNotFoundError: If there are no such files.
        ValueError: If one is damaged, or they contradict each other.
    """
    choice("subset", subset, SUBSETS)
    whole("window", window, 1)
    whole("most", most, 1)
    folder = _folder(data_dir, subset)
    parts = {name: _table(folder / f"{name}_{subset}.txt", _COLUMNS) for name in ("train", "test")}
    left = _table(folder / f"RUL_{subset}.txt", 1)[:, 0]
    train, test = (_engines(table, folder / f"{name}_{subset}.txt") for name, table in parts.items())
    if len(left) != len(test) or (left < 0).any():
        path = folder / f"RUL_{subset}.txt"
        raise ValueError(f"{path} must hold one number from 0 on for each of {len(test)} engines, got {len(left)}")
    rows = len(parts["train"])
    start, length, rest, group = [], [], [], []
    for number, (first, count) in enumerate(train):
        ends = np.arange(min(window, count), count + 1)  # cycles that were seen
        start.append(first + np.maximum(ends - window, 0))
        length.append(np.minimum(ends, window))
        rest.append(count - ends)
        group.append(np.full(len(ends), number))
    for number, (first, count) in enumerate(test):
        start.append([rows + first + max(count - window, 0)])
        length.append([min(count, window)])
        rest.append([left[number]])
        group.append([len(train) + number])
    table = np.concatenate([parts["train"], parts["test"]])
    groups = np.concatenate(group).astype(np.int64)
    answers = np.minimum(np.concatenate(rest), most).astype(np.float32)
    return Dataset(
        name=f"cmapss-{subset.lower()}",
        kind=Kind.REGRESSION,
        values=torch.from_numpy(table[:, 2:].astype(np.float32)),
        time=torch.from_numpy(table[:, 1].copy()),
        start=torch.from_numpy(np.concatenate(start).astype(np.int64)),
        length=torch.from_numpy(np.concatenate(length).astype(np.int64)),
        y=torch.from_numpy(answers).unsqueeze(1),
        group=torch.from_numpy(groups),
        groups=tuple(f"train-{i + 1}" for i in range(len(train)))
        + tuple(f"test-{i + 1}" for i in range(len(test))),
        features=_FEATURES,
        targets=("cycles left",),
        test=torch.from_numpy(groups >= len(train)),
        metrics=CmapssScore(),
        time_unit="cycles",
        form=f"{subset} as found (checksum not known to nacre)",
    )


def _folder(data_dir: Path | None, subset: str) -> Path:
    names = [f"{part}_{subset}.txt" for part in ("train", "test", "RUL")]
    places = recorded_in(data_dir, (FOLDER,))
    for place in places:
        if all((place / name).is_file() for name in names):
            return place
    raise FileNotFoundError(
        f"{', '.join(names)} are missing; get the Turbofan Engine Degradation Simulation data set of NASA's "
        f"Prognostics Center of Excellence, unpack it, put the files into {places[0]}, or name their folder by "
        "--data-dir"
    )


def _table(path: Path, columns: int) -> NDArray[np.float64]:
    """[rows, columns] numbers separated by blanks."""
    lines = path.read_bytes().splitlines()
    try:
        table = np.loadtxt(io.BytesIO(b"\n".join(lines)), ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} is no table of numbers: {error}") from None
    if table.shape[0] == 0 or table.shape[1] != columns or not np.isfinite(table).all():
        raise ValueError(
            f"{path} must hold rows of {columns} finite numbers, got {table.shape[0]} x {table.shape[1]}"
        )
    return table


def _engines(table: NDArray[np.float64], path: Path) -> list[tuple[int, int]]:
    """First row and number of rows of each engine; cycles count from 1 without a gap."""
    engine, cycle = table[:, 0], table[:, 1]
    first = np.flatnonzero(np.diff(engine, prepend=engine[0] - 1) != 0)
    count = np.diff(first, append=len(table))
    numbers = np.arange(len(table)) - first.repeat(count) + 1
    if not np.array_equal(engine[first], np.arange(1, len(first) + 1)) or not np.array_equal(cycle, numbers):
        raise ValueError(
            f"{path}: engines must be numbered 1, 2, ... and the cycles of each 1, 2, ..., without a gap"
        )
    return list(zip(first.tolist(), count.tolist(), strict=True))
