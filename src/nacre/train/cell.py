"""One cell of a grid: a task, a model, a fold and a seed make one run directory."""

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nacre._util.digest import checksum
from nacre._util.files import write_atomic
from nacre._util.locks import hold_lock
from nacre.data.splits import Split
from nacre.models._registry import model_folder, model_info, model_stranger
from nacre.models._strangers import Stranger
from nacre.tasks.controls import CONTROLS
from nacre.tasks.losses import loss_source
from nacre.tasks.python_source import roles_checksum
from nacre.tasks.recipe import Precision, Profile
from nacre.tasks.task import Task
from nacre.train.differences import differences
from nacre.train.final import Final
from nacre.train.identity import Identity
from nacre.train.result import RESULT
from nacre.train.run import CHECKPOINTS, Run


@dataclass(frozen=True)
class Cell:
    """What to run."""

    task: Task
    model: str  # or control
    fold: int
    seed: int  # of weights, order and dropout
    profile: Profile
    out: Path  # directory of all runs
    precision: Precision = Precision.FLOAT32
    final: Final | None = None  # of a run on all data, whose fold is no fold

    @property
    def directory(self) -> Path:
        """The run directory."""
        part = f"fold{self.fold}" if self.final is None else "final"
        return self.out / self.task.recipe.name / model_folder(self.model) / f"{part}-seed{self.seed}"

    @property
    def split(self) -> Split:
        """The fold's split."""
        return self.task.splits[self.fold]

    @property
    def version(self) -> int:
        """The version of the model; 1 for controls."""
        return 1 if self.model in CONTROLS else model_info(self.model).version

    @cached_property
    def stranger(self) -> Stranger | None:
        """The model, if it is not of nacre."""
        return None if self.model in CONTROLS else model_stranger(self.model)

    @cached_property
    def data_digest(self) -> str:
        """Checksum of the data; with what a data set made by your own code says of its columns and answers."""
        data, source = self.task.data, self.task.recipe.data
        return (
            data.digest if "name" in source or "csv" in source else checksum([data.digest, roles_checksum(data)])
        )

    @cached_property
    def identity(self) -> Identity:
        """All that decides the result."""
        return Identity(
            self.task.recipe,
            self.model,
            self.seed,
            self.data_digest,
            self.split.digest,
            self.profile,
            self.precision,
            self.version,
            ("" if self.stranger is None else self.stranger.source) + loss_source(self.task.recipe.training),
            0 if self.final is None else self.final.steps,
        )

    def fingerprint(self) -> str:
        """Checksum of everything that decides the result."""
        return self.identity.fingerprint

    @property
    def has_result(self) -> bool:
        """Whether there is a result, maybe of other settings."""
        return (self.directory / RESULT).exists()

    def is_done(self) -> bool:
        """Whether the result is there; raises ValueError if there is one of other settings, or a damaged one."""
        path = self.directory / RESULT
        if not path.exists():
            return False
        found = Run.open(self.directory).result
        if found.fingerprint != self.fingerprint():
            differing = differences(self, found)
            raise ValueError(
                f"{path} was made with other settings: {'; '.join(differing) or 'by other code'}; give another "
                f"--out, or delete {self.directory} to run anew"
            )
        return True

    def start(self) -> None:
        """Prepare the directory: checkpoints of an interrupted run are kept only if they are of the same cell."""
        mark = self.directory / CHECKPOINTS / "fingerprint"
        if mark.parent.exists() and (not mark.exists() or mark.read_text() != self.fingerprint()):
            shutil.rmtree(mark.parent)
        mark.parent.mkdir(exist_ok=True)
        write_atomic(mark, self.fingerprint().encode())

    def lock(self) -> AbstractContextManager[None]:
        """Hold the cell for this process; raises `nacre._util.locks.LockedElsewhere` if another one holds it."""
        return hold_lock(self.directory / ".lock")
