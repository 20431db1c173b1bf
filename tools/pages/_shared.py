"""What the tables of several pages need: reading results/, cells, Markdown."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nacre.train.report.results import find_results
from nacre.train.report.statistics import mean_and_std

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def load(name: str) -> dict[str, Any]:
    """A JSON file under results/."""
    return json.loads((RESULTS / name).read_bytes())


def load_cells(place: str) -> list[dict[str, Any]]:
    """The finished cells below a folder of results/, or in a file of it: task by task, model by model."""
    found = find_results(RESULTS / place)
    if found.damaged:
        raise ValueError("\n".join(found.damaged))
    return [result.record for result in found.results]


def load_all(folder: str) -> list[dict[str, Any]]:
    """The JSON files below a folder of results/, in the order of their paths."""
    return [json.loads(path.read_bytes()) for path in sorted((RESULTS / folder).rglob("*.json"))]


def load_csv(name: str) -> list[dict[str, Any]]:
    """The rows of a CSV file under results/, numbers as numbers."""
    with (RESULTS / name).open(newline="") as file:
        return [{key: _number_or_text(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _number_or_text(cell: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, text: bool = False) -> str:
    """A Markdown table; all but the first column are set to the right, unless they hold text."""
    rule = ["---", *["---" if text else "---:"] * (len(titles) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (titles, rule, *rows))


def columns(formats: Mapping[str, str], rows: Iterable[Any], *, text: bool = False) -> str:
    """A table of mappings or objects: by title of a column, the format of what a row holds."""
    named = [row if isinstance(row, dict) else vars(row) for row in rows]
    return table([*formats], [[cell.format_map(row) for cell in formats.values()] for row in named], text=text)


def mean_of(values: Sequence[float], places: int) -> str:
    """Mean ± sample standard deviation, which a single value does not have."""
    middle, std = mean_and_std(values)
    return f"{middle:.{places}f}" + ("" if std is None else f" ± {std:.{places}f}")


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(cost: dict[str, Any]) -> str:
    """Median time, or why there is none; a star where it is of less than three rounds."""
    if cost["seconds"] is None:
        return cost["state"].partition(":")[0]
    return number(1e3 * cost["seconds"]) + ("" if cost["state"] == "ok" else "*")


def megabytes(cost: dict[str, Any]) -> str:
    """Added memory."""
    return "" if cost["added_bytes"] is None else number(cost["added_bytes"] / 1e6)


def bench(name: str) -> str:
    """Models at 1,024 steps beside MultiheadAttention, the fastest first, from a file of `nacre bench`."""
    body = []
    for row in sorted(load(name)["results"], key=lambda row: row["forward"]["ratio"] or 1e9):
        cells = [f"`{row['model']}`", f"{row['parameters']:,}"]
        for cost in (row["forward"], row["step"]):
            cells += [milliseconds(cost), "" if cost["ratio"] is None else number(cost["ratio"]), megabytes(cost)]
        paper = row["reported (paper, GPU)"]
        body.append([*cells, "" if paper is None else f"{paper['seconds']:.2f}"])
    titles = ("model", "parameters", "forward ms", "ratio", "MB", "training ms", "ratio", "MB", "reported s")
    return table(titles, body)


def origin(files: Sequence[Mapping[str, Any]]) -> str:
    """Where the numbers of cells or other files come from, as a list."""
    hours = sum(file["seconds"] for file in files) / 3600
    lines = [f"{len(files)} runs, {hours:.1f} hours of one core together, shared with other work"]
    for part in ("commit", "machine", "versions"):
        lines += dict.fromkeys(_describe(part, file["provenance"][part]) for file in files)
    made: dict[str, set[str]] = {}  # models by the command that trained them
    for file in files:
        made.setdefault(file["provenance"]["command"], set()).add(file.get("model", ""))
    lines += dict.fromkeys(f"`{_only(models, command)}`" for command, models in made.items())
    return "".join(f"- {line}\n" for line in lines)


def _only(models: set[str], command: str) -> str:
    """A command without the models whose results are not here, or have been replaced."""
    if not command.startswith("nacre train "):
        return command
    return re.sub(r" -m (\S+)", lambda found: found[0] if found[1] in models else "", command)


def _describe(part: str, value: Any) -> str:  # noqa: ANN401
    if part == "versions":
        return ", ".join(f"{name} {version}" for name, version in value.items())
    forms = {"machine": "{0[processor]}, {0[cpus]} CPUs, threads of torch: {0[threads]}"}
    return forms.get(part, "commit `{}`").format(value)
