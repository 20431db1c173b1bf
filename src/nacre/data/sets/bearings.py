"""Bearings: how much of its life one has used, from how it shakes. Trained on one rig, asked about others."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import choice, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.rigs.feature_table import FeatureTable
from nacre.data.rigs.labels import Label, life_fraction, physics_label, remaining_minutes
from nacre.data.rigs.life_metrics import PRONOSTIA_WORD, LifeFigures
from nacre.data.rigs.rig import PRONOSTIA, RIGS
from nacre.data.rigs.snapshot import AXES
from nacre.data.sets.bearings_tables import Found, find_tables

INPUTS = ("log energy", "dominant frequency", "entropy", "kurtosis", "skewness", "mean", "log std", "log rms")
TRAINED = (PRONOSTIA.name, "Bearing1_")  # rig and names of the bearings that folds are made of
_ROOM = 25.0  # degrees Celsius, where the paper's label needs a temperature that nobody measured
_WORDS = {"xjtu-sy": "XJTU-SY", "hust": "HUST"}
_TARGETS = {Label.FRACTION: "share of life used", Label.RUL: "minutes left", Label.PHYSICS: "paper's degradation"}


def load_bearings(
    data_dir: Path | None = None, label: str = "fraction", steps: int = 32, average: int = 5, most: float = 120.0
) -> Dataset:
    """One sequence for each moment of each bearing: features of the windows up to it, and its label.

    Bearings are groups. Those of PRONOSTIA's first condition make the folds; all others are `transfer`: never
    trained or validated on, and scored in every fold. Neither time since the start nor temperature is an input:
    with a label that depends on the time of failure, either gives the answer away.

    Args:
        data_dir: Where tables lie, see `nacre.data.sets.bearings_tables.find_tables`.
        label: "fraction", the share of life that is used; "rul", minutes left; "physics", the paper's.
        steps: Rows of a sequence; the first moments of a recording have no sequence.
        average: Windows of a snapshot whose features are averaged to a row, about.
        most: With "rul", the most minutes that are asked for.

    Raises:
        FileNotFoundError: If there are no tables.
        ValueError: If one is damaged, or too few are of PRONOSTIA's first condition.
    """
    choice("label", label, Label)
    whole("steps", steps, 2)
    whole("average", average, 1)
    found = find_tables(data_dir)
    lives = [_life_of(each, Label(label), steps, average, most) for each in found]
    kept = [(each, life) for each, life in zip(found, lives, strict=True) if life is not None]
    training = sum(_is_trained(each.table) for each, _ in kept)
    if training < 3:
        raise ValueError(
            f"{found[0].path.parent} holds {training} bearings of {PRONOSTIA.name}'s first condition with {steps} "
            "rows or more, wanted 3 at least: one each to train, to validate and to score"
        )
    return _dataset(Label(label), [each for each, _ in kept], [life for _, life in kept], steps)


class Rows(NamedTuple):
    """Rows of one bearing, each of some windows of one snapshot.

    Attributes:
        values: [n, 16] means of the inputs over the windows.
        seconds: [n] from the bearing's first sample to the last of the windows.
        last: [n] number of that window.
        windows: [n] how many windows.
    """

    values: NDArray[np.float64]
    seconds: NDArray[np.float64]
    last: NDArray[np.int64]
    windows: NDArray[np.int64]


class _Life(NamedTuple):
    """Rows of one bearing, their labels [n], and the seconds of its life; NaN for what is no life."""

    rows: Rows
    y: NDArray[np.float64]
    life: float


def _life_of(found: Found, label: Label, steps: int, average: int, most: float) -> _Life | None:
    """None if a bearing has too few rows for a sequence."""
    table = found.table
    rows, life = rows_of(table, average), _seconds_to_failure(table)
    if len(rows.last) < steps:
        return None
    if label is Label.PHYSICS:
        y = _physics(table)[rows.last]
    elif label is Label.RUL:
        y = remaining_minutes(rows.seconds, life, most)
    else:
        y = life_fraction(rows.seconds, life)
    is_life = RIGS[table.rig].period is not None if table.rig in RIGS else True
    return _Life(rows, y, life if is_life else np.nan)


def rows_of(table: FeatureTable, average: int) -> Rows:
    """The rows of a bearing: means over about so many windows of a snapshot."""
    number = _numbers(table.file, average)  # [windows] of the row that each goes into
    windows = np.bincount(number)
    last = np.flatnonzero(np.diff(number, append=number[-1] + 1))
    values = np.stack([np.bincount(number, column) / windows for column in inputs_of(table).T], 1)
    return Rows(values, table.seconds[last], last, windows)


def inputs_of(table: FeatureTable) -> NDArray[np.float64]:
    """[n, 16] what a network sees of each window: `INPUTS` of the horizontal, then of the vertical axis.

    Energy and strength span many powers of ten, and kurtosis has a long tail: logarithms tame them.
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


def _numbers(file: NDArray[np.int64], average: int) -> NDArray[np.int64]:
    """[windows] number of the row of each: the windows of a snapshot are cut into parts of about equal size."""
    starts = np.flatnonzero(np.diff(file, prepend=file[0] - 1))
    numbers, number = np.empty(len(file), np.int64), 0
    for snapshot in np.split(np.arange(len(file)), starts[1:]):
        for part in np.array_split(snapshot, max(1, round(len(snapshot) / average))):
            numbers[part] = number
            number += 1
    return numbers


def _seconds_to_failure(table: FeatureTable) -> float:
    """The recording ends with the failure, unless the table knows better."""
    if table.life is not None:
        return table.life
    rig = RIGS.get(table.rig)
    return float(table.seconds[-1]) + (rig.period if rig is not None and rig.period else 1 / table.rate)


def _physics(table: FeatureTable) -> NDArray[np.float64]:
    pseudo = np.arange(len(table.seconds)) * 1000 / table.rate
    celsius = np.where(np.isnan(table.temperature), _ROOM, table.temperature)
    return physics_label(pseudo, celsius, table.rpm or 1800.0, table.load or 4000.0)


def _part(table: FeatureTable) -> str:
    """What figures call the bearings that are judged together with this one."""
    if table.rig != PRONOSTIA.name:
        return _WORDS.get(table.rig, table.rig)
    return PRONOSTIA_WORD if _is_trained(table) else f"{PRONOSTIA_WORD} conditions 2 and 3"


def _is_trained(table: FeatureTable) -> bool:
    return table.rig == TRAINED[0] and table.name.startswith(TRAINED[1])


def _dataset(label: Label, found: list[Found], lives: list[_Life], steps: int) -> Dataset:
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
    tables = [each.table for each in found]
    figures = LifeFigures(
        label=label,
        part=np.array([_part(table) for table in tables])[bearing],
        bearing=np.array([table.name for table in tables])[bearing],
        seconds=seconds[end],
        life=np.array([life.life for life in lives])[bearing],
        windows=np.concatenate([life.rows.windows for life in lives])[end],
    )
    left_out = [f"{table.rig} {table.name}: {line}" for table in tables for line in table.skipped]
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
        figures=figures,
        time_unit="seconds",
        form=f"{len(tables)} bearings of {len({table.rig for table in tables})} rigs",
        files={f"{each.table.rig} {each.path.name}": each.sha256 for each in found},
        notes=tuple(left_out),
    )
