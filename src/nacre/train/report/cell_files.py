"""Finished cells as lines of text that git can merge: a file for each profile and task, a line for each cell.

A line is the `result.json` of a run, without the checksums of single data files. It stands for one model, fold and
seed under one recipe, data and split. A result that is added later takes its place, unless it is of an older
version of the model. So results of an older version stay until the same cell is trained anew.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nacre._util.files import write_atomic
from nacre.train.report.results import Found, find_results
from nacre.train.result import Result

FOLDER = Path("results/cells")


@dataclass
class Added:
    """What became of results that were added, in numbers."""

    new: int = 0
    replaced: int = 0  # the same cell with other options, or an older version of the model
    known: int = 0  # there already
    older: int = 0  # left out: there is a newer version

    def __str__(self) -> str:
        """In words, without what is 0."""
        counts = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ", ".join(f"{count} {name}" for name, count in counts if count) or "nothing"


def add_results(places: Sequence[Path], to: Path = FOLDER) -> tuple[Added, Found]:
    """Add the finished runs below some places, or the lines of other such files, to the files of a folder.

    Returns:
        The numbers, and what was found.

    Raises:
        FileNotFoundError: If one of the places holds no result.
    """
    each = [find_results(place) for place in places]
    found = Found([r for one in each for r in one.results], [line for one in each for line in one.damaged])
    by_file: dict[Path, list[Result]] = {}
    for result in found.results:
        by_file.setdefault(to / result.profile / f"{result.task}.jsonl", []).append(result)
    added = Added()
    for path, results in by_file.items():
        there = find_results(path).results if path.exists() else []
        text = "".join(map(_line, _merge(there, results, added)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    return added, found


def known_cells(places: Iterable[Path]) -> Found:
    """The finished cells below some places, runs or such files; an empty folder holds none.

    Raises:
        FileNotFoundError: If one of the places is not there.
    """
    known = Found([], [])
    for place in places:
        if not place.exists():
            raise FileNotFoundError(f"{place} is not there; known must name folders of runs or of finished cells")
        try:
            found = find_results(place)
        except FileNotFoundError:  # nothing yet
            continue
        known.results.extend(found.results)
        known.damaged.extend(found.damaged)
    return known


def _merge(there: Iterable[Result], more: Iterable[Result], added: Added) -> list[Result]:
    cells: dict[tuple[object, ...], Result] = {}
    for result in there:  # after a merge of git the same cell may be there twice
        before = cells.setdefault(_cell(result), result)
        if before.version < result.version:
            cells[_cell(result)] = result
    for result in more:
        before = cells.get(_cell(result))
        if before is None:
            added.new += 1
        elif before.fingerprint == result.fingerprint:
            added.known += 1
            continue
        elif before.version > result.version:
            added.older += 1
            continue
        else:
            added.replaced += 1
        cells[_cell(result)] = result
    return [cells[key] for key in sorted(cells)]


def _cell(result: Result) -> tuple[Any, ...]:
    """What a line stands for, and the order of lines."""
    return result.model, result.fold, result.seed, result.recipe, result.data, result.split


def _line(result: Result) -> str:
    data = {key: value for key, value in result.record["data"].items() if key != "files"}
    return json.dumps(result.record | {"data": data}, separators=(",", ":"), ensure_ascii=False) + "\n"
