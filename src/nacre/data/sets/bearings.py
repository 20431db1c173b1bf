"""Bearings: the used fraction of a life, from vibration. Trained on one rig, tested on others too."""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import recorded_in
from nacre.data.rigs.author_csv import read_author_csv, rig_of
from nacre.data.rigs.feature_table import SUFFIX, FeatureTable, read_table
from nacre.data.rigs.labels import Label, life_fraction, physics_label, remaining_minutes
from nacre.data.rigs.life_metrics import PRONOSTIA_WORD, LifeMetrics
from nacre.data.rigs.readers import AXES
from nacre.data.rigs.rig import PRONOSTIA, RIGS

INPUTS = ("log energy", "dominant frequency", "entropy", "kurtosis", "skewness", "mean", "log std", "log rms")
TRAINED = (PRONOSTIA.name, "Bearing1_")  # rig and prefix of the bearings that folds are made of
FOLDERS = ("bearings-features", "bearings")
_AUTHORS = re.compile(r".+_features.*\.csv(\.gz)?")
_ROOM = 25.0  # degrees Celsius, where the paper's label needs a temperature that was not measured
_WORDS = {"xjtu-sy": "XJTU-SY", "hust": "HUST"}
_TARGETS = {Label.FRACTION: "share of life used", Label.RUL: "minutes left", Label.PHYSICS: "paper's degradation"}


class StoredTable(NamedTuple):
    """A table, its file and the file's checksum."""

    table: FeatureTable
    path: Path
    sha256: str


class BearingRows(NamedTuple):
    """Rows of one bearing, each a mean over some windows of one snapshot."""

    values: NDArray[np.float64]  # [n, 16] means of the inputs over the windows
    seconds: NDArray[np.float64]  # [n] from the bearing's first sample to the last of the windows
    last: NDArray[np.int64]  # [n] number of that window
    windows: NDArray[np.int64]  # [n] how many windows


class _Life(NamedTuple):
    stored: StoredTable
    rows: BearingRows
    y: NDArray[np.float64]  # [n] labels of the rows
    life: float  # seconds to the failure; NaN for recordings that do not end with it


def load_bearings(
    data_dir: Path | None = None, label: str = "fraction", steps: int = 32, average: int = 5, most: float = 120.0
) -> Dataset:
    """One sequence for each moment of each bearing: features of the windows up to it, and its label.

    Bearings are groups. Those of PRONOSTIA's first condition make the folds; all others are `transfer`: never
    trained or validated on, and scored in every fold. Neither time since the start nor temperature is an input:
    with a label that depends on the time of failure, either gives the answer away.

    Args:
        data_dir: Where tables are, see `find_tables`.
        label: "fraction", the used fraction of life; "rul", minutes left; "physics", the paper's.
        steps: Rows of a sequence; the first moments of a recording have no sequence.
        average: About how many windows of a snapshot are averaged to a row.
        most: With "rul", the largest number of minutes.

    Raises:
        FileNotFoundError: If there are no tables.
        ValueError: If one is damaged, or too few are of PRONOSTIA's first condition.
    """
    choice("label", label, Label)
    whole("steps", steps, 2)
    whole("average", average, 1)
    found = find_tables(data_dir)
    lives = [life for each in found if (life := _life_of(each, Label(label), steps, average, most)) is not None]
    training = sum(_is_trained(life.stored.table) for life in lives)
    if training < 3:
        raise ValueError(
            f"{found[0].path.parent} holds {training} bearings of {PRONOSTIA.name}'s first condition with {steps} "
            "rows or more, wanted 3 at least: one each to train, to validate and to score"
        )
    return _dataset(Label(label), lives, steps)


def find_tables(data_dir: Path | None = None) -> list[StoredTable]:
    """All tables of the first folder that holds any, by rig and bearing.

    Searched are `data_dir` and its folders `bearings-features` and `bearings`; if it is None, these folders in the
    working directory, in $NACRE_DATA and in the cache.

    Raises:
        FileNotFoundError: If there are none.
        ValueError: If a bearing is there twice, or a file is damaged.
    """
    folders = recorded_in(data_dir, FOLDERS)
    for folder in folders:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and is_table(path)]
        paths = [path for path in paths if not any(part[0] == "." for part in path.relative_to(folder).parts)]
        if paths:
            return _read_all(paths)
    raise FileNotFoundError(
        f"no features of bearings in {', '.join(map(str, folders))}; make some with `nacre data features`"
    )


def is_table(path: Path) -> bool:
    """Whether a file is named like a table."""
    return path.suffix == SUFFIX or bool(_AUTHORS.fullmatch(path.name))


def read_any(path: Path) -> FeatureTable:
    """A table of `nacre data features`, or of the paper's authors."""
    return read_table(path) if path.suffix == SUFFIX else read_author_csv(path, rig_of(path))


def _read_all(paths: list[Path]) -> list[StoredTable]:
    found: dict[tuple[str, str], StoredTable] = {}
    for path in paths:
        table = read_any(path)
        key = (table.rig, table.name)
        if key in found:
            raise ValueError(
                f"{table.rig} {table.name} is there twice, as {found[key].path} and as {path}; keep one of them"
            )
        found[key] = StoredTable(table, path, hashlib.sha256(path.read_bytes()).hexdigest())
    return [found[key] for key in sorted(found)]


def _life_of(stored: StoredTable, label: Label, steps: int, average: int, most: float) -> _Life | None:
    """None if a bearing has too few rows for a sequence."""
    table = stored.table
    rows, rig, life = rows_of(table, average), RIGS.get(table.rig), table.life
    if len(rows.last) < steps:
        return None
    if life is None:  # the recording ends with the failure
        life = float(table.seconds[-1]) + (rig.period if rig is not None and rig.period else 1 / table.rate)
    if label is Label.PHYSICS:
        y = _physics(table)[rows.last]
    elif label is Label.RUL:
        y = remaining_minutes(rows.seconds, life, most)
    else:
        y = life_fraction(rows.seconds, life)
    return _Life(stored, rows, y, np.nan if rig is not None and rig.period is None else life)


def rows_of(table: FeatureTable, average: int) -> BearingRows:
    """The rows of a bearing: means over about `average` windows of a snapshot."""
    number = _row_numbers(table.file, average)  # [windows]
    windows = np.bincount(number)
    last = np.flatnonzero(np.diff(number, append=number[-1] + 1))
    values = np.stack([np.bincount(number, column) / windows for column in inputs_of(table).T], 1)
    return BearingRows(values, table.seconds[last], last, windows)


def inputs_of(table: FeatureTable) -> NDArray[np.float64]:
    """[n, 16] what a network sees of each window: `INPUTS` of the horizontal, then of the vertical axis.

    Energy and strength span many powers of ten, and kurtosis has a long tail: hence the logarithms.
    """
    columns = []
    for axis in AXES:
        energy, frequency, entropy, kurtosis, skewness, mean, std = (
            table.column(f"{axis}_{name}")
            for name in ("energy", "dominant_frequency", "entropy", "kurtosis", "skewness", "mean", "std")
        )
        columns += [
            np.log10(energy + 1e-8),
            frequency,
            entropy,
            np.arcsinh(kurtosis),
            np.arcsinh(skewness),
            mean,
            np.log10(std + 1e-8),
            np.log10(np.hypot(mean, std) + 1e-8),
        ]
    return np.stack(columns, 1)


def _row_numbers(file: NDArray[np.int64], average: int) -> NDArray[np.int64]:
    """[windows] the row of each window: a snapshot's windows are cut into parts of about equal size."""
    starts = np.flatnonzero(np.diff(file, prepend=file[0] - 1))
    numbers, number = np.empty(len(file), np.int64), 0
    for snapshot in np.split(np.arange(len(file)), starts[1:]):
        for part in np.array_split(snapshot, max(1, round(len(snapshot) / average))):
            numbers[part] = number
            number += 1
    return numbers


def _physics(table: FeatureTable) -> NDArray[np.float64]:
    pseudo = np.arange(len(table.seconds)) * 1000 / table.rate
    celsius = np.where(np.isnan(table.temperature), _ROOM, table.temperature)
    return physics_label(pseudo, celsius, table.rpm or 1800.0, table.load or 4000.0)


def _part(table: FeatureTable) -> str:
    """The name, in metrics, of the bearings that are scored together with this one."""
    if table.rig != PRONOSTIA.name:
        return _WORDS.get(table.rig, table.rig)
    return PRONOSTIA_WORD if _is_trained(table) else f"{PRONOSTIA_WORD} conditions 2 and 3"


def _is_trained(table: FeatureTable) -> bool:
    return table.rig == TRAINED[0] and table.name.startswith(TRAINED[1])


def _dataset(label: Label, lives: list[_Life], steps: int) -> Dataset:
    counts = np.array([len(life.y) for life in lives])
    first = np.concatenate([[0], counts.cumsum()[:-1]])
    # A sequence ends with each row but the first ones of a bearing.
    start = np.concatenate(
        [begin + np.arange(count - steps + 1) for begin, count in zip(first, counts, strict=True)]
    )
    end = start + steps - 1
    bearing = np.repeat(np.arange(len(lives)), counts)[end]  # [n]
    seconds = np.concatenate([life.rows.seconds for life in lives])
    y = np.concatenate([life.y for life in lives])
    tables = [life.stored.table for life in lives]
    metrics = LifeMetrics(
        label=label,
        part=np.array([_part(table) for table in tables])[bearing],
        bearing=np.array([table.name for table in tables])[bearing],
        seconds=seconds[end],
        life=np.array([life.life for life in lives])[bearing],
        windows=np.concatenate([life.rows.windows for life in lives])[end],
    )
    return Dataset(
        name="bearings",
        kind=Kind.REGRESSION,
        values=torch.from_numpy(np.concatenate([life.rows.values for life in lives])).float(),
        time=torch.from_numpy(seconds),
        start=torch.from_numpy(start),
        length=torch.full((len(start),), steps),
        y=torch.from_numpy(y[end]).float().unsqueeze(1),
        group=torch.from_numpy(bearing),
        groups=tuple(f"{table.rig} {table.name}" for table in tables),
        features=tuple(f"{axis} {name}" for axis in AXES for name in INPUTS),
        targets=(_TARGETS[label],),
        transfer=torch.tensor([not _is_trained(table) for table in tables])[bearing],
        metrics=metrics,
        time_unit="seconds",
        form=f"{len(tables)} bearings of {len({table.rig for table in tables})} rigs",
        files={f"{life.stored.table.rig} {life.stored.path.name}": life.stored.sha256 for life in lives},
        notes=tuple(f"{table.rig} {table.name}: {line}" for table in tables for line in table.skipped),
    )
