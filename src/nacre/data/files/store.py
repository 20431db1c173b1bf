"""Files of data sets: found on this machine, decompressed, and checked."""

import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nacre._util.files import cache_folder
from nacre._util.unpack import gunzip, read_member
from nacre.data.files.catalogue import Form, SourceFile, entry

UNCHECKED = "checksum not known to nacre"
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"  # first bytes; no plain file of ours starts like that
# Of zipfile, the last two are an unknown compression method and a password.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class FoundFiles:
    """All files of one form, found but not yet read."""

    form: Form
    paths: tuple[Path, ...]  # in the order of the form's files

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.paths)


@dataclass(frozen=True)
class FormContents:
    """Checked contents of one form."""

    form: str  # in words, and whether its checksum is known
    contents: dict[str, bytes]  # file name to plain bytes
    sha256: dict[str, str]  # file name to checksum of those bytes
    paths: dict[str, Path]  # file name to where it was found, for messages


def recorded_in(data_dir: Path | None, names: Sequence[str]) -> list[Path]:
    """Folders of these names where data of your own may be, in the order of the search.

    Given `data_dir`, they are looked for in it, and it may be one of them itself. Otherwise they are looked for in
    the working directory, in $NACRE_DATA and in the cache.
    """
    if data_dir is not None:
        return [*(Path(data_dir) / name for name in names), Path(data_dir)]
    chosen = os.environ.get("NACRE_DATA")
    roots = [Path(), *([Path(chosen)] if chosen else []), cache_folder()]
    return [root / name for root in roots for name in names]


def find(name: str, data_dir: Path | None = None) -> FoundFiles | None:
    """Look for the files of a data set; None if no form is complete.

    `data_dir` is searched first and alone; then `$NACRE_DATA` and the cache together. Of the forms found in one
    such search the best one wins. All files of a form must be below the same folder: in it, or in the folder of
    the data set below it.

    Raises:
        FileNotFoundError: If `data_dir` or `$NACRE_DATA` is no folder.
    """
    searches = [[_folder("data_dir", data_dir)]] if data_dir is not None else []
    chosen = os.environ.get("NACRE_DATA")
    searches.append([*([_folder("$NACRE_DATA", Path(chosen))] if chosen else []), cache_folder()])
    for roots in searches:
        for form in entry(name).forms:
            for root in roots:
                paths = [path_of(file, root) for file in form.files]
                if all(paths):
                    return FoundFiles(form, tuple(path for path in paths if path))
    return None


def read(name: str, found: FoundFiles) -> FormContents:
    """Read and check what was found.

    Raises:
        ValueError: If a file is damaged, cut off, or not what nacre knows under that name.
    """
    contents: dict[str, bytes] = {}
    for file, path in zip(found.form.files, found.paths, strict=True):
        try:
            contents[file.name] = read_file(file, path)
        except ValueError as error:
            raise ValueError(f"{error}; delete {path} and run `nacre data get {name}`") from None
    known = all(file.checksum for file in found.form.files)
    return FormContents(
        form=found.form.text if known else f"{found.form.text} ({UNCHECKED})",
        contents=contents,
        sha256={key: hashlib.sha256(data).hexdigest() for key, data in contents.items()},
        paths=dict(zip(contents, found.paths, strict=True)),
    )


def read_file(file: SourceFile, path: Path) -> bytes:
    """Checked plain contents of a file that may be compressed.

    Raises:
        ValueError: If they are damaged or unknown. The message says what came and what was wanted.
    """
    try:
        data = _plain(file, path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    except _DAMAGE as error:
        size = path.stat().st_size
        raise ValueError(f"{path} is damaged or cut off ({size:,} bytes: {error})") from None
    if file.checksum:
        algorithm, wanted = file.checksum.split(":")
        got = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
        if got != wanted:
            raise ValueError(
                f"{path} is not the {file.name} that nacre knows: its {len(data):,} bytes have {algorithm} {got}, "
                f"wanted {wanted}"
            )
    return data


def _plain(file: SourceFile, data: bytes) -> bytes:
    """Decompress by content, not by name: servers and browsers may decompress and keep the name."""
    if data.startswith(_GZIP):
        return gunzip(data)
    if not data.startswith(_ZIP):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # members are read by name; nothing is ever extracted
        members = [member for member in archive.namelist() if PurePosixPath(member).name == file.name]
        if len(members) != 1:
            raise zipfile.BadZipFile(f"the archive holds {file.name} {len(members)} times, wanted once")
        return read_member(archive, members[0])


def path_of(file: SourceFile, root: Path) -> Path | None:
    """Where a file is below a folder; None if it is not there."""
    candidates = [folder / name for folder in (root, root / file.folder) for name in file.names]
    return next((path for path in candidates if path.is_file()), None)


def _folder(name: str, path: Path) -> Path:
    if not Path(path).is_dir():
        raise FileNotFoundError(f"{name} is {str(path)!r}, which is no folder; name the one that holds your data")
    return Path(path)
