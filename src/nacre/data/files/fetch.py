"""Fetching files of data sets from their official sources, where they are not on this machine."""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from nacre._util.files import cache_folder
from nacre.data.files.catalogue import Form, SourceFile, entry
from nacre.data.files.store import FormContents, FoundFiles, find, path_of, read, read_file

_TIMEOUT = 30  # seconds without a byte from a server
_CHUNK = 1 << 16  # bytes written at once
MOST_BYTES = 200_000_000  # of a download; the largest file has 22 million


def obtain(name: str, data_dir: Path | None = None) -> FormContents:
    """Contents of a data set: found on this machine, first in `data_dir`, or else fetched into the cache.

    Raises:
        FileNotFoundError: If it is not there and cannot be fetched; says what is missing and where to get it.
        ValueError: If what is there is damaged.
    """
    return read(name, find(name, data_dir) or fetch(name, cache_folder()))


def fetch(name: str, into: Path, show: Callable[[int, int], None] | None = None) -> FoundFiles:
    """Fetch the official form of a data set. Files that are already there are kept.

    Args:
        name: Name of the data set.
        into: Folder to put it in, as `<into>/<folder of the data set>/<file>`; made if it is not there.
        show: Called with the progress of a download: bytes received, and bytes in all (0 if unknown).

    Raises:
        FileNotFoundError: If a server does not give a file.
        ValueError: If it gives something else.
        OSError: If the folder cannot be written.
    """
    form = official(name)
    return FoundFiles(form, tuple(_fetch_file(file, into, show) for file in form.files))


def official(name: str) -> Form:
    """The best form of a data set that has addresses; a ValueError if it has none."""
    form = next((form for form in entry(name).forms if form.fetchable), None)
    if form is None:
        raise ValueError(f"{name} is generated; there is nothing to fetch")
    return form


def _fetch_file(file: SourceFile, into: Path, show: Callable[[int, int], None] | None) -> Path:
    if there := path_of(file, into):
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
        with contextlib.suppress(OSError):  # the folder may not exist
            temporary.unlink()
    return path


def _download(file: SourceFile, temporary: Path, path: Path, show: Callable[[int, int], None] | None) -> None:
    import requests  # comes with pooch

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not pooch's downloader, which leaves the connection open after an error.
        with (
            requests.get(str(file.url), stream=True, timeout=_TIMEOUT) as response,
            temporary.open("xb") as output,
        ):
            response.raise_for_status()
            said = response.headers.get("Content-Length", "")
            total, received = int(said) if said.isdecimal() else 0, 0
            for chunk in response.iter_content(_CHUNK):
                received += len(chunk)
                if received > MOST_BYTES:
                    raise ValueError(f"{file.url} gives more than {MOST_BYTES:,} bytes, too many for {file.name}")
                output.write(chunk)
                if show:  # a compressed response unpacks to more than its length
                    show(min(received, total) if total else received, total)
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
