"""`nacre data features`: recordings of bearings to tables of features, piece by piece. What is done is kept."""

import hashlib
import io
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from nacre._util.checks import real, whole
from nacre._util.files import write_atomic
from nacre._util.pool import default_jobs, each
from nacre.bearings.window_rows import Rows, feature_names, rows_of
from nacre.data.rigs.feature_table import SUFFIX, FeatureTable, read_table, write_table
from nacre.data.rigs.pronostia import past_midnight, read_temperature
from nacre.data.rigs.recordings import Recording, find_recordings
from nacre.data.rigs.snapshot import BadFile
from nacre.signals.features import WindowFeatures

FOLDER = Path("bearings-features")
_FILES = 50  # of a piece, which is what an interruption can lose


@dataclass(frozen=True)
class Extraction:
    """What to extract.

    Attributes:
        places: Folders of recordings, or MAT files.
        out: Where tables go, a folder for each rig.
        rate: Samples a second, for files that do not say.
        skip_bad: Whether files that are missing or damaged are left out, and counted, instead of refused.
        jobs: Processes at once; None for one for each processor.
    """

    places: Sequence[Path]
    out: Path = FOLDER
    rate: float | None = None
    skip_bad: bool = False
    jobs: int | None = None

    def __post_init__(self) -> None:
        """Check."""
        if self.rate is not None:
            real("rate", self.rate, 100.0, 1e7)


class _Piece(NamedTuple):
    """Some files of a recording that are worked on together."""

    recording: Recording
    first: int  # number of the first file
    last: int  # the one after the last
    part: Path  # where what was found is kept until the recording is done


def extract(what: Extraction) -> list[FeatureTable]:
    """Extract what is not there yet, write one table for each recording, and print what they hold.

    Raises:
        BadFile: If a file is missing or damaged, unless such files are to be left out; all others are done first.
        FileNotFoundError: If there are no recordings.
    """
    console = Console()
    recordings = find_recordings(what.places, what.rate)
    jobs = default_jobs() if what.jobs is None else whole("jobs", what.jobs, 1)
    for recording in recordings:
        if recording.missing and not what.skip_bad:
            raise BadFile(_missing(recording))
    todo = [piece for recording in recordings for piece in _pieces(recording, what.out) if not piece.part.exists()]
    bad: list[str] = []
    for _, found in each(partial(_work, skip_bad=what.skip_bad), todo, jobs, console, "pieces"):
        bad += found
    if bad and not what.skip_bad:
        more = f"\nand {len(bad) - 5:,} more" if len(bad) > 5 else ""
        raise BadFile("\n".join(bad[:5]) + more + "\n--skip-bad leaves such files out, and counts them")
    tables = [_assemble(recording, what.out) for recording in recordings]
    console.print(_overview(tables))
    console.print(f"{len(tables)} tables; in {what.out}", markup=False)
    return tables


def _path(recording: Recording, out: Path) -> Path:
    return out / recording.rig.name / f"{recording.name}{SUFFIX}"


def _missing(recording: Recording) -> str:
    names = ", ".join(recording.missing[:3]) + (", ..." if len(recording.missing) > 3 else "")
    return (
        f"{recording.files[0].parent}: {len(recording.missing):,} snapshots are missing ({names}); get them, or "
        "leave them out with --skip-bad"
    )


def _pieces(recording: Recording, out: Path) -> Iterator[_Piece]:
    """The pieces of a recording; none if its table is there."""
    path = _path(recording, out)
    if _is_done(recording, path):
        return
    parts = path.with_name(f".{path.stem}.parts")
    for first in range(0, len(recording.files), _FILES):
        files = recording.files[first : first + _FILES]
        state = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        digest = hashlib.sha256(repr((state, recording.rate)).encode()).hexdigest()[:16]
        yield _Piece(recording, first, first + len(files), parts / f"{first:06d}-{digest}.npz")


def _is_done(recording: Recording, path: Path) -> bool:
    """Whether a table holds just the files of a recording, and none of them is newer."""
    if not path.exists() or read_table(path).files != tuple(file.name for file in recording.files):
        return False
    return max(file.stat().st_mtime_ns for file in recording.files) <= path.stat().st_mtime_ns


def _work(piece: _Piece, skip_bad: bool) -> list[str]:
    """Features of some files, kept in a file; returns what is bad about them."""
    rows: list[Rows] = [Rows.empty(piece.recording)]
    bad: list[str] = []
    described: dict[float, WindowFeatures] = {}
    for number in range(piece.first, piece.last):
        try:
            rows.append(rows_of(piece.recording, number, described))
        except BadFile as error:
            bad.append(str(error))
    if skip_bad or not bad:
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, bad=np.array(bad, dtype=str), **Rows.joined(rows)._asdict())
        piece.part.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(piece.part, file.getvalue())
    return bad


def _assemble(recording: Recording, out: Path) -> FeatureTable:
    """The table of a recording: read if it is there, else made of its parts, which are then given up."""
    path = _path(recording, out)
    pieces = list(_pieces(recording, out))
    if not pieces:
        return read_table(path)
    parts, left_out = [], []
    for piece in pieces:
        with np.load(piece.part, allow_pickle=False) as arrays:
            parts.append(Rows(*(arrays[name] for name in Rows._fields)))
            left_out += arrays["bad"].tolist()
    rows = Rows.joined(parts)
    if not len(rows.which):
        raise BadFile(f"{recording.files[0].parent}: no file of {recording.name} could be used")
    clock = past_midnight(rows.start)
    table = FeatureTable(
        rig=recording.rig.name,
        name=recording.name,
        seconds=clock - clock[0] + rows.offset,
        names=feature_names(recording),
        values=rows.values,
        temperature=_temperature(recording, clock + rows.offset),
        file=rows.which,
        files=tuple(file.name for file in recording.files),
        rate=float(rows.rate[0]),
        rpm=recording.condition.rpm,
        load=recording.condition.load,
        skipped=(*left_out, *(f"{name} is missing" for name in recording.missing)),
    )
    write_table(path, table)
    shutil.rmtree(pieces[0].part.parent)
    return table


def _temperature(recording: Recording, clock: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n] the last temperature that was measured before each time; NaN where there was none."""
    if not recording.temperatures:
        return np.full(len(clock), np.nan)
    seconds, degrees = read_temperature(recording.temperatures)
    seconds = past_midnight(seconds)
    place = np.searchsorted(seconds, clock, "right") - 1
    return np.where(place >= 0, degrees[place.clip(0)], np.nan)


def _overview(tables: Sequence[FeatureTable]) -> Table:
    columns = ("rig", "bearing", "files", "windows", "hours", "left out")
    table = Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in table.columns[2:]:
        column.justify = "right"
    for each_ in tables:
        table.add_row(
            each_.rig,
            each_.name,
            f"{len(each_.files):,}",
            f"{len(each_.seconds):,}",
            f"{each_.seconds[-1] / 3600:,.2f}",
            str(len(each_.skipped) or ""),
        )
    return table
