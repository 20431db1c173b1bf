"""Tables of features of bearings: finding those that `nacre data features` made, and the authors' own."""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from nacre.data.files.store import recorded_in
from nacre.data.rigs.author_csv import read_author_csv, rig_of
from nacre.data.rigs.feature_table import SUFFIX, FeatureTable, read_table

FOLDERS = ("bearings-features", "bearings")
_AUTHORS = re.compile(r".+_features.*\.csv(\.gz)?")


class Found(NamedTuple):
    """A table, and the checksum of its file."""

    table: FeatureTable
    path: Path
    sha256: str


def find_tables(data_dir: Path | None = None) -> list[Found]:
    """All tables of the first folder that holds any, by rig and bearing.

    Args:
        data_dir: Where to look, in it or in its folder `bearings-features` or `bearings`; None looks for these
            folders where the command was started, then in $NACRE_DATA and in the cache.

    Raises:
        FileNotFoundError: If there are none.
        ValueError: If a bearing is there twice, or a file is damaged.
    """
    folders = recorded_in(data_dir, FOLDERS)
    for folder in folders:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and is_table(path)]
        paths = [path for path in paths if not any(part[0] == "." for part in path.relative_to(folder).parts)]
        if paths:
            return _read(paths)
    raise FileNotFoundError(
        f"no features of bearings in {', '.join(map(str, folders))}; make some with `nacre data features`"
    )


def is_table(path: Path) -> bool:
    """Whether a file is called as tables are."""
    return path.suffix == SUFFIX or bool(_AUTHORS.fullmatch(path.name))


def read_any(path: Path) -> FeatureTable:
    """A table, whoever made it."""
    return read_table(path) if path.suffix == SUFFIX else read_author_csv(path, rig_of(path))


def _read(paths: list[Path]) -> list[Found]:
    found: dict[tuple[str, str], Found] = {}
    for path in paths:
        table = read_any(path)
        key = (table.rig, table.name)
        if key in found:
            raise ValueError(
                f"{table.rig} {table.name} is there twice, as {found[key].path} and as {path}; keep one of them"
            )
        found[key] = Found(table, path, hashlib.sha256(path.read_bytes()).hexdigest())
    return [found[key] for key in sorted(found)]
