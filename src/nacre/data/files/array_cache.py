"""A cache of parsed arrays on disk."""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from nacre._util.files import cache_folder, write_atomic

Arrays = dict[str, np.ndarray]
# What numpy and zipfile raise for a file that is missing, cut off or altered, its compression method included.
_DAMAGE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError)


class Checked(Protocol):
    """Something to parse whose checksums are known, such as `nacre.data.files.store.FormContents`."""

    @property
    def sha256(self) -> dict[str, str]:
        """Name of each part to its checksum."""
        ...


_Source = TypeVar("_Source", bound=Checked)


def cached(reader: str, source: _Source, parse: Callable[[_Source], Arrays]) -> Arrays:
    """What `parse` makes of a source, from the cache if it was made before.

    A damaged cache file is made again. Where nothing can be written, the arrays are returned with a warning.

    Args:
        reader: Name and version of the reader, such as "jena-1"; raise the version with every change of `parse`.
        source: What is parsed; its checksums are part of the key.
        parse: Makes named arrays.
    """
    key = hashlib.sha256(json.dumps([reader, source.sha256], sort_keys=True).encode()).hexdigest()[:16]
    path = cache_folder() / "parsed" / f"{reader}-{key}.npz"
    kept = _kept(path)
    if kept is not None:
        return kept
    arrays = parse(source)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, file.getvalue())
    except OSError as error:
        warnings.warn(
            f"cannot keep parsed data in {path.parent} ({error.strerror or error}), so the next load parses "
            "again; $NACRE_CACHE can name another folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return arrays


def _kept(path: Path) -> Arrays | None:
    """Arrays of an intact file; None if it is missing or damaged (zip files hold a checksum of each member)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except _DAMAGE:
        return None
