"""`TrainedRun`: in memory, all that the directory of a run holds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nacre._util.files import write_atomic
from nacre._util.text import json_text
from nacre.data.dataset import Dataset
from nacre.data.examples import read_examples, write_examples
from nacre.data.tables.columns import Columns
from nacre.io import save
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Recipe
from nacre.train.ranges import RANGES, read_ranges
from nacre.train.result import RESULT
from nacre.train.run import EXAMPLES_FOLDER, LOG, MODEL, Run


@dataclass(frozen=True)
class TrainedRun:
    """A trained network, and what its run says of it."""

    network: TaskNetwork
    recipe: Recipe
    columns: Columns | None
    record: dict[str, Any]  # of the result file
    log: str  # the log of training, as CSV
    ranges: Mapping[str, list[float]]  # how far each feature went
    examples: Dataset | None  # held-out sequences

    @classmethod
    def of(cls, run: Run) -> TrainedRun:
        """What a run directory holds."""
        log = run.directory / LOG
        return cls(
            run.network(),
            run.recipe,
            run.columns,
            run.result.record,
            log.read_text("utf-8") if log.is_file() else "",
            read_ranges(run.directory),
            read_examples(run.directory / EXAMPLES_FOLDER),
        )

    def write(self, directory: Path, record: dict[str, Any], *, examples: bool) -> None:
        """Write a run directory; the result, which makes it one, comes last. An earlier run there is replaced.

        Args:
            directory: Where; it must hold a run, or nothing.
            record: What the result file shall hold.
            examples: Whether to keep the held-out sequences.

        Raises:
            ValueError: If other files are there.
        """
        if directory.is_file():
            raise ValueError(f"{directory} is a file; give a directory")
        if directory.exists() and any(directory.iterdir()) and not (directory / RESULT).is_file():
            raise ValueError(f"{directory} holds other files; give a new directory, or one that holds a run")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RESULT).unlink(missing_ok=True)
        shutil.rmtree(directory / EXAMPLES_FOLDER, ignore_errors=True)
        save(self.network, directory / MODEL)
        write_atomic(directory / LOG, self.log.encode())
        write_atomic(directory / RANGES, json_text(dict(self.ranges)).encode())
        if examples and self.examples is not None:
            write_examples(directory / EXAMPLES_FOLDER, self.examples)
        Run.write(directory, record, self.recipe, self.columns)
