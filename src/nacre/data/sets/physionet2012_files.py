"""The files of PhysioNet's challenge of 2012: found, and read one patient after the other, unpacked or not."""

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nacre._util.files import cache_folder
from nacre._util.unpack import gunzip, most_bytes, read_member, too_much
from nacre.data.files.fetch import fetch
from nacre.data.files.store import find, recorded_in

NAME = "physionet2012"  # of the data set and of its folder
_ASKED = ("RecordID", "In-hospital_death")  # columns of the outcomes
_PAGE = "physionet.org/content/challenge-2012"
_MOST = 1_000_000  # bytes of a patient's file, which has thousands
# Of zipfile, the last two are an unknown compression method and a password.
_DAMAGE = (
    *(EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError, ValueError),
)


@dataclass(frozen=True)
class Patient:
    """One file, and what became of the patient."""

    record: str
    path: str  # for messages
    text: str
    died: bool


class PatientSet:
    """One of the sets a, b and c, with its outcomes.

    Args:
        folder: It holds `set-a`, `set-a.tar.gz` or `set-a.zip`, and `Outcomes-a.txt`.
        name: "a", "b" or "c".
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._path = _files(folder, name)
        self._outcomes = folder / f"Outcomes-{name}.txt"
        self.sha256: dict[str, str] = {}  # of the outcomes and of all patients, once these were read
        self.unanswered = 0  # patients without an outcome, once these were read

    def patients(self) -> list[Patient]:
        """The patients whose outcome is known, sorted by record.

        Raises:
            ValueError: If something is damaged, or patients of the outcomes have no file.
        """
        assert self._path is not None  # `find_sets` has seen it
        outcomes = self._outcomes.read_bytes()
        died = _died(outcomes.decode("utf-8-sig", "replace"), self._outcomes)
        files = dict[str, tuple[str, bytes]]()
        for record, path, data in _contents(self._path):
            if record in files:
                raise ValueError(f"{path}: there are two files of patient {record}")
            files[record] = path, data
        lost = [record for record in died if record not in files]
        if lost:
            raise ValueError(
                f"{self._path} lacks {len(lost):,} of the {len(died):,} patients of {self._outcomes.name}, such "
                f"as {lost[0]}.txt; get it again"
            )
        records = sorted(files)
        sums = "".join(f"{hashlib.sha256(files[record][1]).hexdigest()}  {record}.txt\n" for record in records)
        self.sha256 = {
            self._outcomes.name: hashlib.sha256(outcomes).hexdigest(),
            f"the sums of set-{self.name}": hashlib.sha256(sums.encode()).hexdigest(),
        }
        self.unanswered = len(files) - len(died)
        return [
            Patient(record, files[record][0], files[record][1].decode("utf-8", "replace"), died[record])
            for record in records
            if record in died
        ]


def find_sets(data_dir: Path | None, names: list[str]) -> list[PatientSet]:
    """These sets, all in one folder; where none of them is on this machine, the official files are fetched.

    Raises:
        FileNotFoundError: If there are some but not all, or they cannot be fetched; says what is missing where.
    """
    found = find(NAME, data_dir)
    places = [*recorded_in(data_dir, (NAME,)), *([found.paths[0].parent] if found else [])]
    lacking = {place: [_lacks(place, name) for name in names] for place in places}
    for place in places:
        if not any(lacking[place]):
            return [PatientSet(place, name) for name in names]
    for place in places:
        if any(_files(place, name) for name in names):
            there = [f'"{name}"' for name, missing in zip(names, lacking[place], strict=True) if not missing]
            fewer = f", or leave it out: sets = [{', '.join(there)}]" if there else ""
            raise FileNotFoundError(
                f"{place} lacks {', '.join(filter(None, lacking[place]))}; get what is missing from {_PAGE}{fewer}"
            )
    place = fetch(NAME, cache_folder()).paths[0].parent
    return [PatientSet(place, name) for name in names]


def _lacks(folder: Path, name: str) -> str:
    """What a folder lacks of a set, in words."""
    outcomes = (folder / f"Outcomes-{name}.txt").is_file()
    lacking = [f"set-{name}"] * (_files(folder, name) is None) + [f"Outcomes-{name}.txt"] * (not outcomes)
    return " and ".join(lacking)


def _files(folder: Path, name: str) -> Path | None:
    """Where the files of patients are: a folder or an archive."""
    if (folder / f"set-{name}").is_dir():
        return folder / f"set-{name}"
    archives = (folder / f"set-{name}{ending}" for ending in (".tar.gz", ".tar", ".zip"))
    return next((path for path in archives if path.is_file()), None)


def _died(text: str, path: Path) -> dict[str, bool]:
    """Whether each patient died, by record."""
    header, *rows = [line.split(",") for line in text.rstrip().splitlines()] or [[]]
    columns = [name.strip() for name in header]
    lacking = [name for name in _ASKED if name not in columns]
    if lacking:
        raise ValueError(f"{path}, line 1: the header lacks {' and '.join(lacking)}")
    died = dict[str, bool]()
    for number, row in enumerate(rows, 2):
        cells = dict(zip(columns, map(str.strip, row), strict=False))
        record, answer = (cells.get(name, "") for name in _ASKED)
        if not _is_record(record) or answer not in ("0", "1") or record in died:
            raise ValueError(
                f"{path}, line {number:,}: wanted a new RecordID and an In-hospital_death of 0 or 1, got "
                f"{record!r} and {answer!r}"
            )
        died[record] = answer == "1"
    if not died:
        raise ValueError(f"{path} holds no patients")
    return died


def _contents(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Record, name for messages and contents of the files of patients; all others are passed over."""
    if path.is_dir():
        for file in sorted(path.glob("*.txt")):
            if _is_record(file.stem):
                _refuse_long(file.stat().st_size, str(file))
                yield file.stem, str(file), file.read_bytes()
        return
    limit = most_bytes(path.stat().st_size)
    try:
        for name, data in _zipped(path) if path.suffix == ".zip" else _tarred(path):
            limit -= len(data)
            if limit < 0:
                raise ValueError(too_much(most_bytes(path.stat().st_size)))
            yield PurePosixPath(name).stem, f"{name} of {path}", data
    except _DAMAGE as error:
        raise ValueError(f"{path} is damaged: {error or type(error).__name__}; get it again") from None


def _zipped(path: Path) -> Iterator[tuple[str, bytes]]:
    """Members of a zip file; nothing is extracted to disk."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:  # of files, a wrong offset is an OSError
        for member in archive.infolist():
            if _is_patient(member.filename):
                _refuse_long(member.file_size, member.filename)
                yield member.filename, read_member(archive, member.filename)


def _tarred(path: Path) -> Iterator[tuple[str, bytes]]:
    """The same of a tar file, which may be compressed."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.isreg() and not member.issparse() and _is_patient(member.name):
                _refuse_long(member.size, member.name)
                file = archive.extractfile(member)
                assert file is not None  # a regular file
                yield member.name, file.read()


def _is_patient(name: str) -> bool:
    return name.endswith(".txt") and _is_record(PurePosixPath(name).stem)


def _is_record(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _refuse_long(size: int, name: str) -> None:
    if size > _MOST:
        raise ValueError(f"{name} has {size:,} bytes, wanted at most {_MOST:,} for a patient")
