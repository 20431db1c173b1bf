"""Event-based MNIST: each image as runs of equal pixels, instead of 784 pixels."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.array_cache import Arrays, cached
from nacre.data.files.fetch import obtain
from nacre.data.files.store import FormContents

PIXELS = 28 * 28
SPAN = 256.0  # units of time of a whole image, as in the paper
_READER = "event-mnist-1"  # raise the number with every change of `_parse`
_THRESHOLD = 128  # a pixel of at least this is ink
_CHUNK = 4096  # images at once, to keep memory small


def load_event_mnist(data_dir: Path | None = None, max_events: int = 256) -> Dataset:
    """MNIST as events: an image read row by row is a sequence of runs, each with its symbol and its duration.

    Features are the symbol (1 = ink) and the duration of the run; 784 pixels last 256 units of time. The first
    and the last run count too. The stamp of an event is the end of its run, when its duration is known, so a
    causal model sees nothing early. Differences of stamps are the durations.

    Every image is a group of its own; `test` marks the official 10,000.

    Args:
        data_dir: Where to look first for the four files; see `nacre.data.files.store.find`.
        max_events: Events kept of each image, the first ones. The longest image has fewer than 256.

    Raises:
        FileNotFoundError: If the files are neither found nor fetched.
        ValueError: If one is damaged.
    """
    whole("max_events", max_events, 1)
    source = obtain("event-mnist", data_dir)
    arrays = {key: torch.from_numpy(array) for key, array in cached(_READER, source, _parse).items()}
    values, time, runs, cut = _events(arrays["ink"], arrays["end"], arrays["runs"], max_events)
    train, images = int(arrays["train"]), len(runs)
    index = torch.arange(images)
    return Dataset(
        name="event-mnist",
        kind=Kind.CLASSIFICATION,
        values=values,
        time=time,
        start=runs.cumsum(0) - runs,
        length=runs,
        y=arrays["label"].long(),
        group=index,
        groups=tuple(f"train-{i}" for i in range(train)) + tuple(f"test-{i}" for i in range(images - train)),
        features=("ink", "duration"),
        classes=tuple("0123456789"),
        test=index >= train,
        form=source.form,
        files=source.sha256,
        notes=(f"images cut off after {max_events:,} events: {cut:,}",) if cut else (),
    )


def _events(ink: Tensor, end: Tensor, runs: Tensor, max_events: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """Features [N, 2], stamps [N], events of each image [n], and how many images were cut off."""
    runs = runs.long()
    first = runs.cumsum(0) - runs  # [n] first run of each image
    before = end.long().roll(1)
    before[first] = 0  # an image starts at pixel 0
    duration = end - before
    rank = torch.arange(len(end)) - first.repeat_interleave(runs)
    keep = rank < max_events
    values = torch.stack([ink[keep].double(), duration[keep] * SPAN / PIXELS], 1).float()
    return values, end[keep].double() * SPAN / PIXELS, runs.clamp(max=max_events), int((runs > max_events).sum())


def _parse(source: FormContents) -> Arrays:
    """All runs of all images, training images first: symbol and end of each, runs and label of each image."""
    parts = [_part(source, part) for part in ("train", "t10k")]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return {**joined, "train": np.array(len(parts[0]["label"]))}


def _part(source: FormContents, part: str) -> Arrays:
    names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    images = _read_idx(source, names[0], (28, 28)).reshape(-1, PIXELS)
    label = _read_idx(source, names[1], ())
    if len(images) != len(label):
        raise ValueError(f"{source.paths[names[0]]} holds {len(images):,} images but {len(label):,} labels came")
    if label.size and label.max() > 9:
        raise ValueError(f"{source.paths[names[1]]}: labels must be 0 to 9, got {label.max()}")
    chunks = [run_lengths(images[i : i + _CHUNK] >= _THRESHOLD) for i in range(0, len(images), _CHUNK)]
    ink, end, runs = (np.concatenate(each) for each in zip(*chunks, strict=True))
    return {"ink": ink, "end": end, "runs": runs, "label": label}


def run_lengths(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symbol and end of each run of equal pixels in the rows of a bool array [n, P], and runs of each row.

    Example:
        >>> run_lengths(np.array([[False, False, True], [True, True, True]]))
        (array([0, 1, 1], dtype=uint8), array([2, 3, 3], dtype=int16), array([2, 1], dtype=int16))
    """
    last = np.ones(pixels.shape, dtype=bool)  # where a run ends
    np.not_equal(pixels[:, :-1], pixels[:, 1:], out=last[:, :-1])
    _, position = np.nonzero(last)
    return pixels[last].astype(np.uint8), (position + 1).astype(np.int16), last.sum(1).astype(np.int16)


def _read_idx(source: FormContents, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """[n, *shape] bytes of a file in the IDX format: type, number of dimensions, sizes, data."""
    data, dimensions = source.contents[name], 1 + len(shape)
    header = np.frombuffer(data[: 4 * (1 + dimensions)].ljust(4 * (1 + dimensions), b"\0"), dtype=">u4")
    count = int(header[1])
    body = np.frombuffer(data, dtype=np.uint8)[4 * (1 + dimensions) :]
    if header[0] != 0x800 + dimensions or tuple(header[2:]) != shape or body.size != count * int(np.prod(shape)):
        raise ValueError(f"{source.paths[name]} is no IDX file of bytes [n{''.join(f', {s}' for s in shape)}]")
    return body.reshape(count, *shape)
