"""`BearingRecording`: the files of one bearing, in order; finding them in folders, for all three rigs."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.data.rigs.readers import Snapshot, read_acceleration, read_mat, read_minute
from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU, Condition, Rig

_ACCELERATION = re.compile(r"acc_(\d+)\.csv")
_TEMPERATURE = re.compile(r"temp_(\d+)\.csv")
_MINUTE = re.compile(r"(\d+)\.csv")


@dataclass(frozen=True)
class BearingRecording:
    """One bearing on one rig."""

    rig: Rig
    name: str  # of the bearing
    files: tuple[Path, ...]  # in order of time
    temperatures: tuple[Path, ...] = ()  # files of its temperature, in order of time; only PRONOSTIA has some
    missing: tuple[str, ...] = ()  # names of files that are missing in the numbering
    rate: float | None = None  # samples a second, for files that do not say; None if not known

    @property
    def condition(self) -> Condition:
        """Speed and load, where known."""
        return self.rig.condition(self.name)

    def read(self, path: Path) -> Snapshot:
        """Read one of its files; a `BadFile` error if its contents are wrong."""
        if self.rig == PRONOSTIA:
            return read_acceleration(path)
        return read_minute(path) if self.rig == XJTU else read_mat(path, self.rate)


def find_recordings(places: Iterable[Path], rate: float | None = None) -> list[BearingRecording]:
    """All recordings in folders and below them, by rig and name.

    PRONOSTIA: a folder with `acc_00001.csv`, ...; XJTU-SY: a folder with `1.csv`, ...; HUST: each MAT file, whose
    sampling rate is `rate` if it has none.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If two have the same name.
    """
    places = list(places)
    found = [recording for place in places for recording in _below(Path(place), rate)]
    if not found:
        raise FileNotFoundError(
            f"no recordings in {', '.join(map(str, places))}; wanted folders with acc_00001.csv, ... (PRONOSTIA), "
            "with 1.csv, 2.csv, ... (XJTU-SY), or with MAT files (HUST)"
        )
    for (rig, name), count in Counter((each.rig.name, each.name) for each in found).items():
        if count > 1:
            where = [str(each.files[0].parent) for each in found if (each.rig.name, each.name) == (rig, name)]
            raise ValueError(f"{rig} {name} is there {count} times, in {' and in '.join(where)}; give one of them")
    return sorted(found, key=lambda each: (each.rig.name, _natural(each.name)))


def _below(place: Path, rate: float | None) -> Iterator[BearingRecording]:
    if place.is_file() and place.suffix == ".mat":
        yield BearingRecording(HUST, place.stem, (place,), rate=rate)
    for folder, _, names in os.walk(place):
        yield from _in_folder(Path(folder), names, rate)


def _in_folder(folder: Path, names: list[str], rate: float | None) -> Iterator[BearingRecording]:
    if files := _numbered(names, _ACCELERATION):
        temperatures = tuple(folder / name for name in _numbered(names, _TEMPERATURE).values())
        yield _series(PRONOSTIA, folder, files, "acc_{:05d}.csv", temperatures)
    elif files := _numbered(names, _MINUTE):
        yield _series(XJTU, folder, files, "{}.csv")
    for name in sorted(name for name in names if name.endswith(".mat")):
        yield BearingRecording(HUST, Path(name).stem, (folder / name,), rate=rate)


def _numbered(names: list[str], pattern: re.Pattern[str]) -> dict[int, str]:
    """Names by their number, in its order."""
    return dict(sorted((int(found[1]), name) for name in names if (found := pattern.fullmatch(name))))


def _series(
    rig: Rig, folder: Path, files: dict[int, str], form: str, temperatures: tuple[Path, ...] = ()
) -> BearingRecording:
    """A recording of numbered files; numbers before the first one do not count as missing."""
    missing = [form.format(number) for number in range(min(files), max(files)) if number not in files]
    return BearingRecording(
        rig, folder.name, tuple(folder / name for name in files.values()), temperatures, tuple(missing)
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts Bearing1_2 before Bearing1_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
