"""`Run`: the directory that training a cell leaves, opened and written here and nowhere else."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre._util.files import read_object, write_atomic
from nacre._util.foreign_code import UntrustedCode, names_from_a_file, package_list, trusting
from nacre._util.tensors import first_nonfinite
from nacre._util.text import json_text
from nacre.data.tables.columns import Columns
from nacre.io import load
from nacre.tasks.controls.base import Control
from nacre.tasks.controls.saved import load_control
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Profile, Recipe, list_recipes, load_recipe, to_toml
from nacre.tasks.task import Task, load_task
from nacre.train.format1 import upgrade
from nacre.train.result import RESULT, Result, decode, parse

if TYPE_CHECKING:
    import pandas as pd

CHECKPOINTS = "checkpoints"
RECIPE, COLUMNS, MODEL, CONTROL = "recipe.toml", "columns.json", "model", "control"
LOG, EXAMPLES_FOLDER = "log.csv", "examples"  # the latter in what estimators save: sequences to look inside with


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        directory: Where it lies.
        result: What it found.

    Example:
        >>> Run.open(tmp / "runs/spiral/nac/fold0-seed0")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: .../fold0-seed0 is no finished run; give a directory that `nacre train` made...
    """

    directory: Path
    result: Result
    trust: tuple[str, ...] = ()  # packages whose code its network may import

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, trust: Sequence[str] = ()) -> "Run":
        """The run in a directory.

        Args:
            path: The directory.
            trust: Packages whose code may be imported, as in `nacre.load`.

        Raises:
            FileNotFoundError: If there is none, or it was not finished.
            ValueError: If its result is damaged.
        """
        directory = Path(path)
        file = directory / RESULT
        if not file.is_file():
            raise FileNotFoundError(f"{directory} is no finished run; {_instead(directory)}")
        try:
            result = parse(decode(file.read_bytes()), directory)
            run = cls(directory, result, package_list(trust))
            return run if result.record["format"] > 1 else run._upgraded()
        except ValueError as error:
            raise _damaged(file, directory, error) from None

    @staticmethod
    def write(directory: Path, result: dict[str, Any], recipe: Recipe, columns: Columns | None) -> dict[str, Any]:
        """Write all but the network, the result last: a run that has one is whole. Returns it as in the file."""
        text = json_text(result)
        write_atomic(directory / RECIPE, to_toml(recipe).encode())
        if columns is not None:
            write_atomic(directory / COLUMNS, json_text(columns.to_dict()).encode())
        write_atomic(directory / RESULT, text.encode())
        return json.loads(text)

    @cached_property
    def recipe(self) -> Recipe:
        """What it was trained by."""
        path = self.directory / RECIPE
        try:
            return replace(load_recipe(path), name=self.result.task)
        except (ValueError, OSError) as error:
            raise _damaged(path, self.directory, error) from None

    @cached_property
    def columns(self) -> Columns | None:
        """What the columns of its table are; None if it was not trained on one of your own."""
        path = self.directory / COLUMNS
        if not path.is_file():
            return None
        try:
            return Columns.from_dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise _damaged(path, self.directory, error) from None

    @property
    def has_network(self) -> bool:
        """Whether there is a network; controls have none."""
        return (self.directory / MODEL).is_dir()

    def control(self) -> Control:
        """The fitted control, if this is the run of one that is kept.

        Raises:
            ValueError: If there is none, or it is damaged.
        """
        if not self.result.control or not (self.directory / CONTROL).is_dir():
            raise ValueError(
                f"{self.directory} holds no network; the control {self.result.model!r} is not kept, or was run "
                "before controls were: choose the run of a model"
            )
        try:
            return load_control(self.directory / CONTROL)
        except ValueError as error:
            raise _damaged(self.directory / CONTROL, self.directory, error) from None

    def network(self, *, allow_nonfinite: bool = False) -> TaskNetwork:
        """The trained network, in evaluation mode.

        Raises:
            ValueError: If there is none, it is damaged, or it diverged in training.
        """
        path = self.directory / MODEL
        if not self.has_network:
            raise ValueError(f"{self.directory} holds no network; controls have none, choose the run of a model")
        try:
            network = load(path, allow_nonfinite=True, trust=self.trust)
        except UntrustedCode:
            raise
        except (ValueError, OSError) as error:
            if source := self.result.record.get("source"):
                made = f"{source['reference']!r} of {source['package'] or 'a file'}"
                raise ValueError(f"{path} was trained with a model of others, {made}: {error}") from None
            raise _damaged(path, self.directory, error) from None
        if not isinstance(network, TaskNetwork):
            why = f"it is a {type(network).__name__}, wanted a network that `nacre train` made"
            raise _damaged(path, self.directory, why)
        if not allow_nonfinite and (name := first_nonfinite(network.state_dict())):
            raise ValueError(f"{path} has numbers in {name} that are not finite: training diverged")
        return network

    def predict(self, x: Any, *, time: Any = None) -> "pd.DataFrame":  # noqa: ANN401 (arrays, frames, a file)
        """What it says of new sequences, in evaluation mode: the table that `nacre predict` writes.

        Args:
            x: A CSV file; a frame with the columns of the training table, by name; a list of [T, F] arrays or of
                frames, or an array [n, T, F], whose features are in the order of training.
            time: Stamps of arrays, numbers or dates, in the unit of training; of a frame the name of their column,
                if it is another one.

        Returns:
            A row for each answer: `prediction` with the probability of each class, or numbers in the data's units.

        Raises:
            ValueError: If columns are missing, widths differ, or stamps go back.
        """
        from nacre.train.predict import predict_given  # which opens runs

        return predict_given(self, x, time)

    @property
    def weights(self) -> str:
        """Checksum of the network's weights."""
        path = self.directory / MODEL / "model.json"
        try:
            return str(read_object(path)["sha256"])
        except (ValueError, KeyError, OSError) as error:
            raise _damaged(path, self.directory, error) from None

    def task(self, data_dir: Path | None = None) -> Task:
        """The recipe with its data and folds. Data files lie in `data_dir`; None as in `load_task`.

        Raises:
            UntrustedCode: If a function of others makes the data, and the caller does not trust its package.
        """
        recipe = self.recipe
        with trusting(self.trust), names_from_a_file():
            return load_task(recipe, data_dir)

    def _upgraded(self) -> "Run":
        """With the checksums of today, where its recipe is there to compute them, or nacre comes with it."""
        if (self.directory / RECIPE).is_file():
            recipe = self.recipe
        elif self.result.task in list_recipes() and self.result.profile in [*Profile]:
            recipe = load_recipe(self.result.task).at(Profile(self.result.profile))
        else:
            return self
        return replace(self, result=parse(upgrade(self.result.record, recipe), self.directory))


def _instead(directory: Path) -> str:
    if (directory / CHECKPOINTS).is_dir():
        return "it was interrupted: the same `nacre train` goes on with it"
    return "give a directory that `nacre train` made, such as runs/spiral/nac/fold0-seed0"


def _damaged(path: Path, directory: Path, why: object) -> ValueError:
    return ValueError(f"{path} is damaged: {why}; delete {directory} and train it again")
