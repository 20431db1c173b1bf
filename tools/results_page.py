"""Write the tables of docs/results.md from results/quick: python tools/results_page.py [RUNS].

With a directory of runs, their result files are taken over into results/quick first.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from performance_tables import MARKED
from provenance import ROOT

from nacre.train.report.paper_tables import markdown_paper_table
from nacre.train.report.results import FILE
from nacre.train.report.tables import markdown_table

PAGE = ROOT / "docs" / "results.md"
RUNS = ROOT / "results" / "quick"


def tasks() -> str:
    """A table for each task."""
    return markdown_table(RUNS)


def paper() -> str:
    """The paper's table, filled as far as it goes."""
    return markdown_paper_table(RUNS)


def origin() -> str:
    """Where the figures come from."""
    return came_from(RUNS, FILE)


def came_from(folder: Path, pattern: str) -> str:
    """Where the figures of a folder come from, in words, out of its result files."""
    files = [json.loads(path.read_bytes()) for path in sorted(folder.rglob(pattern))]
    hours = sum(file["seconds"] for file in files) / 3600
    lines = [f"{len(files)} runs, {hours:.1f} hours of one core together, shared with other work"]
    for part in ("commit", "machine", "versions", "command"):
        lines += dict.fromkeys(_words(part, file["provenance"][part]) for file in files)
    return "".join(f"- {line}\n" for line in lines)


def _words(part: str, value: Any) -> str:  # noqa: ANN401
    if part == "machine":
        return f"{value['processor']}, {value['cpus']} CPUs, threads of torch: {value['threads']}"
    if part == "versions":
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return f"`{value}`" if part == "command" else f"commit `{value}`"


TABLES = {"tasks": tasks, "paper": paper, "origin": origin}


def page() -> str:
    """The page with its tables written anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


def take_over(runs: Path) -> int:
    """Copy the result files of a directory of runs, nothing else, in place of those that are there."""
    return replace_results(RUNS, runs, FILE)


def replace_results(folder: Path, source: Path, pattern: str) -> int:
    """Copy the files of a source that match, in place of all that a folder holds."""
    shutil.rmtree(folder, ignore_errors=True)
    found = sorted(source.rglob(pattern))
    for path in found:
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return len(found)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(f"took over {take_over(Path(sys.argv[1]))} results\n")
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
