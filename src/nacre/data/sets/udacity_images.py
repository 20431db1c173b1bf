"""Images of the Udacity simulator: found by name in a folder or in zip files, cropped and resized."""

import io
import os
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nacre.data.sets.udacity_log import file_name

WIDTH, HEIGHT = 320, 160  # of what the simulator records, in pixels
TOP, BOTTOM = 60, 135  # rows that are kept: neither sky nor bonnet
SIZE = HIGH, WIDE = 66, 200  # what the network sees, in pixels
MOST_BYTES = 1 << 20  # of an image file; those of the simulator have 13 kB
_FORMATS = ("JPEG", "PNG")
# What zipfile raises for members that are damaged, encrypted or oddly compressed, and the system for files.
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)


def read_frame(data: bytes, name: str) -> NDArray[np.uint8]:
    """[66, 200, 3] what the network sees of a JPEG or PNG file of 320 x 160 pixels, see `road_of`.

    A ValueError, which calls the file `name`, if it is damaged, or of another size.

    Example:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (320, 160), "red").save(file, "PNG")
        >>> read_frame(file.getvalue(), "red.png")[0, 0]
        array([255,   0,   0], dtype=uint8)
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            size = image.size
            if size == (WIDTH, HEIGHT):  # checked before decoding: an image may claim to be huge
                return road_of(np.asarray(image.convert("RGB")))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        text = str(error).split(" <", 1)[0]  # Pillow names its own objects
        raise ValueError(f"{name} is damaged, or neither JPEG nor PNG ({text}); wanted a camera image") from None
    raise ValueError(f"{name} has {size[0]:,} x {size[1]:,} pixels; the simulator records {WIDTH} x {HEIGHT}")


def road_of(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[66, 200, 3] a camera image [160, 320, 3], cropped and resized by antialiased bilinear interpolation."""
    from PIL import Image

    road = Image.fromarray(pixels[TOP:BOTTOM])
    return np.array(road.resize((WIDE, HIGH), Image.Resampling.BILINEAR))


@dataclass(frozen=True)
class _Place:
    """Where an image is: a file, or a member of a zip file."""

    path: Path
    member: zipfile.ZipInfo | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}: {self.member.filename}"


class Images(ExitStack):
    """The images of a recording: in its folder `IMG`, beside its log, or in zip files beside it.

    The files are listed once, and names are looked up in this list: whatever a log says, no other file is opened,
    and no zip file is ever extracted. A damaged zip file raises a ValueError. Leaving the context closes them.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._places: dict[str, _Place] = {}
        self._archives: dict[Path, zipfile.ZipFile] = {}
        for part in (folder / "IMG", folder):
            if part.is_dir():
                for entry in sorted(os.scandir(part), key=lambda entry: entry.name):
                    if entry.is_file():
                        self._places.setdefault(entry.name, _Place(part / entry.name))
        for path in sorted(folder.glob("*.zip")):
            self._list(path)

    def _list(self, path: Path) -> None:
        try:
            self._archives[path] = self.enter_context(zipfile.ZipFile(path))
        except _UNREADABLE as error:
            self.close()
            raise ValueError(f"{path} is damaged or no zip file ({error}); get it again, or remove it") from None
        for member in self._archives[path].infolist():
            if not member.is_dir():
                self._places.setdefault(file_name(member.filename), _Place(path, member))

    def __contains__(self, name: str) -> bool:
        """Whether there is an image of this file name."""
        return name in self._places

    def place(self, name: str) -> str:
        """Where an image is, in words."""
        return str(self._places[name])

    def read(self, name: str) -> bytes:
        """The bytes of an image file; a ValueError if they cannot be read, or are too many for a camera image."""
        place = self._places[name]
        try:
            size = place.path.stat().st_size if place.member is None else place.member.file_size
            if size > MOST_BYTES:
                raise ValueError(
                    f"{place} has {size:,} bytes, too many for a camera image (at most {MOST_BYTES:,})"
                )
            if place.member is None:
                return place.path.read_bytes()
            return self._archives[place.path].read(place.member)
        except _UNREADABLE as error:
            raise ValueError(f"{place} cannot be read ({error}); get it again") from None
