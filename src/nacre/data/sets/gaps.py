"""Gaps: a variable with a daily rhythm is seen at a few moments of two days, and asked at all others."""

from pathlib import Path

import numpy as np
import torch

from nacre._util.checks import real, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import FormContents
from nacre.data.sets.ettm1 import ettm1_series
from nacre.data.sets.jena import jena_series
from nacre.data.sets.series import Series, window_starts

_WEEK = 7 * 24 * 3600  # seconds; windows of one week are in one part of a split


def load_ettm1_gaps(
    data_dir: Path | None = None, hours: int = 48, seen: float = 0.06, every: int = 6, seed: int = 0
) -> Dataset:
    """The load HUFL of ETTm1 between a few readings; arguments and result as for `gaps`."""
    return gaps(*ettm1_series(data_dir), "HUFL", hours, seen, every, seed)


def load_jena_gaps(
    data_dir: Path | None = None, hours: int = 48, seen: float = 0.025, every: int = 6, seed: int = 0
) -> Dataset:
    """The temperature of Jena between a few readings; arguments and result as for `gaps`."""
    return gaps(*jena_series(data_dir), "T (degC)", hours, seen, every, seed)


def gaps(
    series: Series, source: FormContents, target: str, hours: int, seen: float, every: int, seed: int
) -> Dataset:
    """Windows of a series of which few rows are seen.

    A row that is seen holds all columns, any other zeros. The last two columns are `seen`, 1 or 0, and `guess`:
    the target on straight lines in time between the rows that are seen. What is asked is the target at all rows
    that are not seen. Windows of one week are a group, which must not be split, and no window spans two weeks.

    Args:
        series: The rows.
        source: Where they were read.
        target: Name of the column that is asked.
        hours: Length of a window.
        seen: Share of its rows that are seen, at least two; drawn anew for each window.
        every: Hours from one window to the next.
        seed: Seed of what is seen.
    """
    size = whole("hours", hours, 1) * 3600 // series.step
    stride = whole("every", every, 1) * 3600 // series.step
    count = max(2, round(real("seen", seen, 0.0, 1.0, open_low=True) * size))
    start = _starts(series, size, stride)
    if len(start) == 0:
        raise ValueError(
            f"{series.name}: no {hours} hours without a gap within a week in its {len(series.seconds):,} rows; "
            "use fewer hours"
        )
    draw = np.random.default_rng(whole("seed", seed, 0)).random((len(start), size))
    known = draw.argsort(1).argsort(1) < count  # [n, size]
    row = start[:, None] + np.arange(size)
    values = np.where(known[..., None], series.values[row], 0)  # [n, size, F]
    truth = series.values[row, series.features.index(target)]  # [n, size]
    guess = np.stack(
        [np.interp(np.arange(size), np.flatnonzero(k), t[k]) for k, t in zip(known, truth, strict=True)]
    )
    table = np.concatenate([values, known[..., None], guess[..., None]], -1).reshape(-1, len(series.features) + 2)
    week = (series.seconds[start] - series.seconds[0]) // _WEEK
    weeks, group = np.unique(week, return_inverse=True)
    first = torch.arange(len(start)) * size
    return Dataset(
        name=f"{series.name}-gaps",
        kind=Kind.STEP_REGRESSION,
        values=torch.from_numpy(table.astype(np.float32)),
        time=torch.from_numpy((series.seconds[row].reshape(-1) - series.seconds[0]) / 3600.0),
        start=first,
        length=torch.full_like(first, size),
        y=torch.from_numpy(np.where(known, np.nan, truth).reshape(-1, 1).astype(np.float32)),
        group=torch.from_numpy(group),
        groups=tuple(f"week {number}" for number in weeks.tolist()),
        features=(*series.features, "seen", "guess"),
        targets=(target,),
        query_only=torch.from_numpy(~known.reshape(-1)),
        guess=(len(series.features) + 1,),
        time_unit="hours",
        form=source.form,
        files=source.sha256,
        notes=series.notes,
    )


def _starts(series: Series, size: int, stride: int) -> np.ndarray:
    """First rows of windows without a gap in time, each within a week, `stride` rows apart."""
    start = window_starts(series.seconds, series.step, size)
    since = series.seconds - series.seconds[0]
    start = start[since[start] // _WEEK == since[start + size - 1] // _WEEK]
    return start[(since[start] % _WEEK) % (stride * series.step) == 0]
