"""Localization data for person activity (UCI 196): positions of four tags, and what the wearer does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from nacre._util.checks import whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.array_cache import Arrays, cached
from nacre.data.files.fetch import obtain
from nacre.data.files.store import FormContents

if TYPE_CHECKING:
    import pandas as pd

ACTIVITIES = (
    "walking",
    "falling",
    "lying down",
    "lying",
    "sitting down",
    "sitting",
    "standing up from lying",
    "on all fours",
    "sitting on the ground",
    "standing up from sitting",
    "standing up from sitting on the ground",
)
TAGS = {
    "010-000-024-033": "ankle left",
    "010-000-030-096": "ankle right",
    "020-000-033-111": "chest",
    "020-000-032-221": "belt",
}
_READER = "person-activity-1"  # raise the number with every change of `_parse`
_COLUMNS = ("sequence", "tag", "timestamp", "date", "x", "y", "z", "activity")
_RECORDINGS = 5  # of each person
_TICKS = 1e7  # timestamps count 100 ns


def load_person_activity(data_dir: Path | None = None, window: int = 32, stride: int = 16) -> Dataset:
    """Windows of the recordings; every step asks what the person is doing at that moment.

    A step is a report of one tag: its x, y, z, and which of the four it is. The tags of a recording are merged in
    order of time, in seconds since its start. Time comes from the column `timestamp`, which is finer than `date`
    (100 ns, 0.1 ms in the stand-in, against 1 ms). Rows with equal stamps keep the order of the file.

    A recording is a group. Groups are sorted by name, A01, A02, ... E05, so each of five folds by group gets one
    recording of every person.

    A window starts at every `stride`-th row, and the last one of a recording ends at its last row: no row is lost,
    and all windows are equally long. With the defaults most rows are in two windows and are answered twice;
    `Dataset.answers` counts each row once.

    Args:
        data_dir: Where to look first; see `nacre.data.files.store.find`.
        window: Steps of a window. A shorter recording is one window.
        stride: Rows from one window to the next, at most `window`.

    Raises:
        FileNotFoundError: If no file is found or fetched.
        ValueError: If one is damaged, or the stride would skip rows.
    """
    whole("window", window, 1)
    if whole("stride", stride, 1) > window:
        raise ValueError(f"stride must be at most window = {window}, or rows would be skipped, got {stride}")
    source = obtain("person-activity", data_dir)
    arrays = cached(_READER, source, _parse)
    start, length, group = _windows(arrays["recording"], window, stride)
    order = arrays["disorder"].item()
    return Dataset(
        name="person-activity",
        kind=Kind.STEP_CLASSIFICATION,
        values=torch.from_numpy(arrays["values"]),
        time=torch.from_numpy(arrays["ticks"] / _TICKS),
        start=torch.from_numpy(start),
        length=torch.from_numpy(length),
        y=torch.from_numpy(arrays["activity"]),
        group=torch.from_numpy(group),
        groups=tuple(arrays["names"].tolist()),
        features=("x", "y", "z", *TAGS.values()),
        classes=ACTIVITIES,
        time_unit="seconds",
        form=source.form,
        files=source.sha256,
        notes=(f"rows out of order, put in order of time: {order:,}",) if order else (),
    )


def _windows(recording: np.ndarray, window: int, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First row, length and recording of each window, given the ascending recording of each row."""
    start, length, group = [], [], []
    rows = np.bincount(recording)
    for index, (first, count) in enumerate(zip(np.cumsum(rows) - rows, rows, strict=True)):
        last = max(count - window, 0)  # where the last window starts
        starts = first + np.minimum(np.arange(0, last + stride, stride), last)
        start.append(starts)
        length.append(np.full_like(starts, min(window, count)))
        group.append(np.full_like(starts, index))
    return np.concatenate(start), np.concatenate(length), np.concatenate(group)


def _parse(source: FormContents) -> Arrays:
    import pandas as pd

    frames = [_frame(data, source.paths[name]) for name, data in source.contents.items()]
    frame = pd.concat(frames, ignore_index=True)
    recording = frame["sequence"].to_numpy(dtype=np.str_)
    names, code = np.unique(recording, return_inverse=True)
    _check_recordings(names.tolist(), next(iter(source.paths.values())))
    ticks = frame["timestamp"].to_numpy().astype(np.int64)  # 18 digits: exact as integers, never as floats
    order = np.lexsort((ticks, code))  # stable: by recording, then by time
    code, ticks = code[order], ticks[order]
    first = np.searchsorted(code, np.arange(len(names)))  # [recordings] first row of each
    tag = frame["tag"].to_numpy()[order]
    place = frame[["x", "y", "z"]].to_numpy(dtype=np.float32)[order]
    which = np.stack([tag == key for key in TAGS], 1).astype(np.float32)  # [N, 4]
    latest = frame.groupby("sequence")["timestamp"].cummax().to_numpy()  # up to each row of the file
    activity = pd.Categorical(frame["activity"], categories=list(ACTIVITIES)).codes
    return {
        "values": np.concatenate([place, which], 1),
        "ticks": ticks - ticks[first][code],
        "activity": activity.astype(np.int64)[order],
        "recording": code,
        "names": names,
        "disorder": np.array(int((frame["timestamp"].to_numpy() < latest).sum())),
    }


def _frame(data: bytes, path: Path) -> pd.DataFrame:
    """Checked rows of a file. Unlike the official one, stand-ins have a header and a column of row numbers."""
    import pandas as pd

    header = data.startswith(b",")
    columns = ("row", *_COLUMNS) if header else _COLUMNS
    try:
        frame = pd.read_csv(
            io.BytesIO(data),
            header=None,
            names=list(columns),
            skiprows=int(header),
            index_col=False,
            dtype=dict.fromkeys(("sequence", "tag", "date", "activity"), str),
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path} is no table of {len(columns)} columns: {str(error).strip()}") from None
    if frame.empty:
        raise ValueError(f"{path} has no rows")
    for column in ("timestamp", "x", "y", "z"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce")
    frame["activity"] = frame["activity"].str.strip("' ")
    wrong = {
        "a number in timestamp, x, y and z": ~np.isfinite(frame[["timestamp", "x", "y", "z"]]).all(axis=1),
        "one of the four tags": ~frame["tag"].isin(list(TAGS)),
        "one of the eleven activities": ~frame["activity"].isin(ACTIVITIES),
    }
    for wanted, mask in wrong.items():
        if mask.any():
            line = int(mask.to_numpy().argmax())
            came = ", ".join(map(str, frame.iloc[line][list(_COLUMNS)]))
            raise ValueError(f"{path}, line {line + 1 + header}: wanted {wanted}, got {came}")
    return frame


def _check_recordings(names: list[str], path: Path) -> None:
    persons = sorted({name[:1] for name in names})
    wanted = [f"{person}{number:02d}" for person in persons for number in range(1, _RECORDINGS + 1)]
    if names != wanted:
        odd = sorted(set(names) ^ set(wanted))
        raise ValueError(
            f"{path}: every person must have recordings 01 to 05; missing or unknown: {', '.join(odd)}"
        )
