"""`SequenceEstimator`: what the estimators have in common. Training and answering are those of the commands."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from torch import Tensor

from nacre._util.checks import choice, real, there_are, whole
from nacre.data.dataset import Dataset, Kind
from nacre.data.splits import hold_out
from nacre.data.tables.columns import Columns
from nacre.data.tables.given import SEQUENCE, Given, read_new_given
from nacre.data.tables.reading import Reading
from nacre.deploy.export import Exported, export
from nacre.deploy.run import about
from nacre.estimators.held_out import lost_to, train_held_out
from nacre.estimators.plan import Plan, device_of, parameters_of, recipe_of, shown
from nacre.estimators.trained import TrainedRun
from nacre.tasks.recipe import Profile
from nacre.tasks.task import task_on_split
from nacre.train.cell import Cell
from nacre.train.predict import columns_of, network_answers
from nacre.train.ranges import outside
from nacre.train.run import Run

if TYPE_CHECKING:
    import pandas as pd

_LARGEST_SEED = 2**31 - 1
_READING = ("static", "categories", "variable", "value", "sort", "duplicates")


class SequenceEstimator(BaseEstimator):
    """Fits a network to sequences that are in memory. See `Classifier`, whose arguments it has."""

    _kinds: ClassVar[tuple[Kind, ...]]  # of runs that it can open

    def __init__(
        self,
        model: str = "nac-plus",
        *,
        max_steps: int | None = None,
        missing: str = "flags",
        random_state: Any = None,  # noqa: ANN401 (as in scikit-learn)
        d_model: int | None = None,
        num_heads: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        recipe: Any = None,  # noqa: ANN401 (a Recipe, or a file)
        device: str = "auto",
        callbacks: Sequence[Any] | None = None,
        logger: Any = None,  # noqa: ANN401 (a logger of Lightning)
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.max_steps = max_steps
        self.missing = missing
        self.random_state = random_state
        self.d_model = d_model
        self.num_heads = num_heads
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.options = options
        self.columns = columns
        self.recipe = recipe
        self.device = device
        self.callbacks = callbacks
        self.logger = logger
        self.progress = progress

    def _given(self, **more: Any) -> Given:  # noqa: ANN401
        """How X is to be read."""
        columns = dict(self.columns or {})
        for key in columns:
            if key not in (*_READING, "features"):
                raise ValueError(f"unknown key {key!r} of columns; {there_are(key, (*_READING, 'features'))}")
        features = columns.pop("features", None)
        columns |= {key: tuple(columns[key]) for key in ("static", "categories") if _is_list(columns.get(key))}
        return Given(Reading(missing=self.missing, **columns), features, self._name, **more)

    @property
    def _name(self) -> str:
        """Name of the task in result files."""
        return type(self).__name__.lower()

    def _train(self, data: Dataset, columns: Columns, validation: Any, more: dict[str, Any]) -> Self:  # noqa: ANN401
        """Train on a data set, and warn if trivial rivals are as good."""
        if self.max_steps is not None:
            whole("max_steps", self.max_steps, 1)
        if self.learning_rate is not None:
            real("learning_rate", self.learning_rate, 0.0, 10.0, open_low=True)
        plan = Plan(
            self.d_model, self.num_heads, self.learning_rate, self.batch_size, self.max_steps, self.options
        )
        recipe = recipe_of(self._name, self.model, self.recipe, plan)
        groups = None if validation is None else [str(name) for name in _listed(validation)]
        task = task_on_split(recipe, data, hold_out(data, groups), columns)
        cell = Cell(task, self.model, 0, self._seed(), Profile.STANDARD, Path(gettempdir()))
        setting = device_of(self.device, self.logger)
        with shown(self.model, self.progress) as bar:
            callbacks = (*(self.callbacks or ()), *bar)
            trained = train_held_out(cell, self.max_steps, setting, callbacks, type(self).__name__)
        trained.record["estimator"] = {"name": type(self).__name__, "parameters": self._plain_parameters(), **more}
        trained.record["data"]["notes"] = list(data.notes)
        self._adopt(trained)
        self._warn()
        return self

    def _seed(self) -> int:
        """The seed of weights and order."""
        if isinstance(self.random_state, int | np.integer):
            return whole("random_state", int(self.random_state), 0)
        return int(check_random_state(self.random_state).randint(_LARGEST_SEED))

    def _plain_parameters(self) -> dict[str, Any]:
        """Those parameters that JSON can hold; a recipe is kept in its own file."""
        plain = bool | int | float | str | None
        found: dict[str, Any] = {}
        for name, value in self.get_params(deep=False).items():
            if name in ("callbacks", "logger", "recipe") or name == "random_state":
                continue
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, Mapping):
                value = {key: list(v) if isinstance(v, tuple) else v for key, v in value.items()}
            if isinstance(value, plain | list | dict):
                found[name] = value
        return found

    def _adopt(self, trained: TrainedRun) -> None:
        """Set the attributes of a fitted estimator."""
        record, columns = trained.record, trained.columns
        assert columns is not None
        self.trained_ = trained
        self.feature_names_in_ = np.array(columns.inputs, object)
        self.n_features_in_ = len(columns.inputs)
        self.metric_ = record["metric"]
        self.valid_score_ = record["valid"].get(self.metric_)
        self.controls_ = dict(record.get("controls", {}))
        self.seed_ = record["seed"]
        self.n_steps_ = record["budget"]["steps_taken"]
        self.notes_ = tuple(record["data"]["notes"])

    def _warn(self) -> None:
        record = self.trained_.record
        budget = record["budget"]
        if budget.get("interrupted"):
            warnings.warn(
                f"interrupted after {budget['steps_taken']:,} of {budget['steps']:,} steps; the weights are those "
                f"of step {budget['best_step']:,}, the best so far on the held-out part",
                UserWarning,
                stacklevel=4,
            )
        best = lost_to(record)
        if best is not None:
            warnings.warn(
                f"{self.model} does not beat the control {best[0]!r} on the held-out part: {self.metric_} "
                f"{self.valid_score_:.4g} against {best[1]:.4g}. It may have learned nothing that matters: train "
                "longer (max_steps), give it more sequences, or use the control",
                UserWarning,
                stacklevel=4,
            )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is something to answer with."""
        return hasattr(self, "trained_")

    def _fitted(self) -> TrainedRun:
        if not hasattr(self, "trained_"):
            name = type(self).__name__
            raise NotFittedError(
                f"this {name} has learned nothing yet; call fit(X, y) first, or open a trained one with "
                f"{name}.load(directory)"
            )
        return self.trained_

    def _answers(self, x: Any, time: Any) -> tuple[Dataset, pd.DataFrame, Tensor]:  # noqa: ANN401
        """Sequences as a data set, a table with a row for each answer, and the answers in the same order."""
        trained = self._fitted()
        assert trained.columns is not None
        data, table = read_new_given(x, time, trained.columns)
        for line in outside(trained.ranges, data):
            warnings.warn(line, UserWarning, stacklevel=4)
        return data, table, network_answers(trained.network, data)

    def _in_form(self, answers: np.ndarray, data: Dataset, table: pd.DataFrame, rows: bool) -> Any:  # noqa: ANN401
        """One answer for each sequence; of steps, a list of arrays, or for a frame one for each of its rows."""
        if not data.kind.each_step:
            return answers
        if rows:
            return answers[np.argsort(table.index.to_numpy(), kind="stable")]
        return np.split(answers, data.length.cumsum(0)[:-1].tolist())

    @property
    def _group(self) -> str:
        """The column that tells the sequences of a frame apart."""
        columns = self._fitted().columns
        assert columns is not None
        return columns.group or SEQUENCE

    @property
    def history_(self) -> list[dict[str, float]]:
        """Losses of training and of the held-out part after each round."""
        header, *rows = (line.split(",") for line in self._fitted().log.splitlines())
        return [{name: float(cell) for name, cell in zip(header, row, strict=True) if cell} for row in rows]

    def save(self, directory: str | os.PathLike[str], *, examples: bool = True) -> Path:
        """Save as the directory of a run, which `load`, `nacre.load`, `nacre predict` and `nacre view` open.

        Args:
            directory: Where; a run that is there is replaced.
            examples: Whether to keep up to 16 of the held-out sequences, which `nacre view` and `nacre inspect`
                show. Say no where nobody may see them.
        """
        trained, directory = self._fitted(), Path(directory)
        trained.write(directory, trained.record, examples=examples)
        return directory

    def export(self, path: str | os.PathLike[str], *, stream: bool = False, max_len: int = 1024) -> Exported:
        """Write the network as ONNX, as `nacre.export` does, with what it was trained on in the file's metadata.

        Args:
            path: The file, such as model.onnx.
            stream: Whether to write a second file for one step with its state.
            max_len: Steps that NAC layers remember in a stream.
        """
        network = self._fitted().network
        with TemporaryDirectory(prefix="nacre-") as folder:
            facts = about(Run.open(self.save(Path(folder) / "run", examples=False)))
        return export(network, path, stream=stream, max_len=max_len, about=facts)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, trust: Sequence[str] = ()) -> Self:
        """The estimator that `save` wrote, or the run of `nacre train`, ready to predict.

        Args:
            directory: The directory of a run.
            trust: Packages whose code may be imported, as in `nacre.load`.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is damaged, or answers another kind of question.
        """
        run = Run.open(directory, trust=trust)
        if run.result.kind not in cls._kinds:
            raise ValueError(
                f"{directory} is a run of {run.result.kind}, which a {cls.__name__} does not answer; it answers "
                f"{' and '.join(cls._kinds)}"
            )
        trained = replace(TrainedRun.of(run), columns=run.columns or columns_of(run))
        self = cls(**parameters_of(cls, run))
        self._adopt(trained)
        return self


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _listed(names: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise ValueError(f"validation must be a list of labels of groups, got {names!r}")
    found = names.tolist() if hasattr(names, "tolist") else list(names)
    choice("type of validation", type(found).__name__, ("list",))
    return found
