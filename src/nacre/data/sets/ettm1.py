"""ETTm1: load and oil temperature of an electricity transformer, every 15 minutes."""

from pathlib import Path

import numpy as np

from nacre.data.dataset import Dataset
from nacre.data.files.array_cache import Arrays, cached
from nacre.data.files.fetch import obtain
from nacre.data.files.store import FormContents
from nacre.data.sets.series import Series, forecasting, read_stamps, read_table

COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
_READER = "ettm1-1"  # raise the number with every change of `_parse`
_STEP = 15 * 60  # seconds between rows


def load_ettm1(
    data_dir: Path | None = None, lookback: int = 48, horizon: int = 24, keep: float = 1.0, seed: int = 0
) -> Dataset:
    """Windows of ETTm1: `lookback` rows of seven columns, and `horizon` next values of OT, the oil temperature.

    Everything is in raw units; time is in hours since the first row. A window ends at every row. With `keep` below
    1, only such a share of all rows, drawn by the seed, is ever seen. The file is found by
    `nacre.data.files.store.find`.

    Raises:
        FileNotFoundError: If the file is neither found nor fetched.
        ValueError: If it is damaged, or has gaps.
    """
    return forecasting(*ettm1_series(data_dir), lookback, horizon, keep, seed)


def ettm1_series(data_dir: Path | None = None) -> tuple[Series, FormContents]:
    """All rows of ETTm1, and the file they were read from."""
    source = obtain("ettm1", data_dir)
    arrays = cached(_READER, source, _parse)
    series = Series(
        name="ettm1",
        values=arrays["values"],
        seconds=arrays["seconds"],
        step=_STEP,
        features=COLUMNS,
        column=COLUMNS.index("OT"),
        target="OT",
    )
    return series, source


def _parse(source: FormContents) -> Arrays:
    data, path = source.contents["ETTm1.csv"], source.paths["ETTm1.csv"]
    stamps, values = read_table(data, path, ("date", *COLUMNS))
    seconds = read_stamps(stamps, "%Y-%m-%d %H:%M:%S", path)
    back = np.diff(seconds) <= 0
    if back.any():
        row = int(back.argmax()) + 1
        raise ValueError(
            f"{path}, line {row + 2}: time {stamps.iloc[row]} does not come after that of the line before; rows "
            "must be in order of time, each time once"
        )
    return {"values": values.astype(np.float32), "seconds": seconds}
