"""Problems of the UEA and UCR archives of time series classification, and of regression: files that end in .ts."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import choice
from nacre._util.unpack import read_member
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import recorded_in
from nacre.data.missing import Missing
from nacre.data.tables.gaps import settle

FOLDER = "uea"
_Series = tuple[NDArray[np.float64], NDArray[np.float64]]  # stamps [T] and values [T] or [T, F]


@dataclass
class _Part:
    """What one file holds."""

    values: list[NDArray[np.float64]] = field(default_factory=list)  # each [T, F]
    time: list[NDArray[np.float64]] = field(default_factory=list)  # each [T]
    labels: list[str] = field(default_factory=list)
    classes: tuple[str, ...] = ()  # of the header; empty where numbers are asked for


def load_uea(data_dir: Path | None = None, *, problem: str, missing: str = "error") -> Dataset:
    """A problem of the archive with its official test part: a class, or a number, for each sequence.

    Sequences may differ in length, and may have stamps; without, steps count 0, 1, 2, ... Each is a group. Where
    dimensions of a sequence have different stamps, it has a row for each stamp of any, and values are missing.

    The files are `PROBLEM_TRAIN.ts` and `PROBLEM_TEST.ts` of timeseriesclassification.com, in a folder `uea`, in
    one of the problem's name below it, in `PROBLEM.zip` there, or in `data_dir` itself. They were not at hand when
    this was written: it is tested on small files in their format.

    Args:
        data_dir: Where to look first; see `nacre.data.files.store.recorded_in`.
        problem: Name of the problem, such as "JapaneseVowels".
        missing: What is done about missing values (`?`): "error", "flags", "last" or "events", as
            `nacre.data.Missing` says.

    Raises:
        FileNotFoundError: If there are no such files.
        ValueError: If one is damaged.
    """
    if not isinstance(problem, str) or not problem.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"problem must be a name such as 'JapaneseVowels', got {problem!r}")
    choice("missing", missing, Missing)
    policy = Missing(missing)
    train, test = (_parse(text, name, policy) for name, text in _texts(data_dir, problem))
    values, time = [*train.values, *test.values], [*train.time, *test.time]
    labels, classes = [*train.labels, *test.labels], train.classes
    if len({part.shape[1] for part in values}) != 1 or train.classes != test.classes:
        raise ValueError(f"{problem}: its two files have different dimensions or classes")
    length = torch.tensor([len(part) for part in values])
    number = len(values)
    width = values[0].shape[1]
    data = Dataset(
        name=f"uea-{problem}",
        kind=Kind.CLASSIFICATION if classes else Kind.REGRESSION,
        values=torch.from_numpy(np.concatenate(values).astype(np.float32)),
        time=torch.from_numpy(np.concatenate(time)),
        start=length.cumsum(0) - length,
        length=length,
        y=torch.tensor([classes.index(label) for label in labels])
        if classes
        else torch.tensor([float(label) for label in labels]).unsqueeze(1),
        group=torch.arange(number),
        groups=tuple(f"{'test' if i >= len(train.values) else 'train'} {i}" for i in range(number)),
        features=tuple(f"dimension {i}" for i in range(width)),
        classes=classes,
        targets=() if classes else ("target",),
        test=torch.arange(number) >= len(train.values),
        form=f"{problem} as found (checksum not known to nacre)",
    )
    return settle(data, policy)


def _texts(data_dir: Path | None, problem: str) -> Iterator[tuple[str, str]]:
    """Name and text of the two files."""
    names = [f"{problem}_{part}.ts" for part in ("TRAIN", "TEST")]
    places = recorded_in(data_dir, (FOLDER,))
    for place in [folder for root in places for folder in (root / problem, root)]:
        if all((place / name).is_file() for name in names):
            for name in names:
                yield str(place / name), (place / name).read_text("utf-8", errors="replace")
            return
        archive = place / f"{problem}.zip"
        if archive.is_file():
            yield from _zipped(archive, names)
            return
    raise FileNotFoundError(
        f"{' and '.join(names)} are missing; get {problem}.zip from timeseriesclassification.com and put it into "
        f"{places[0]}, or name the folder that has it by --data-dir"
    )


def _zipped(path: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """The same out of a zip file; nothing is extracted to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:  # of files, a wrong offset is an OSError
            for name in names:
                found = [member for member in archive.namelist() if member.rpartition("/")[2] == name]
                if len(found) != 1:
                    raise ValueError(f"it holds {name} {len(found)} times, wanted once")
                yield f"{name} of {path}", read_member(archive, found[0]).decode("utf-8", errors="replace")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _parse(text: str, name: str, missing: Missing) -> _Part:
    part, stamped, in_data = _Part(), False, False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(("#", "%")):
            continue
        try:
            if in_data:
                _add(part, line, stamped, missing)
            else:
                key, *words = line.split()
                match key.lower():
                    case "@data":
                        in_data = True
                    case "@timestamps":
                        stamped = words[:1] == ["true"]
                    case "@classlabel":
                        part.classes = tuple(words[1:]) if words[:1] == ["true"] else ()
        except ValueError as error:
            raise ValueError(f"{name}, line {number:,}: {error}") from None
    if not part.values:
        raise ValueError(f"{name} holds no sequences after a line @data")
    return part


def _add(part: _Part, line: str, stamped: bool, missing: Missing) -> None:
    """Read one sequence: dimensions, separated by colons, and the answer."""
    *dimensions, label = (piece.strip() for piece in line.split(":"))
    if not dimensions or (part.classes and label not in part.classes):
        raise ValueError(f"wanted dimensions and one of the classes {', '.join(part.classes)}, got {label!r}")
    time, values = _joined([_stamped(piece) if stamped else _plain(piece) for piece in dimensions])
    if np.isinf(values).any():
        raise ValueError("values are infinite")
    if missing is Missing.ERROR and np.isnan(values).any():
        raise ValueError(
            "values are missing (?), or dimensions differ in length or stamps; say what to do about it: "
            "missing='flags', 'last' or 'events' ([data] missing in a recipe)"
        )
    if part.values and values.shape[1] != part.values[0].shape[1]:
        raise ValueError(f"{values.shape[1]} dimensions, where the first sequence has {part.values[0].shape[1]}")
    if len(time) == 0 or not np.isfinite(time).all() or (np.diff(time) < 0).any():
        raise ValueError("stamps must be there and never go back")
    if not part.classes and not np.isfinite(float(label)):
        raise ValueError(f"the number that is asked for is {label}")
    part.values.append(values)
    part.time.append(time)
    part.labels.append(label)


def _joined(pairs: list[_Series]) -> _Series:
    """[T] stamps of any of the dimensions, and [T, F] their values; NaN where a dimension has no such stamp."""
    time = pairs[0][0]
    if all(np.array_equal(time, other) for other, _ in pairs[1:]):
        return time, np.stack([numbers for _, numbers in pairs], 1)
    if any(not (np.diff(stamps) > 0).all() for stamps, _ in pairs):
        raise ValueError("dimensions differ in length or stamps; then the stamps of each must ascend")
    time = np.unique(np.concatenate([stamps for stamps, _ in pairs]))
    values = np.full((len(time), len(pairs)), np.nan)
    for column, (stamps, numbers) in enumerate(pairs):
        values[np.searchsorted(time, stamps), column] = numbers
    return time, values


def _plain(piece: str) -> _Series:
    numbers = np.array([_number(cell) for cell in piece.split(",")])
    return np.arange(len(numbers), dtype=np.float64), numbers


def _stamped(piece: str) -> _Series:
    """Of "(0,1.5),(2,1.7)"; stamps that are dates are refused."""
    if not piece.startswith("(") or not piece.endswith(")"):
        raise ValueError(f"wanted pairs such as (0,1.5),(2,1.7), got {piece[:40]!r}")
    cells = [pair.split(",") for pair in piece[1:-1].replace(" ", "").split("),(")]
    if any(len(pair) != 2 for pair in cells):
        raise ValueError(f"wanted pairs such as (0,1.5),(2,1.7), got {piece[:40]!r}")
    return np.array([float(stamp) for stamp, _ in cells]), np.array([_number(value) for _, value in cells])


def _number(cell: str) -> float:
    return float("nan") if cell.strip() == "?" else float(cell)
