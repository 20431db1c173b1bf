"""Checks of cache folder and data sets."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nacre._util.files import cache_folder
from nacre.data.files.catalogue import CATALOG
from nacre.data.files.store import find, read
from nacre.doctor.finding import Finding, note, ok, problem


def check_data(data_dir: Path | None) -> Iterator[Finding]:
    """The cache folder, where data is looked for, and every data set that is there."""
    yield _cache(cache_folder())
    chosen = data_dir or os.environ.get("NACRE_DATA")
    if chosen and not Path(chosen).is_dir():
        name = "--data-dir" if data_dir else "$NACRE_DATA"
        yield problem(
            "data", f"{name} is {str(chosen)!r}, which is no folder", "name the folder that holds your data"
        )
        return
    missing = []
    for name, entry in CATALOG.items():
        if not entry.forms:
            continue  # generated, or recorded by you
        found = find(name, data_dir)
        if found is None:
            missing.append(name)
            continue
        try:
            form = read(name, found).form
        except OSError as error:
            yield problem(f"data {name}", str(error), "make the file readable")
        except ValueError as error:
            what, _, do = str(error).partition("; delete ")
            yield problem(f"data {name}", what, f"delete {do}")
        else:
            yield ok(f"data {name}", f"{form}, {found.size / 1e6:.1f} MB, in {found.paths[0].parent}")
    if missing:
        yield note("data", f"not here: {', '.join(missing)}", f"nacre data get {missing[0]}")


def _cache(folder: Path) -> Finding:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return problem("cache", f"{folder} cannot be written: {error}", "set NACRE_CACHE to a folder of your own")
    return ok("cache", str(folder))
