"""Files of data sets: found on this machine or fetched, then checked; parsed arrays are kept for next time."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import secrets
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from nacre.data.catalog import entry
from nacre.io import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from nacre.data.catalog import Form, SourceFile

UNCHECKED = "checksum not known to nacre"
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"  # first bytes; no plain file of ours starts like that
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError, RuntimeError)
_SILENCE = 30  # seconds without a byte from a server
_CHUNK = 1 << 16  # bytes written at once

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Found:
    """Files of one form that are all there, not yet looked into.

    Attributes:
        form: Which form.
        paths: Where each of its files is, in the same order.
    """

    form: Form
    paths: tuple[Path, ...]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.paths)


@dataclass(frozen=True)
class Source:
    """Checked contents of one form.

    Attributes:
        form: What it is, in words, and whether its checksum is known.
        contents: File name to plain bytes.
        sha256: File name to checksum of those bytes.
        paths: File name to where it was found, for messages.
    """

    form: str
    contents: dict[str, bytes]
    sha256: dict[str, str]
    paths: dict[str, Path]


def cache_dir() -> Path:
    """Where nacre keeps what it fetched and parsed: `$NACRE_CACHE`, or the user's cache folder."""
    if chosen := os.environ.get("NACRE_CACHE"):
        return Path(chosen)
    import pooch  # here, so that `import nacre` works without it

    return Path(pooch.os_cache("nacre"))


def find(name: str, data_dir: Path | None = None) -> Found | None:
    """Look for the files of a data set.

    `data_dir` is searched first and alone; then `$NACRE_DATA` and the cache together. Of the forms found in one
    such search the best one wins. All files of a form must be below the same folder: in it, or in the folder of
    the data set below it.

    Returns:
        Where the files are, or None if no form is complete.

    Raises:
        FileNotFoundError: If `data_dir` or `$NACRE_DATA` is no folder.
    """
    searches = [[_folder("data_dir", data_dir)]] if data_dir is not None else []
    chosen = os.environ.get("NACRE_DATA")
    searches.append([*([_folder("$NACRE_DATA", Path(chosen))] if chosen else []), cache_dir()])
    for roots in searches:
        for form in entry(name).forms:
            for root in roots:
                paths = [_path(file, root) for file in form.files]
                if all(paths):
                    return Found(form, tuple(path for path in paths if path))
    return None


def read(name: str, found: Found) -> Source:
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
    return Source(
        form=found.form.text if known else f"{found.form.text} ({UNCHECKED})",
        contents=contents,
        sha256={key: hashlib.sha256(data).hexdigest() for key, data in contents.items()},
        paths=dict(zip(contents, found.paths, strict=True)),
    )


def read_file(file: SourceFile, path: Path) -> bytes:
    """Plain contents of a file that may be compressed, checked.

    Raises:
        ValueError: If they are damaged or unknown. The message says what came and what was wanted.
    """
    try:
        data = _plain(file, path.read_bytes())
    except (
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:
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
    """Decompress by what the bytes are: servers and browsers decompress at will and keep the name."""
    if data.startswith(_GZIP):
        return gzip.decompress(data)
    if not data.startswith(_ZIP):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # members are read by name; nothing is ever extracted
        members = [member for member in archive.namelist() if PurePosixPath(member).name == file.name]
        if len(members) != 1:
            raise zipfile.BadZipFile(f"the archive holds {file.name} {len(members)} times, wanted once")
        return archive.read(members[0])


def _path(file: SourceFile, root: Path) -> Path | None:
    candidates = [folder / name for folder in (root, root / file.folder) for name in file.names]
    return next((path for path in candidates if path.is_file()), None)


def _folder(name: str, path: Path) -> Path:
    if not Path(path).is_dir():
        raise FileNotFoundError(f"{name} is {str(path)!r}, which is no folder; name the one that holds your data")
    return Path(path)


def obtain(name: str, data_dir: Path | None = None) -> Source:
    """Contents of a data set: found on this machine, or else fetched into the cache.

    Args:
        name: Name of the data set.
        data_dir: Where to look first.

    Raises:
        FileNotFoundError: If it is not there and cannot be fetched; says what is missing and where to get it.
        ValueError: If what is there is damaged.
    """
    return read(name, find(name, data_dir) or fetch(name, cache_dir()))


def fetch(name: str, into: Path, show: Callable[[int, int], None] | None = None) -> Found:
    """Fetch the official form of a data set. Files that are already there are kept.

    Args:
        name: Name of the data set.
        into: Folder to put it in, as `<into>/<folder of the data set>/<file>`; made if it is not there.
        show: Told how far a download is: bytes that have come, and bytes in all (0 if unknown).

    Raises:
        FileNotFoundError: If a server does not give a file.
        ValueError: If it gives something else.
        OSError: If the folder cannot be written.
    """
    form = official(name)
    return Found(form, tuple(_fetch_file(file, into, show) for file in form.files))


def official(name: str) -> Form:
    """The best form of a data set that has addresses.

    Raises:
        ValueError: If it has none.
    """
    form = next((form for form in entry(name).forms if form.fetchable), None)
    if form is None:
        raise ValueError(f"{name} is generated; there is nothing to fetch")
    return form


def _fetch_file(file: SourceFile, into: Path, show: Callable[[int, int], None] | None) -> Path:
    if there := _path(file, into):
        return there
    folder = into / file.folder
    path = folder / file.download
    temporary = folder / f".{secrets.token_hex(8)}-{file.download}"
    try:
        _download(file, temporary, path, show)
        try:
            read_file(file, temporary)
        except ValueError as error:
            problem = str(error).replace(str(temporary), file.download)
            raise ValueError(
                f"{file.url} gave another file than expected, which was not kept: {problem}; try again later, or "
                f"get {file.name} elsewhere and put it into {folder}"
            ) from None
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):  # of a folder that could not be made
            temporary.unlink()
    return path


def _download(file: SourceFile, temporary: Path, path: Path, show: Callable[[int, int], None] | None) -> None:
    import requests  # comes with pooch

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not pooch's downloader, which leaves the connection open after an error.
        with (
            requests.get(str(file.url), stream=True, timeout=_SILENCE) as response,
            temporary.open("xb") as output,
        ):
            response.raise_for_status()
            total, come = int(response.headers.get("Content-Length", 0)), 0
            for chunk in response.iter_content(_CHUNK):
                output.write(chunk)
                come += len(chunk)
                if show:
                    show(min(come, total) if total else come, total)  # more comes if sent compressed
    except requests.RequestException as error:
        raise FileNotFoundError(
            f"{file.name} is missing and could not be fetched from {file.url} ({_reason(error)}); get it there by "
            f"other means and put it into {path.parent}, or name the folder that has it: --data-dir or $NACRE_DATA"
        ) from None
    except OSError as error:
        raise OSError(
            f"{file.name} is missing and cannot be kept as {path} ({error.strerror or error}); name a folder that "
            "can be written by $NACRE_CACHE, or one that has the file by --data-dir or $NACRE_DATA"
        ) from None


def _reason(error: Exception) -> str:
    """The innermost cause in one line: requests wraps the plain one several times."""
    cause: BaseException = error
    while (inner := getattr(cause, "reason", None) or cause.__context__) and isinstance(inner, BaseException):
        cause = inner
    text = str(error) if getattr(error, "response", None) is not None else str(cause)
    return f"{type(error).__name__}: {text}"


def cached(reader: str, source: Source, parse: Callable[[Source], Arrays]) -> Arrays:
    """What `parse` makes of a source, from the cache if it was made before.

    The cache never stands in the way: a damaged file is made again, and where nothing can be written, the arrays
    come all the same, with a warning.

    Args:
        reader: Name and version of the reader, such as "jena-1"; raise the version with every change of `parse`.
        source: What is parsed; its checksums are part of the key.
        parse: Makes named arrays.
    """
    key = hashlib.sha256(json.dumps([reader, source.sha256], sort_keys=True).encode()).hexdigest()[:16]
    path = cache_dir() / "parsed" / f"{reader}-{key}.npz"
    kept = _kept(path)
    if kept is not None:
        return kept
    arrays = parse(source)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, file.getvalue())
    except OSError as error:
        warnings.warn(
            f"cannot keep parsed data in {path.parent} ({error.strerror or error}), so the next load parses "
            "again; $NACRE_CACHE can name another folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return arrays


def _kept(path: Path) -> Arrays | None:
    """Arrays of a whole file; None if it is missing or damaged (zip files hold a checksum of each member)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError):
        return None
