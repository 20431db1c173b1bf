"""The film of a drive, as MP4 and as a short GIF. Needs imageio, imageio-ffmpeg and Pillow."""

from __future__ import annotations

import io
import math
import os
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nacre._util.files import write_atomic
from nacre.data.sets.episodes import Drive, Episode
from nacre.drive.carracing.episode import Driver, run_episode
from nacre.drive.carracing.film_frame import Moment, draw
from nacre.drive.carracing.policy import NetworkDriver
from nacre.drive.carracing.saliency import heat_now
from nacre.drive.carracing.world import FPS, World

EVERY = 2  # steps from one picture of the film to the next
PICTURES = FPS // EVERY  # a second
_GIF_SECONDS, _GIF_EVERY, _GIF_COLOURS = 10, 3, 128  # a GIF of the whole drive would be huge
_QUALITY = 7  # of 10


class Film(NamedTuple):
    """A film, and the drive that it shows.

    Attributes:
        mp4: The whole drive (H.264, 25 pictures a second).
        gif: Its first 10 seconds.
        episode: The drive.
    """

    mp4: Path
    gif: Path
    episode: Episode


def film(driver: Driver, drive: Drive, stem: Path) -> Film:
    """Drive, and film it: the car from above, what the driver sees, and for networks what it looks at and decides.

    Both files appear whole and at the end; until then, and if something goes wrong, older ones stay.

    Args:
        driver: Who drives. The same drive gives the same film: nothing in it is left to chance.
        drive: Which track, and how.
        stem: Path of the files without their suffixes.
    """
    mp4, gif = (stem.with_name(stem.name + suffix) for suffix in (".mp4", ".gif"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(mp4) as new:
        with _Camera(driver, new) as camera:
            episode = run_episode(driver, drive, watch=camera.watch, pictures=True)
        camera.check()
        beginning = _gif(camera.beginning)
        os.replace(new, mp4)
    return Film(mp4, write_atomic(gif, beginning), episode)


class _Camera:
    """Watches a drive and writes its pictures.

    Attributes:
        beginning: Pictures for the GIF.
    """

    def __init__(self, driver: Driver, path: Path) -> None:
        import imageio.v2 as imageio

        self._driver, self._path, self._taken = driver, path, 0
        window = driver.frames if isinstance(driver, NetworkDriver) else 1
        self._seen: deque[NDArray[np.uint8]] = deque(maxlen=window)
        self.beginning: list[NDArray[np.uint8]] = []
        self._writer = imageio.get_writer(
            path,
            format="FFMPEG",
            fps=PICTURES,
            codec="libx264",
            pixelformat="yuv420p",  # the one that browsers play
            quality=_QUALITY,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],  # plays before it is loaded to the end
        )

    def __enter__(self) -> _Camera:
        """The camera itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let ffmpeg end the file."""
        self._writer.close()

    def watch(self, world: World, action: int) -> None:
        """Remember what is seen, and take a picture now and then."""
        self._seen.append(world.frame)
        if world.steps % EVERY:
            return
        picture = draw(self._moment(world, action))
        self._writer.append_data(picture)
        if self._taken < _GIF_SECONDS * PICTURES and self._taken % _GIF_EVERY == 0:
            self.beginning.append(picture)
        self._taken += 1

    def check(self) -> None:
        """Refuse a film that lacks pictures: ffmpeg may have stopped early without a word."""
        from imageio_ffmpeg import count_frames_and_secs

        count = count_frames_and_secs(str(self._path))[0] if self._path.exists() else 0
        if count != self._taken:
            raise OSError(
                f"ffmpeg wrote {count:,} of {self._taken:,} pictures in {self._path.parent}; is the disk full?"
            )

    def _moment(self, world: World, action: int) -> Moment:
        driver = self._driver
        hot, probabilities = None, None
        if isinstance(driver, NetworkDriver):
            probabilities = driver.probabilities
            # For its likeliest action, which changes less from picture to picture than whose turn it is.
            hot = heat_now(driver.network, np.stack(self._seen), int(probabilities.argmax()))
        return Moment(
            driver=driver.name,
            seconds=world.steps / FPS,
            action=action,
            speed=world.pose.speed,
            error=world.place.error,
            view=world.picture(),
            frame=world.frame,
            heat=hot,
            probabilities=probabilities,
        )


def _gif(pictures: list[NDArray[np.uint8]]) -> bytes:
    """Pictures with few colours, the same in all: what does not change takes no space then."""
    some = np.concatenate(pictures[:: math.ceil(len(pictures) / 8)])
    palette = Image.fromarray(some).quantize(_GIF_COLOURS)
    frames = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    milliseconds = 1000 * _GIF_EVERY // PICTURES
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return file.getvalue()


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A name beside a path, with its suffix; a file of that name does not outlive the block."""
    name = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield name
    finally:
        name.unlink(missing_ok=True)
