"""Udacity's driving simulator: camera images of a drive of your own, and the steering."""

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
from nacre.data.sets.udacity_log import CAMERAS, DrivingLog, read_log

LOG = "driving_log.csv"
FOLDERS = ("udacity", "udacity_track")
GAP = 1.0  # seconds: more between two images is a pause of the recording, and segments are at least so far apart
_READER = "udacity-1"  # raise the number with every change of `_parse` or `read_frame`


def load_udacity(data_dir: Path | None = None, segments: int = 20) -> Dataset:
    """One sequence of a single image for each moment of a drive, and the steering at that moment, from -1 to 1.

    Images are cropped to the road and resized to 66 x 200 pixels, see `udacity_images.read_frame`. Segments of the
    drive are groups: neighbouring images are nearly equal, so they must not be in two parts of a split. Segments
    have no pauses, and the second after a segment belongs to none.

    If all images of the left and the right camera are there, they are rows, too, that no sequence holds: of the n
    sequences number i is row i, row n + i is the left camera's image and row 2 n + i the right one's.

    Args:
        data_dir: Where `driving_log.csv` is, in it or in its folder `udacity` or `udacity_track`; None looks for
            these folders in the working directory, in $NACRE_DATA and in the cache. Images are in `IMG`, beside
            the log or in zip files beside it.
        segments: The least number of segments.

    Raises:
        FileNotFoundError: If there is no log, or an image of the centre camera is missing.
        ValueError: If the log or an image is damaged, or the drive is too short for the segments.
    """
    whole("segments", segments, 1)
    folders = recorded_in(data_dir, FOLDERS)
    folder = next((folder for folder in folders if (folder / LOG).is_file()), None)
    if folder is None:
        raise FileNotFoundError(
            f"no {LOG} in {', '.join(map(str, folders))}; record a drive in the training mode of Udacity's "
            "simulator, into one of these folders, or name the folder that has it: --data-dir or $NACRE_DATA"
        )
    path = folder / LOG
    contents = path.read_bytes()
    log = read_log(path, contents.decode("utf-8-sig", "replace"))  # only file names need be UTF-8
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
    """[n] the segment of each image of a drive, from 0 on, by its time [n]; -1 for what is left out.

    The drive is cut at pauses and, between them, into parts of about equal numbers of images. Images within `GAP`
    after a cut are left out, so any two segments are further apart than that. A drive that is too short has fewer
    segments than asked.

    Example:
        >>> segments_of(np.arange(12) / 4, 2).tolist()
        [0, 0, 0, 0, 0, 0, -1, -1, -1, -1, 1, 1]
    """
    pauses = np.flatnonzero(np.diff(seconds) > GAP) + 1
    segment, number = np.full(len(seconds), -1), 0
    for stretch in np.split(np.arange(len(seconds)), pauses):
        pieces = min(len(stretch), -(-len(stretch) * segments // len(seconds)))  # rounded up: enough in all
        for piece in np.array_split(stretch, pieces):
            end = seconds[piece[0] - 1] if piece[0] else -np.inf  # of the piece before
            members = piece[seconds[piece] > end + GAP]
            if len(members):
                segment[members] = number
                number += 1
    return segment


@dataclass(frozen=True)
class _Recording:
    path: Path
    log: DrivingLog
    images: Images
    cameras: tuple[str, ...]
    sha256: dict[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        if len(self.cameras) > 1:
            return self.log.notes
        return (*self.log.notes, "images of the left and right camera are not all there: unused")


def _dataset(
    recording: _Recording, frames: NDArray[np.uint8], kept: NDArray[np.int64], segment: NDArray[np.int64]
) -> Dataset:
    """The data set of the kept rows of a recording, each with its segment."""
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


def _cameras(log: DrivingLog, images: Images, folder: Path) -> tuple[str, ...]:
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


def _checksums(contents: bytes, log: DrivingLog, images: Images, cameras: tuple[str, ...]) -> dict[str, str]:
    """Checksum of the log, and one of all images of each camera, wherever they are."""
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
