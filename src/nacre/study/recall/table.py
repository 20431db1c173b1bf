"""The results of a recall study as rows: read, averaged over seeds, printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from nacre._util.text import console_table
from nacre.study.recall.run import guessed
from nacre.study.runs import read_files

_NEEDED = {"question", "model", "length", "steps", "accuracy", "found", "parameters"}


@dataclass(frozen=True)
class RecallRow:
    """One model on one question and length, over its seeds."""

    question: str
    length: int  # steps of a sequence
    steps: int  # of training
    model: str  # with its options
    seeds: int  # how many
    accuracy: float  # mean over seeds
    lowest: float  # accuracy
    found: float | None  # mean share of selections that hold the item; None where the model selects no keys
    parameters: int


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder; refuses damaged ones."""
    return read_files(
        out, lambda result: {*result} >= _NEEDED and {"step", "accuracy", "found"} <= {*result["curve"][-1]}
    )


def rows_of(results: Iterable[dict[str, Any]]) -> list[RecallRow]:
    """Means over seeds, in order of question, length and steps, best first."""
    groups: dict[tuple[str, int, int, str], list[dict[str, Any]]] = {}
    for result in results:
        key = (result["question"], result["length"], result["steps"], result["model"])
        groups.setdefault(key, []).append(result)
    rows = []
    for key, group in groups.items():
        accuracies = [r["accuracy"] for r in group]
        found = None if group[0]["found"] is None else mean(r["found"] for r in group)
        rows.append(RecallRow(*key, len(group), mean(accuracies), min(accuracies), found, group[0]["parameters"]))
    return sorted(rows, key=lambda row: (row.question, row.length, row.steps, -row.accuracy))


def print_rows(rows: Sequence[RecallRow], console: Console) -> None:
    """A table for each question, length and budget, with the accuracy of a guess."""
    for section in dict.fromkeys((row.question, row.length, row.steps) for row in rows):
        question, length, steps = section
        table = console_table(
            ("model", "accuracy", "lowest", "seeds", "found", "parameters"),
            title=f"item asked for by its {question}, {length - 1} items, {steps:,} training steps",
            caption=f"the most frequent value of each sequence as answer: {guessed(question, length):.3f}; "
            "found: how often the keys that a head selected hold the item",
        )
        table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"  # names with options are long
        for row in rows:
            if (row.question, row.length, row.steps) == section:
                found = "-" if row.found is None else f"{row.found:.2f}"
                scores = (f"{row.accuracy:.3f}", f"{row.lowest:.3f}", str(row.seeds), found)
                table.add_row(row.model, *scores, f"{row.parameters:,}")
        console.print(table)
