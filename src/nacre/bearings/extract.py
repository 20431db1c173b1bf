"""`nacre data features`: recordings of bearings to tables of features, piece by piece, so it can be resumed."""

from __future__ import annotations

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
from rich.console import Console
from rich.table import Table

from nacre._util.checks import real, whole
from nacre._util.files import write_atomic
from nacre._util.pool import default_jobs, each
from nacre._util.text import console_table
from nacre.data.rigs.feature_table import SUFFIX, FeatureTable, read_table, write_table
from nacre.data.rigs.readers import AXES, BadFile, past_midnight, read_temperature
from nacre.data.rigs.recordings import BearingRecording, find_recordings
from nacre.signals.features import HOP, WINDOW_FEATURES, WindowFeatures, envelope_energy, windows_of

FOLDER = Path("bearings-features")
_FILES = 50  # of a piece, which is what an interruption can lose


@dataclass(frozen=True)
class Extraction:
    """What to extract."""

    places: Sequence[Path]  # folders of recordings, or MAT files
    out: Path = FOLDER  # where tables go, a folder for each rig
    rate: float | None = None  # samples a second, for files that do not say
    skip_bad: bool = False  # whether missing or damaged files are left out and counted, instead of refused
    jobs: int | None = None  # processes at once; None for one for each processor

    def __post_init__(self) -> None:
        """Check the rate."""
        if self.rate is not None:
            real("rate", self.rate, 100.0, 1e7)


class WindowRows(NamedTuple):
    """Windows of some files, concatenated."""

    which: NDArray[np.int64]  # [k] number of the file
    start: NDArray[np.float64]  # [k] start time in the file
    offset: NDArray[np.float64]  # [k] seconds from there to the first sample of the window
    values: NDArray[np.float64]  # [k, F] features
    rate: NDArray[np.float64]  # [k] samples a second

    @classmethod
    def empty(cls, recording: BearingRecording) -> WindowRows:
        """Without any windows."""
        nothing = np.empty(0)
        values = np.empty((0, len(feature_names(recording))))
        return cls(nothing.astype(np.int64), nothing, nothing, values, nothing)

    @classmethod
    def joined(cls, parts: list[WindowRows]) -> WindowRows:
        """Several parts in their order."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _Piece(NamedTuple):
    """Some files of a recording that are processed together."""

    recording: BearingRecording
    first: int  # number of the first file
    last: int  # the one after the last
    part: Path  # where its features are kept until the recording is done


def extract(what: Extraction) -> list[FeatureTable]:
    """Extract the features that are missing, write one table for each recording, and print a summary.

    Raises:
        BadFile: If a file is missing or damaged, unless such files are to be left out; all others are done first.
        FileNotFoundError: If there are no recordings.
    """
    console = Console()
    recordings = find_recordings(what.places, what.rate)
    jobs = default_jobs() if what.jobs is None else whole("jobs", what.jobs, 1)
    for recording in recordings:
        if recording.missing and not what.skip_bad:
            names = ", ".join(recording.missing[:3]) + (", ..." if len(recording.missing) > 3 else "")
            raise BadFile(
                f"{recording.files[0].parent}: {len(recording.missing):,} snapshots are missing ({names}); get "
                "them, or leave them out with --skip-bad"
            )
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


def rows_of(recording: BearingRecording, number: int, extractors: dict[float, WindowFeatures]) -> WindowRows:
    """Features of the windows of one file of a recording; a `BadFile` error if its contents are wrong.

    `extractors` by sampling rate are added here, so that each is made once.
    """
    path = recording.files[number]
    shot = recording.read(path)
    if shot.rate not in extractors:
        extractors[shot.rate] = WindowFeatures(shot.rate)
    extractor = extractors[shot.rate]
    windows = windows_of(shot.samples, extractor.window)  # [k, axes, window]
    try:
        values = [extractor(windows).numpy()]  # [k, axes, features]
    except ValueError as error:
        raise BadFile(f"{path}: {error}") from None
    faults = faults_of(recording)
    if faults:
        energy = envelope_energy(shot.samples, shot.rate, faults).numpy()  # [axes, faults]
        values.append(np.broadcast_to(energy, (len(windows), *energy.shape)))
    flat = np.concatenate(values, -1).reshape(len(windows), -1)
    offset = np.arange(len(windows)) * HOP / shot.rate
    start, rate = (np.full(len(windows), value) for value in (shot.start, shot.rate))
    return WindowRows(np.full(len(windows), number), start, offset, flat, rate)


def faults_of(recording: BearingRecording) -> dict[str, float]:
    """Fault frequencies of a bearing; none where its geometry or speed is not known."""
    geometry, rpm = recording.rig.geometry, recording.condition.rpm
    return geometry.fault_frequencies(rpm) if geometry is not None and rpm is not None else {}


def feature_names(recording: BearingRecording) -> tuple[str, ...]:
    """Names of the features of a recording, axis by axis."""
    return tuple(f"{axis}_{name}" for axis in AXES for name in (*WINDOW_FEATURES, *faults_of(recording)))


def _path(recording: BearingRecording, out: Path) -> Path:
    return out / recording.rig.name / f"{recording.name}{SUFFIX}"


def _pieces(recording: BearingRecording, out: Path) -> Iterator[_Piece]:
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


def _is_done(recording: BearingRecording, path: Path) -> bool:
    """Whether a table holds exactly the files of a recording, and none of them is newer."""
    if not path.exists() or read_table(path).files != tuple(file.name for file in recording.files):
        return False
    return max(file.stat().st_mtime_ns for file in recording.files) <= path.stat().st_mtime_ns


def _work(piece: _Piece, skip_bad: bool) -> list[str]:
    """Write the features of some files; returns errors of bad files."""
    rows, bad = [WindowRows.empty(piece.recording)], []
    extractors: dict[float, WindowFeatures] = {}
    for number in range(piece.first, piece.last):
        try:
            rows.append(rows_of(piece.recording, number, extractors))
        except BadFile as error:
            bad.append(str(error))
    if skip_bad or not bad:
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, bad=np.array(bad, dtype=str), **WindowRows.joined(rows)._asdict())
        piece.part.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(piece.part, file.getvalue())
    return bad


def _assemble(recording: BearingRecording, out: Path) -> FeatureTable:
    """The table of a recording: read if it is there, else joined from its parts, which are then deleted."""
    path = _path(recording, out)
    pieces = list(_pieces(recording, out))
    if not pieces:
        return read_table(path)
    parts, left_out = [], []
    for piece in pieces:
        with np.load(piece.part, allow_pickle=False) as arrays:
            parts.append(WindowRows(*(arrays[name] for name in WindowRows._fields)))
            left_out += arrays["bad"].tolist()
    rows = WindowRows.joined(parts)
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


def _temperature(recording: BearingRecording, clock: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n] the last temperature that was measured before each time; NaN where there was none."""
    if not recording.temperatures:
        return np.full(len(clock), np.nan)
    seconds, degrees = read_temperature(recording.temperatures)
    place = np.searchsorted(past_midnight(seconds), clock, "right") - 1
    return np.where(place >= 0, degrees[place.clip(0)], np.nan)


def _overview(tables: Sequence[FeatureTable]) -> Table:
    overview = console_table(("rig", "bearing", "files", "windows", "hours", "left out"), left=("bearing",))
    for table in tables:
        counts = f"{len(table.files):,}", f"{len(table.seconds):,}", f"{table.seconds[-1] / 3600:,.2f}"
        overview.add_row(table.rig, table.name, *counts, str(len(table.skipped) or ""))
    return overview
