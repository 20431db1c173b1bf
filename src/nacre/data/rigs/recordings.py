"""`Recording`: the files of one bearing, in order; finding them in a folder, whichever rig they come from."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.data.rigs.hust import read_mat
from nacre.data.rigs.pronostia import read_acceleration
from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU, Condition, Rig
from nacre.data.rigs.snapshot import Snapshot
from nacre.data.rigs.xjtu import read_minute

_ACCELERATION = re.compile(r"acc_(\d+)\.csv")
_TEMPERATURE = re.compile(r"temp_(\d+)\.csv")
_MINUTE = re.compile(r"(\d+)\.csv")


@dataclass(frozen=True)
class Recording:
    """One bearing on one rig.

    Attributes:
        rig: Where it was recorded.
        name: Of the bearing.
        files: In order of time.
        temperatures: Files of its temperature, in order of time; only PRONOSTIA has some.
        missing: Names of files that the numbering of the others asks for.
        rate: Samples a second, for files that do not say; None if not known.
    """

    rig: Rig
    name: str
    files: tuple[Path, ...]
    temperatures: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()
    rate: float | None = None

    @property
    def condition(self) -> Condition:
        """Speed and load, as far as they are known."""
        return self.rig.condition(self.name)

    def read(self, path: Path) -> Snapshot:
        """What one of its files holds.

        Raises:
            BadFile: If it does not hold what it should.
        """
        if self.rig == PRONOSTIA:
            return read_acceleration(path)
        return read_minute(path) if self.rig == XJTU else read_mat(path, self.rate)


def find_recordings(places: Iterable[Path], rate: float | None = None) -> list[Recording]:
    """All recordings in folders and below them, by rig and name.

    PRONOSTIA: a folder with `acc_00001.csv`, ...; XJTU-SY: a folder with `1.csv`, ...; HUST: each MAT file.

    Args:
        places: Folders, or single MAT files.
        rate: Samples a second, for MAT files that do not say.

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


def _below(place: Path, rate: float | None) -> Iterator[Recording]:
    if place.is_file() and place.suffix == ".mat":
        yield Recording(HUST, place.stem, (place,), rate=rate)
    for folder, _, names in os.walk(place):
        yield from _in_folder(Path(folder), names, rate)


def _in_folder(folder: Path, names: list[str], rate: float | None) -> Iterator[Recording]:
    if files := _numbered(names, _ACCELERATION):
        temperatures = tuple(folder / name for name in _numbered(names, _TEMPERATURE).values())
        yield _series(PRONOSTIA, folder, files, "acc_{:05d}.csv", temperatures)
    elif files := _numbered(names, _MINUTE):
        yield _series(XJTU, folder, files, "{}.csv")
    for name in sorted(name for name in names if name.endswith(".mat")):
        yield Recording(HUST, Path(name).stem, (folder / name,), rate=rate)


def _numbered(names: list[str], pattern: re.Pattern[str]) -> dict[int, str]:
    """Names by their number, in its order."""
    return dict(sorted((int(found[1]), name) for name in names if (found := pattern.fullmatch(name))))


def _series(
    rig: Rig, folder: Path, files: dict[int, str], form: str, temperatures: tuple[Path, ...] = ()
) -> Recording:
    """A recording of numbered files; those before the first one that is there do not count as missing."""
    missing = [form.format(number) for number in range(min(files), max(files)) if number not in files]
    return Recording(
        rig, folder.name, tuple(folder / name for name in files.values()), temperatures, tuple(missing)
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts Bearing1_2 before Bearing1_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
