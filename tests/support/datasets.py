"""Small data sets, and small files of known data sets."""

import hashlib
from dataclasses import replace

import numpy as np
import torch

from nacre.data.dataset import Dataset, Kind
from nacre.data.files.catalogue import CATALOG
from nacre.data.files.store import FormContents
from nacre.data.sets.jena import COLUMNS
from nacre.data.sets.series import Series

HOUR = 3600
MADE = FormContents("made", {}, {}, {})  # where `hourly` was read


def sequences(group, classes=None, test=None):
    """One sequence of two steps for each entry of `group`, with a class each."""
    n = len(group)
    return Dataset(
        name="some",
        kind=Kind.CLASSIFICATION,
        values=torch.zeros(2 * n, 1),
        time=torch.zeros(2 * n, dtype=torch.float64),
        start=2 * torch.arange(n),
        length=torch.full((n,), 2),
        y=torch.zeros(n, dtype=torch.int64) if classes is None else torch.tensor(classes),
        group=torch.tensor(group),
        groups=tuple(f"g{i}" for i in range(max(group) + 1)),
        features=("v",),
        classes=("a", "b", "c"),
        test=test,
    )


def hourly(days=30, hole=None):
    """A series of two columns of noise, an hour apart, without one of its rows."""
    seconds = np.arange(days * 24, dtype=np.int64) * HOUR
    if hole is not None:
        seconds = np.delete(seconds, hole)
    values = np.random.default_rng(0).normal(size=(len(seconds), 2)).astype(np.float32)
    return Series("made", values, seconds, HOUR, ("a", "b"), column=1, target="b")


def publish(monkeypatch, folder, name, *contents, form=0):
    """Write the files of one form of a data set into a folder, and make their checksums the known ones."""
    known = CATALOG[name]
    forms, files = list(known.forms), []
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in zip(forms[form].files, contents, strict=True):
        (folder / file.name).write_bytes(data)
        files.append(replace(file, checksum="sha256:" + hashlib.sha256(data).hexdigest()))
    forms[form] = replace(forms[form], files=tuple(files))
    monkeypatch.setitem(CATALOG, name, replace(known, forms=tuple(forms)))
    return folder


def jena_file(minutes, changes=(), stamp="%d.%m.%Y %H:%M:%S", first="Date Time", more=()):
    """A file of Jena whose column c holds 100 c + row, except for the changes (row, column, value)."""
    values = 100.0 * np.arange(14) + np.arange(len(minutes))[:, None]
    for row, column, value in changes:
        values[row, column] = value
    start = np.datetime64("2009-01-01T00:10:00")
    times = [(start + np.timedelta64(m, "m")).item().strftime(stamp) for m in minutes]
    lines = [",".join([first, *(f'"{name}"' for name in COLUMNS), *more])]
    for time, row in zip(times, values, strict=True):
        lines.append(",".join([time, *map(str, row), *("-9999" for _ in more)]))
    return "\n".join([*lines, ""]).encode()
