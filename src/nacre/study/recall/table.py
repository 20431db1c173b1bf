"""The results of a recall study as rows: read, averaged over seeds, printed and written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.study.recall.run import guessed
from nacre.study.runs import read_files

_NEEDED = ("question", "model", "length", "steps", "accuracy", "found", "parameters")


@dataclass(frozen=True)
class Row:
    """One model on one question and length, over its seeds.

    Attributes:
        question: "key" or "time".
        length: Steps of a sequence.
        steps: Training steps.
        model: The model and its options.
        seeds: How many seeds.
        accuracy: Mean of their accuracies.
        lowest: The lowest of them.
        found: Mean share of choices of keys that hold the item asked for; None where the model chooses none.
        parameters: Trainable numbers.
    """

    question: str
    length: int
    steps: int
    model: str
    seeds: int
    accuracy: float
    lowest: float
    found: float | None
    parameters: int


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder.

    Raises:
        ValueError: If one of them cannot be read.
    """
    return read_files(out, _is_whole)


def _is_whole(result: dict[str, Any]) -> bool:
    return {*_NEEDED} <= {*result} and {"step", "accuracy", "found"} <= {*result["curve"][-1]}


def rows_of(results: Iterable[dict[str, Any]]) -> list[Row]:
    """Means over seeds, in order of question, length and steps, best first."""
    groups: dict[tuple[str, int, int, str], list[dict[str, Any]]] = {}
    for result in results:
        key = (result["question"], result["length"], result["steps"], result["model"])
        groups.setdefault(key, []).append(result)
    rows = []
    for key, group in groups.items():
        accuracies = [r["accuracy"] for r in group]
        found = None if group[0]["found"] is None else mean(r["found"] for r in group)
        rows.append(Row(*key, len(group), mean(accuracies), min(accuracies), found, group[0]["parameters"]))
    return sorted(rows, key=lambda row: (row.question, row.length, row.steps, -row.accuracy))


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """A table for each question, length and budget, with what a guess gets."""
    for section in dict.fromkeys((row.question, row.length, row.steps) for row in rows):
        question, length, steps = section
        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"item asked for by its {question}, {length - 1} items, {steps:,} training steps",
            title_justify="left",
            caption=f"the most frequent value of each sequence as answer: {guessed(question, length):.3f}; "
            "found: how often the keys that a head chose hold the item",
            caption_justify="left",
        )
        table.add_column("model", overflow="fold")
        for column in ("accuracy", "lowest", "seeds", "found", "parameters"):
            table.add_column(column, justify="right")
        for row in rows:
            if (row.question, row.length, row.steps) == section:
                found = "-" if row.found is None else f"{row.found:.2f}"
                numbers = (
                    f"{row.accuracy:.3f}",
                    f"{row.lowest:.3f}",
                    str(row.seeds),
                    found,
                    f"{row.parameters:,}",
                )
                table.add_row(row.model, *numbers)
        console.print(table)
