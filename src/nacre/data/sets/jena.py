"""Jena climate: 14 measurements of a weather station, every 10 minutes."""

from pathlib import Path

import numpy as np

from nacre.data.dataset import Dataset
from nacre.data.files.array_cache import Arrays, cached
from nacre.data.files.fetch import obtain
from nacre.data.files.store import FormContents
from nacre.data.sets.series import Series, forecasting, read_stamps, read_table

COLUMNS = (
    "p (mbar)",
    "T (degC)",
    "Tpot (K)",
    "Tdew (degC)",
    "rh (%)",
    "VPmax (mbar)",
    "VPact (mbar)",
    "VPdef (mbar)",
    "sh (g/kg)",
    "H2OC (mmol/mol)",
    "rho (g/m**3)",
    "wv (m/s)",
    "max. wv (m/s)",
    "wd (deg)",
)
TARGET = COLUMNS.index("T (degC)")
_READER = "jena-1"  # raise the number with every change of `parse`
_STEP = 10 * 60  # seconds between rows
_LOST = -9999.0  # the station's mark for a missing value
_STAMPS = {  # file to name and form of its time column
    "jena_climate_2009_2016.csv": ("Date Time", "%d.%m.%Y %H:%M:%S"),
    "weather.csv": ("date", "%Y-%m-%d %H:%M:%S"),
}
_NOTES = (
    "rows out of order, put in order of time: {:,}",
    "rows with the time of an earlier one, left out: {:,}",
    "rows without a temperature, left out: {:,}",
    "rows before the first reading of every column, left out: {:,}",
    "lost readings (-9999) replaced by the last one before: {:,}",
)


def load_jena(
    data_dir: Path | None = None, lookback: int = 48, horizon: int = 24, keep: float = 1.0, seed: int = 0
) -> Dataset:
    """Windows of the weather of Jena: `lookback` rows of 14 columns, and the next `horizon` temperatures.

    Reads the official file of 2009 to 2016, or as a stand-in the year 2020 of the same station, of whose 21
    columns the same 14 are taken; see `nacre.data.files.store.find`. Everything is in raw units; time is in hours
    since the first row.

    Missing values are filled with the last one before, so nothing is learned from the future. Rows without a
    temperature are left out. A window never spans a gap. `notes` counts all repairs. With `keep` below 1, only
    such a share of all rows, drawn by the seed, is ever seen.

    Raises:
        FileNotFoundError: If no file is found or fetched.
        ValueError: If it is damaged.
    """
    return forecasting(*jena_series(data_dir), lookback, horizon, keep, seed)


def jena_series(data_dir: Path | None = None) -> tuple[Series, FormContents]:
    """All rows of the weather of Jena, and the file they were read from."""
    source = obtain("jena", data_dir)
    arrays = cached(_READER, source, parse)
    counts = zip(_NOTES, arrays["counts"].tolist(), strict=True)
    series = Series(
        name="jena",
        values=arrays["values"],
        seconds=arrays["seconds"],
        step=_STEP,
        features=COLUMNS,
        column=TARGET,
        target="T",
        notes=tuple(note.format(count) for note, count in counts if count),
    )
    return series, source


def parse(source: FormContents) -> Arrays:
    """Repaired rows in order of time, and the count of each repair in the order of `_NOTES`."""
    ((name, data),) = source.contents.items()
    path = source.paths[name]
    stamp, form = _STAMPS[name]
    stamps, values = read_table(data, path, (stamp, *COLUMNS))
    seconds = read_stamps(stamps, form, path)

    disorder = int((seconds < np.maximum.accumulate(seconds)).sum())
    order = seconds.argsort(kind="stable")  # of equal times the first in the file stays first
    seconds, values = seconds[order], values[order]
    new = np.concatenate([[True], np.diff(seconds) > 0])
    measured = values[:, TARGET] != _LOST
    doubles, cold = int((~new).sum()), int((new & ~measured).sum())
    seconds, values = seconds[new & measured], values[new & measured]

    lost = values == _LOST
    never = lost.all(0)
    if never.any():
        raise ValueError(f"{path}: {COLUMNS[int(never.argmax())]!r} holds no reading at all")
    begin = int((~lost).argmax(0).max())  # from here on every column has had a reading
    repaired = _last_before(values, lost)[begin:]
    counts = [disorder, doubles, cold, begin, int(lost[begin:].sum())]
    return {"values": repaired.astype(np.float32), "seconds": seconds[begin:], "counts": np.array(counts)}


def _last_before(values: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """[N, F] values, forward-filled where `lost`."""
    row = np.where(lost, 0, np.arange(len(values))[:, None])  # [N, F]
    return np.take_along_axis(values, np.maximum.accumulate(row, axis=0), axis=0)
