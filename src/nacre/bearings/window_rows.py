"""Features of the windows of one file of a recording."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nacre.data.rigs.recordings import Recording
from nacre.data.rigs.snapshot import AXES, BadFile
from nacre.signals.features import HOP, WINDOW_FEATURES, WindowFeatures, envelope_energy, windows_of


class Rows(NamedTuple):
    """Windows of some files, one after the other.

    Attributes:
        which: [k] number of the file.
        start: [k] when the file begins, as it says itself.
        offset: [k] seconds from there to the first sample of the window.
        values: [k, F] features.
        rate: [k] samples a second.
    """

    which: NDArray[np.int64]
    start: NDArray[np.float64]
    offset: NDArray[np.float64]
    values: NDArray[np.float64]
    rate: NDArray[np.float64]

    @classmethod
    def empty(cls, recording: Recording) -> Rows:
        """Of no file at all."""
        nothing = np.empty(0)
        values = np.empty((0, len(feature_names(recording))))
        return cls(nothing.astype(np.int64), nothing, nothing, values, nothing)

    @classmethod
    def joined(cls, parts: list[Rows]) -> Rows:
        """Of several parts in their order."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def rows_of(recording: Recording, number: int, described: dict[float, WindowFeatures]) -> Rows:
    """Features of the windows of one file.

    Args:
        recording: What it belongs to.
        number: Which of its files.
        described: Extractors by sampling rate; filled here, so that each is made once.

    Raises:
        BadFile: If the file does not hold what it should.
    """
    path = recording.files[number]
    shot = recording.read(path)
    if shot.rate not in described:
        described[shot.rate] = WindowFeatures(shot.rate)
    describe = described[shot.rate]
    windows = windows_of(shot.samples, describe.window)  # [k, axes, window]
    try:
        values = [describe(windows).numpy()]  # [k, axes, features]
    except ValueError as error:
        raise BadFile(f"{path}: {error}") from None
    faults = faults_of(recording)
    if faults:
        energy = envelope_energy(shot.samples, shot.rate, faults).numpy()  # [axes, faults]
        values.append(np.broadcast_to(energy, (len(windows), *energy.shape)))
    flat = np.concatenate(values, -1).reshape(len(windows), -1)
    offset = np.arange(len(windows)) * HOP / shot.rate
    start, rate = (np.full(len(windows), value) for value in (shot.start, shot.rate))
    return Rows(np.full(len(windows), number), start, offset, flat, rate)


def faults_of(recording: Recording) -> dict[str, float]:
    """Frequencies at which faults of a bearing would knock, where its geometry and speed are known."""
    geometry, rpm = recording.rig.geometry, recording.condition.rpm
    return geometry.fault_frequencies(rpm) if geometry is not None and rpm is not None else {}


def feature_names(recording: Recording) -> tuple[str, ...]:
    """Names of the features of a recording, axis by axis."""
    return tuple(f"{axis}_{name}" for axis in AXES for name in (*WINDOW_FEATURES, *faults_of(recording)))
