"""The film of a drive, as MP4 and as a short GIF. Needs imageio, imageio-ffmpeg and Pillow."""

from __future__ import annotations

import io
import math
import os
import secrets
from collections import deque
from contextlib import closing
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

EVERY = 2  # steps from one image of the film to the next
RATE = FPS // EVERY  # images a second
_GIF_SECONDS, _GIF_EVERY, _GIF_COLOURS = 10, 3, 128  # a GIF of the whole drive would be huge
_QUALITY = 7  # of 10


class Film(NamedTuple):
    """A film, and the drive that it shows."""

    mp4: Path  # the whole drive (H.264, 25 images a second)
    gif: Path  # its first 10 seconds
    episode: Episode


def film(driver: Driver, drive: Drive, stem: Path) -> Film:
    """Drive, and film it: the car from above, what the driver sees, and for networks what it looks at and decides.

    Both files, `stem` with suffixes .mp4 and .gif, are written at the end, and only if everything succeeded; until
    then existing ones stay. The same drive gives the same film.
    """
    mp4, gif = (stem.with_name(stem.name + suffix) for suffix in (".mp4", ".gif"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    unfinished = mp4.with_name(f".{stem.name}-{secrets.token_hex(8)}.mp4")
    try:
        with closing(_Camera(driver, unfinished)) as camera:
            episode = run_episode(driver, drive, watch=camera.watch, render=True)
        camera.check()
        beginning = _gif(camera.beginning)
        os.replace(unfinished, mp4)
    finally:
        unfinished.unlink(missing_ok=True)
    return Film(mp4, write_atomic(gif, beginning), episode)


class _Camera:
    """Watches a drive and writes the images of its film; `beginning` has those of the GIF."""

    def __init__(self, driver: Driver, path: Path) -> None:
        import imageio.v2 as imageio

        self._driver, self._path, self._taken = driver, path, 0
        window = driver.frames if isinstance(driver, NetworkDriver) else 1
        self._seen: deque[NDArray[np.uint8]] = deque(maxlen=window)
        self.beginning: list[NDArray[np.uint8]] = []
        self._writer = imageio.get_writer(
            path,
            format="FFMPEG",
            fps=RATE,
            codec="libx264",
            pixelformat="yuv420p",  # the one that browsers play
            quality=_QUALITY,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],  # plays before it is loaded completely
        )

    def close(self) -> None:
        """Let ffmpeg finish the file."""
        self._writer.close()

    def watch(self, world: World, action: int) -> None:
        """Remember the frame, and write an image at every second step."""
        self._seen.append(world.frame)
        if world.steps % EVERY:
            return
        image = draw(self._moment(world, action))
        self._writer.append_data(image)
        if self._taken < _GIF_SECONDS * RATE and self._taken % _GIF_EVERY == 0:
            self.beginning.append(image)
        self._taken += 1

    def check(self) -> None:
        """Refuse a film that lacks images: ffmpeg may have stopped early without an error."""
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
            # For its likeliest action, which changes less from image to image than the action taken.
            hot = heat_now(driver.network, np.stack(self._seen), int(probabilities.argmax()))
        return Moment(
            driver=driver.name,
            seconds=world.steps / FPS,
            action=action,
            speed=world.pose.speed,
            error=world.place.error,
            view=world.view(),
            frame=world.frame,
            heat=hot,
            probabilities=probabilities,
        )


def _gif(images: list[NDArray[np.uint8]]) -> bytes:
    """A GIF with one palette of few colours for all images: what does not change then takes no space."""
    some = np.concatenate(images[:: math.ceil(len(images) / 8)])
    palette = Image.fromarray(some).quantize(_GIF_COLOURS)
    first, *rest = [Image.fromarray(each).quantize(palette=palette, dither=Image.Dither.NONE) for each in images]
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, duration=1000 * _GIF_EVERY // RATE, loop=0)
    return file.getvalue()
