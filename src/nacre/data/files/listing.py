"""`nacre data`: list, fetch and check data sets."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from nacre._util.files import cache_folder
from nacre._util.text import console_table
from nacre.data.dataset import Dataset
from nacre.data.files.catalogue import CATALOG, entry, load_dataset
from nacre.data.files.fetch import fetch, official
from nacre.data.files.store import find, read

_BAR = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()


def print_data(data_dir: Path | None = None) -> None:
    """Print all data sets and where they are. Files are not read, so damage shows in `check_data` only."""
    console = Console()
    table = console_table(("name", "what", "state", "MB"), left=("what", "state"))
    for column in table.columns:
        column.overflow = "fold"  # paths are long
    table.columns[-1].no_wrap = True
    for name in CATALOG:
        table.add_row(name, entry(name).what, *_state(name, data_dir))
    console.print(table)
    console.print("nacre data get NAME fetches the official files; nacre data check NAME reads and checks them")


def _state(name: str, data_dir: Path | None) -> tuple[str, str]:
    """State in words, and megabytes on disk."""
    if not entry(name).forms:
        return "recorded by you" if entry(name).recorded else "generated", ""
    found = find(name, data_dir)
    if found is None:
        return "missing", ""
    return f"{found.form.text}; in {found.paths[0].parent}", f"{found.size / 1e6:,.1f}"


def get_data(names: Sequence[str], data_dir: Path | None = None) -> None:
    """Fetch the official files of data sets into a folder, by default the cache, and check them.

    Files that are there already are checked and kept; generated data sets are skipped.

    Args:
        names: Data sets; none means all.
        data_dir: Where to put them; made if it is not there.

    Raises:
        ValueError: If a file could not be fetched or is damaged, after all others have been tried.
    """
    console, into, failed = Console(), data_dir or cache_folder(), []
    for name in _chosen(names):
        if not entry(name).forms:
            how = "recorded by yourself" if entry(name).recorded else "generated"
            console.print(f"{name}: {how}, nothing to fetch", markup=False)
            continue
        try:
            with Progress(*_BAR, console=console, transient=True) as progress:
                task = progress.add_task(name, total=None)
                source = read(name, fetch(name, into, partial(_show, progress, task)))
            where = into / official(name).files[0].folder
            console.print(f"{name}: {source.form}; in {where}", markup=False, soft_wrap=True)
        except (ValueError, OSError) as error:
            failed.append(f"{name}: {error}")
    _report(failed)


def check_data(names: Sequence[str], data_dir: Path | None = None) -> None:
    """Check and load data sets that are on this machine, and print what they hold. Nothing is fetched.

    Args:
        names: Data sets; none means all that are there.
        data_dir: Where to look first.

    Raises:
        ValueError: If one is missing or damaged, after all others have been checked.
    """
    console, failed = Console(), []
    for name in _chosen(names):
        try:
            if entry(name).recorded and not names:
                continue  # nacre knows no checksums of your own files
            if entry(name).forms and find(name, data_dir) is None:
                if names:
                    failed.append(f"{name}: missing; run `nacre data get {name}`")
                else:
                    console.print(f"{name}: missing", markup=False)
                continue
            for line in describe(load_dataset(name, data_dir)):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        except (ValueError, OSError) as error:
            failed.append(f"{name}: {error}")
    _report(failed)


def describe(data: Dataset) -> list[str]:
    """Lines about a data set."""
    length, shape = data.length, " x ".join(map(str, data.values.shape[1:]))
    mean = length.double().mean()
    lines = [
        f"{data.name}: {data.form}",
        f"  {len(data):,} sequences of {int(length.min()):,} to {int(length.max()):,} steps, mean {mean:,.1f}",
        f"  {len(data.values):,} rows of {shape}: {', '.join(data.features)}",
        f"  groups: {len(data.groups):,}, {data.groups[0]} to {data.groups[-1]}",
    ]
    if data.classes:
        lines.append(f"  {len(data.classes)} classes: {', '.join(data.classes)}")
    else:
        names = data.targets if len(data.targets) < 4 else (f"{data.targets[0]} to {data.targets[-1]}",)
        lines.append(f"  numbers asked for: {len(data.targets)}, {', '.join(names)}")
    if data.test is not None:
        lines.append(f"  official test part: {int(data.test.sum()):,} sequences")
    lines += [f"  sha256 of {file}: {digest}" for file, digest in data.files.items()]
    return [*lines, *(f"  note: {note}" for note in data.notes)]


def _show(progress: Progress, task: TaskID, received: int, total: int) -> None:
    progress.update(task, completed=received, total=total or None)


def _chosen(names: Sequence[str]) -> list[str]:
    for name in names:
        entry(name)  # refuses unknown ones before anything is done
    return list(dict.fromkeys(names)) or list(CATALOG)


def _report(failed: list[str]) -> None:
    if failed:
        raise ValueError("\n".join(failed))
