"""Synthetic recordings of bearings in the file formats of the three rigs, and tables of features."""

import zlib
from dataclasses import replace

import numpy as np
from scipy.io import savemat

from nacre.data.rigs.feature_table import FeatureTable, write_table
from nacre.data.rigs.rig import RIGS
from nacre.signals.features import HOP, PAPER

AXES = ("horizontal", "vertical")
HOME = [("pronostia", f"Bearing1_{i}") for i in (1, 2, 3)]  # what folds are made of
AWAY = [("pronostia", "Bearing2_1"), ("xjtu-sy", "Bearing1_1"), ("hust", "I601")]


def vibration(samples, wear, rate=25_600.0, knocks=168.3, seed=0):
    """[samples, 2] noise, and with wear (0 to 1) ever stronger knocks that ring at 4 kHz."""
    random = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    since = (time * knocks % 1) / knocks
    ringing = np.exp(-800 * since) * np.sin(2 * np.pi * 4000 * since)
    noise = random.normal(0, 0.3, (samples, 2))
    return noise + 5 * wear**2 * ringing[:, None] * [1.0, 0.6]


def write_pronostia(
    folder, snapshots=6, separator=",", began=(9, 39, 39, 65_664), accelerations_first=False, **how
):
    """Files of a run to failure; one temperature file if there are six snapshots or more."""
    folder.mkdir(parents=True)
    hour, minute, second, micro = began
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micro
    for number in range(snapshots):
        at = clock + number * 10_000_000 + np.arange(2560) * 1_000_000 // 25_600
        columns = [at // 3_600_000_000 % 24, at // 60_000_000 % 60, at // 1_000_000 % 60, at % 1_000_000]
        values = vibration(2560, (number + 1) / snapshots, seed=number, **how).round(3).T
        both = [*values, *columns] if accelerations_first else [*columns, *values]
        rows = "\n".join(
            separator.join(f"{value:g}" if i else str(value) for i, value in enumerate(row))
            for row in zip(*both, strict=True)
        )
        (folder / f"acc_{number + 1:05d}.csv").write_text(rows + "\n")
    if snapshots >= 6:
        at = clock // 100_000 + np.arange(600)
        rows = [f"{t // 36_000 % 24};{t // 600 % 60};{t // 10 % 60};{t % 10};{60 + t % 7}" for t in at]
        (folder / "temp_00001.csv").write_text("\n".join(rows) + "\n")
    return folder


def write_xjtu(folder, minutes=3, vertical_first=False):
    folder.mkdir(parents=True)
    names = ["Horizontal_vibration_signals", "Vertical_vibration_signals"]
    for number in range(1, minutes + 1):
        values = vibration(32_768, number / minutes, knocks=107.9, seed=number)
        order = [1, 0] if vertical_first else [0, 1]
        with (folder / f"{number}.csv").open("w") as file:
            file.write(",".join(names[i] for i in order) + "\n")
            np.savetxt(file, values[:, order], "%.6f", delimiter=",")
    return folder


def write_hust(path, samples=20_000, axes=1, wear=0.7, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"data": vibration(samples, wear, 51_200.0)[:, :axes], "fs": 51_200.0, **more})
    return path


def feature_table(rig, name, windows=(4,) * 8, **changes):
    """A table with so many windows in each snapshot; its columns are in an order that is not the loader's."""
    random = np.random.default_rng(zlib.crc32(f"{rig} {name}".encode()))
    what = RIGS[rig]
    file = np.repeat(np.arange(len(windows)), windows) if what.period else np.zeros(sum(windows), np.int64)
    within = np.concatenate([np.arange(n) for n in windows]) if what.period else np.arange(sum(windows))
    names = tuple(f"{axis}_{feature}" for feature in reversed(PAPER) for axis in AXES)
    values = random.uniform(0.1, 5, (len(file), len(names)))
    values[:, [name.endswith(("kurtosis", "skewness", "mean")) for name in names]] -= 2
    condition = what.condition(name)
    plain = FeatureTable(
        rig=rig,
        name=name,
        seconds=file * (what.period or 0) + within * HOP / what.rate,
        names=names,
        values=values,
        temperature=random.uniform(20, 80, len(file)) if rig == "pronostia" else np.full(len(file), np.nan),
        file=file,
        files=tuple(f"{i}.csv" for i in range(file[-1] + 1)),
        rate=what.rate,
        rpm=condition.rpm,
        load=condition.load,
    )
    return replace(plain, **changes)


def feature_tables(windows=(4,) * 8, known=(*HOME, *AWAY)):
    """In the order of the data set: by rig, then by bearing."""
    return [feature_table(*each, windows) for each in sorted(known)]


def write_tables(folder, tables):
    for table in tables:
        write_table(folder / table.rig / f"{table.name}.parquet", table)
    return folder
