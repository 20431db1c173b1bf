"""The feature files that the paper's authors published: one CSV a bearing, seven features an axis in each row."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nacre._util.unpack import gunzip
from nacre.data.rigs.feature_table import FeatureTable
from nacre.data.rigs.readers import AXES
from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU, Rig
from nacre.signals.features import HOP, PAPER

_MARK = "_features"  # in file names, after the bearing's


def read_author_csv(path: Path, rig: Rig) -> FeatureTable:
    """Features of one bearing from `Bearing1_2_features.csv`, or the same with `.gz`, and their times.

    The authors joined all snapshots of a bearing and cut windows every 500 samples. Their column `Time` counts
    1,000 samples a row and no pauses; here time is counted from the rows, 500 samples each, and a snapshot starts
    every ten seconds (PRONOSTIA) or every minute (XJTU-SY). Their temperature and their label are not read.
    """
    rows = _rows(path)
    values = np.stack([_axis(path, axis, rows) for axis in AXES], 1)  # [n, axes, 7]
    last = len(values)
    while last > 1 and (values[last - 1] == values[last - 2]).all():
        last -= 1  # Bearing1_3 has its last row twice
    values = values[:last]
    name = path.name.split(_MARK)[0]
    seconds, file = times_of_rows(len(values), rig)
    condition = rig.condition(name)
    return FeatureTable(
        rig=rig.name,
        name=name,
        seconds=seconds,
        names=tuple(f"{axis}_{feature}" for axis in AXES for feature in PAPER),
        values=values.reshape(len(values), -1),
        temperature=np.full(len(values), np.nan),
        file=file,
        files=(path.name,) * (int(file[-1]) + 1),
        rate=rig.rate,
        rpm=condition.rpm,
        load=condition.load,
        life=_life(path, rows),
        skipped=(f"{len(rows) - last} rows that repeat the last one",) if last < len(rows) else (),
    )


def rig_of(path: Path) -> Rig:
    """The rig of a file, by the name of its folder, such as `tf_features_xjtu`; otherwise PRONOSTIA."""
    folder = path.parent.name.lower()
    return XJTU if "xjtu" in folder else HUST if "hust" in folder else PRONOSTIA


def times_of_rows(count: int, rig: Rig) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Start times [n] of windows of joined snapshots, in seconds since the first sample, and their snapshots [n].

    Example:
        >>> seconds, snapshot = times_of_rows(8, PRONOSTIA)
        >>> seconds.round(3).tolist(), snapshot.tolist()
        ([0.0, 0.02, 0.039, 0.059, 0.078, 0.098, 10.017, 10.037], [0, 0, 0, 0, 0, 0, 1, 1])
    """
    sample = np.arange(count) * HOP
    if rig.samples is None or rig.period is None:
        return sample / rig.rate, np.zeros(count, np.int64)
    snapshot = sample // rig.samples
    return snapshot * rig.period + sample % rig.samples / rig.rate, snapshot


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        data = path.read_bytes()
        text = (gunzip(data) if path.suffix == ".gz" else data).decode("ascii")
        rows = [row for row in csv.DictReader(io.StringIO(text)) if row.get("Horizontal")]
    # What gzip and csv raise for damaged files.
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise ValueError(f"{path} is damaged or no CSV file: {error}") from None
    if not rows or "Vertical" not in rows[0]:
        raise ValueError(f"{path} must have rows with the columns Horizontal and Vertical, seven numbers in each")
    return rows


def _axis(path: Path, axis: str, rows: Sequence[dict[str, str]]) -> NDArray[np.float64]:
    """[n, 7] features of one axis."""
    try:
        values = np.array([json.loads(row[axis.capitalize()]) for row in rows], np.float64)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: {axis.capitalize()} must hold lists of numbers: {error}") from None
    if values.shape != (len(rows), len(PAPER)) or not np.isfinite(values).all():
        raise ValueError(f"{path}: {axis.capitalize()} must hold {len(PAPER)} finite numbers in each row")
    return values


def _life(path: Path, rows: Sequence[dict[str, str]]) -> float | None:
    """Seconds to the failure; only XJTU-SY's files have it, in minutes, and most end before it."""
    if "RUL" not in rows[0]:
        return None
    try:
        return 60.0 * float(rows[0]["RUL"])
    except ValueError:
        raise ValueError(f"{path}: RUL must be minutes, got {rows[0]['RUL']!r}") from None
