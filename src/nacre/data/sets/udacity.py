"""Udacity's driving simulator: camera images of a drive of your own, and how the wheel was held."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.array_cache import Arrays, cached
from nacre.data.files.store import recorded_in
from nacre.data.sets.udacity_images import SIZE, Images, read_frame
from nacre.data.sets.udacity_log import CAMERAS, Log, read_log

LOG = "driving_log.csv"
FOLDERS = ("udacity", "udacity_track")
GAP = 1.0  # seconds: more between two images is a pause of the recording, and segments are at least so far apart
_READER = "udacity-1"  # raise the number with every change of `_parse` or `read_frame`


def load_udacity(data_dir: Path | None = None, segments: int = 20) -> Dataset:
    """One sequence of a single image for each moment of a drive, and the steering at that moment, from -1 to 1.

    Images are cropped to the road and 66 x 200 pixels large, see `udacity_images.read_frame`. Segments of the
    drive are groups: neighbouring images are all but equal, so they must not be in two parts of a split.
    Segments are stretches without a pause, and what follows a segment within a second belongs to none.

    If all images of the left and the right camera are there, they are rows, too, that no sequence holds: of the n
    sequences number i is row i, row n + i is what the left camera saw and row 2 n + i what the right one did.

    Args:
        data_dir: Where `driving_log.csv` lies, in it or in its folder `udacity` or `udacity_track`; None looks for
            these folders where the command was started, then in $NACRE_DATA and in the cache. Images lie in `IMG`,
            beside the log or in zip files beside it.
        segments: Segments that are made at least.

    Raises:
        FileNotFoundError: If there is no log, or an image of the centre camera is missing.
        ValueError: If the log or an image is damaged, or the drive is too short for the segments.
    """
    whole("segments", segments, 1)
    folder = _folder(data_dir)
    path = folder / LOG
    contents = path.read_bytes()
    log = read_log(path, contents.decode("utf-8-sig", "replace"))  # of a path that is no UTF-8, the end counts
    with Images(folder) as images:
        cameras = _cameras(log, images, folder)
        recording = _Recording(path, log, images, cameras, _checksums(contents, log, images, cameras))
        frames = cached(_READER, recording, _parse)["frames"]  # [cameras, rows, height, width, 3]
    segment = segments_of(log.seconds, segments)
    if segment.max() + 1 < segments:
        raise ValueError(
            f"{path}: {log.seconds[-1]:,.1f} s of driving are too short for {segments} segments, {GAP:g} s apart; "
            "record more, or ask for fewer segments ([data] segments in a recipe)"
        )
    kept = np.flatnonzero(segment >= 0)
    return _dataset(recording, frames, kept, segment[kept])


def segments_of(seconds: NDArray[np.float64], segments: int) -> NDArray[np.int64]:
    """Which segment each moment of a drive belongs to.

    The drive is cut at pauses and, between them, into stretches of about equal numbers of images. What follows a
    cut within `GAP` is left out, so any two segments are further apart than that.

    Args:
        seconds: [n] when each image was taken; never goes back.
        segments: How many there should be at least; a drive that is too short has fewer.

    Returns:
        [n] number of the segment, from 0 on; -1 for what is left out.

    Example:
        >>> segments_of(np.arange(12) / 4, 2).tolist()
        [0, 0, 0, 0, 0, 0, -1, -1, -1, -1, 1, 1]
    """
    pauses = np.flatnonzero(np.diff(seconds) > GAP) + 1
    segment, number = np.full(len(seconds), -1), 0
    for run in np.split(np.arange(len(seconds)), pauses):
        pieces = min(len(run), -(-len(run) * segments // len(seconds)))  # rounded up, so there are enough in all
        for stretch in np.array_split(run, pieces):
            end = seconds[stretch[0] - 1] if stretch[0] else -np.inf  # of the stretch before
            members = stretch[seconds[stretch] > end + GAP]
            if len(members):
                segment[members] = number
                number += 1
    return segment


@dataclass(frozen=True)
class _Recording:
    """All that a recording is made of."""

    path: Path
    log: Log
    images: Images
    cameras: tuple[str, ...]
    sha256: dict[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        missing = (
            () if len(self.cameras) > 1 else ("images of the left and right camera are not all there: unused",)
        )
        return (*self.log.notes, *missing)


def _dataset(
    recording: _Recording, frames: NDArray[np.uint8], kept: NDArray[np.int64], segment: NDArray[np.int64]
) -> Dataset:
    """The data set of some rows of a recording, each with its segment."""
    log, count = recording.log, len(recording.cameras)
    y = torch.from_numpy(log.steering[kept]).unsqueeze(1)
    first = torch.from_numpy(np.diff(segment, prepend=-1) > 0)
    began = [log.began + timedelta(seconds=float(log.seconds[kept[row]])) for row in first.nonzero().squeeze(1)]
    left_out = len(log.line) - len(kept)
    return Dataset(
        name="udacity",
        kind=Kind.REGRESSION,
        values=torch.from_numpy(frames[:, kept].reshape(-1, *SIZE, 3)),
        time=torch.from_numpy(log.seconds[kept]).repeat(count),
        start=torch.arange(len(kept)),
        length=torch.ones(len(kept), dtype=torch.int64),
        y=y,
        group=torch.from_numpy(segment),
        groups=tuple(f"{number:02d} from {moment:%Y-%m-%d %H:%M:%S}" for number, moment in enumerate(began)),
        features=("red", "green", "blue"),
        targets=("steering",),
        before=y.roll(1, 0).masked_fill(first.unsqueeze(1), float("nan")),
        neutral=0.0,
        time_unit="seconds",
        form=f"recorded, {len(log.line):,} moments, {count} camera{'s' * (count > 1)}",
        files=recording.sha256,
        notes=(f"left out between segments, {GAP:g} s each: {left_out:,} moments", *recording.notes),
    )


def _folder(data_dir: Path | None) -> Path:
    """The first folder that holds a log."""
    folders = recorded_in(data_dir, FOLDERS)
    for folder in folders:
        if (folder / LOG).is_file():
            return folder
    raise FileNotFoundError(
        f"no {LOG} in {', '.join(map(str, folders))}; record a drive in the training mode of Udacity's simulator, "
        "into one of these folders, or name the folder that has it: --data-dir or $NACRE_DATA"
    )


def _cameras(log: Log, images: Images, folder: Path) -> tuple[str, ...]:
    """All three cameras if all of their images are there; else the centre one, whose images must be."""
    missing = [row for row, name in enumerate(log.names["center"]) if name not in images]
    if missing:
        row = missing[0]
        raise FileNotFoundError(
            f"{folder / LOG}, line {log.line[row]}: no image {log.names['center'][row]!r} in {folder / 'IMG'}, in "
            f"{folder} or in a zip file there (missing images of the centre camera: {len(missing):,})"
        )
    complete = all(name in images for camera in CAMERAS for name in log.names[camera])
    return CAMERAS if complete else CAMERAS[:1]


def _checksums(contents: bytes, log: Log, images: Images, cameras: tuple[str, ...]) -> dict[str, str]:
    """Checksum of the log, and one of all images of each camera, wherever they lie."""
    found = {LOG: hashlib.sha256(contents).hexdigest()}
    for camera in cameras:
        digest = hashlib.sha256()
        for name in log.names[camera]:
            digest.update(hashlib.sha256(images.read(name)).digest())
        found[f"{camera} images"] = digest.hexdigest()
    return found


def _parse(recording: _Recording) -> Arrays:
    """All images: [cameras, rows, height, width, 3] bytes."""
    log, images = recording.log, recording.images
    frames = np.empty((len(recording.cameras), len(log.line), *SIZE, 3), np.uint8)
    for camera, into in zip(recording.cameras, frames, strict=True):
        for row, name in enumerate(log.names[camera]):
            try:
                into[row] = read_frame(images.read(name), images.place(name))
            except ValueError as error:
                raise ValueError(f"{recording.path}, line {log.line[row]}: {error}") from None
    return {"frames": frames}
