"""Recorded drives: one compressed file each, written atomically, read without pickle."""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nacre._util.files import write_atomic

ACTIONS = ("coast", "right", "left", "gas", "brake")  # as the discrete CarRacing-v3 numbers them
POSE = ("x", "y", "heading", "speed", "wheel")  # columns of `Episode.pose`
FRAME = (96, 96, 3)
MOST_BYTES = 1 << 30  # of an episode in memory: about 38,000 frames
SUFFIX = ".npz"
FORMAT = 1
_ARRAYS = ("frames", "action", "label", "pose", "road")
# What numpy, zipfile and zlib raise for a file that is cut off or altered.
_DAMAGE = (ValueError, EOFError, KeyError, TypeError, OSError, zipfile.BadZipFile, zlib.error)
_DAMAGE += (NotImplementedError, MemoryError)


@dataclass(frozen=True)
class Drive:
    """How an episode is driven."""

    seed: int  # of the track; it also seeds colours and noise, each with a generator of its own
    randomize: bool = False  # whether road and grass have random colours
    noise: float = 0.0  # share of the steps with a random action instead of the driver's
    driver: str = "expert"
    limit: int = 2000  # steps after which the episode ends

    @property
    def name(self) -> str:
        """Name of its file, without the suffix."""
        words = [f"{self.seed:06d}", self.driver]
        words += ["colours"] * self.randomize + [f"noise{self.noise:g}"] * (self.noise > 0)
        return "-".join(words)


@dataclass(frozen=True)
class Episode:
    """A drive of n steps."""

    drive: Drive
    frames: NDArray[np.uint8]  # [n, 96, 96, 3] what was seen before each step
    action: NDArray[np.int64]  # [n] what was done
    label: NDArray[np.int64]  # [n] what the driver chose; differs from `action` under noise
    pose: NDArray[np.float64]  # [n, 5] see `POSE`: metres, radians, metres a second
    road: NDArray[np.float64]  # [m, 2] points of the centre line, in driving direction, from the start line on
    outcome: dict[str, Any]  # metrics of the episode, such as progress and whether the lap was finished


def write_episode(folder: Path, episode: Episode) -> Path:
    """Write an episode atomically into a folder, under the name of its drive."""
    about = {"format": FORMAT, "drive": asdict(episode.drive), "outcome": episode.outcome}
    arrays = {name: getattr(episode, name) for name in _ARRAYS}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
    folder.mkdir(parents=True, exist_ok=True)
    return write_atomic(folder / f"{episode.drive.name}{SUFFIX}", file.getvalue())


def read_episode(path: Path) -> Episode:
    """Read an episode; a ValueError if the file is damaged, or is no episode."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())  # no more than this is unpacked
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to {size:,} bytes, at most {MOST_BYTES:,} are read")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            episode = Episode(
                Drive(**about["drive"]), *(arrays[name] for name in _ARRAYS), outcome=about["outcome"]
            )
            format_ = about["format"]
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged or no episode ({error}); delete it and record it again") from None
    if format_ != FORMAT:
        raise ValueError(f"{path} has format {format_}, this nacre reads {FORMAT}; record it again")
    _check(episode, path)
    return episode


def _check(episode: Episode, path: Path) -> None:
    steps = len(episode.frames)
    wanted = {"frames": (steps, *FRAME), "action": (steps,), "label": (steps,), "pose": (steps, len(POSE))}
    for name, shape in wanted.items():
        got = getattr(episode, name).shape
        if got != shape or steps == 0:
            raise ValueError(f"{path}: {name} must have shape {shape} and a step at least, got {got}")
    for name in ("action", "label"):
        numbers = getattr(episode, name)
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(ACTIONS):
            raise ValueError(f"{path}: {name} must hold numbers from 0 to {len(ACTIONS) - 1}")
    if episode.frames.dtype != np.uint8:
        raise ValueError(f"{path}: frames must be uint8, got {episode.frames.dtype}")


def episode_files(folder: Path) -> list[Path]:
    """Files of episodes in a folder, in the order of their names."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def checksums(paths: Sequence[Path]) -> dict[str, str]:
    """File name to sha256."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
