"""The files of a run: JSON, from which a later run resumes, and the same numbers as CSV."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nacre._util.files import write_atomic
from nacre._util.text import csv_text
from nacre.bench.fit import growth
from nacre.bench.paper import COLUMN, reported
from nacre.bench.record import ACTIONS, BenchEntry, BenchResult, Cost

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """Everything a run knows."""

    provenance: dict[str, Any]
    settings: dict[str, Any]
    results: tuple[BenchResult, ...] = ()  # in the order of measurement
    sweep: bool = False  # then the JSON file holds fitted exponents, else the paper's numbers

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = {"format": FORMAT, "provenance": self.provenance, "settings": self.settings, "sweep": self.sweep}
        results = [result.to_dict() for result in self.results]
        if self.sweep:
            return {**data, "growth": [g.to_dict() for g in growth(self.results)], "results": results}
        rows = [(row, reported(result.entry)) for row, result in zip(results, self.results, strict=True)]
        return {**data, "results": [{**row, COLUMN: paper and asdict(paper)} for row, paper in rows]}


def write_record(stem: Path, record: Record) -> tuple[Path, Path]:
    """Write `<stem>.json` and `<stem>.csv`, each whole or not at all."""
    text = json.dumps(record.to_dict(), indent=1) + "\n"
    return (
        write_atomic(stem.with_name(f"{stem.name}.json"), text.encode()),
        write_atomic(stem.with_name(f"{stem.name}.csv"), to_csv(record.results).encode()),
    )


def read_record(path: Path) -> Record:
    """What `write_record` wrote; refuses a file that holds something else."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}, not {FORMAT}")
        results = tuple(BenchResult.from_dict(row) for row in data["results"])
        return Record(data["provenance"], data["settings"], results, data["sweep"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a record of nacre bench ({error!r}); run without --resume") from None


def to_csv(results: tuple[BenchResult, ...]) -> str:
    """One row an entry, empty where nothing was measured."""
    names = [*(field.name for field in fields(Cost)), "throughput"]
    costs = [f"{action}_{name}" for action in ACTIONS for name in names]
    return csv_text([*(f.name for f in fields(BenchEntry)), "parameters", *costs, COLUMN], map(_row, results))


def _row(result: BenchResult) -> dict[str, Any]:
    row = {**asdict(result.entry), "parameters": result.parameters, COLUMN: reported(result.entry)}
    for action in ACTIONS:
        row |= {f"{action}_{name}": value for name, value in asdict(result.cost(action)).items()}
        row[f"{action}_throughput"] = result.throughput(action)
    return row
