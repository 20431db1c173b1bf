"""`Task`: a recipe, its data, and its folds."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from nacre.data.dataset import Dataset, Kind
from nacre.data.splits import Split, SplitBy, make_splits
from nacre.data.tables.columns import Columns
from nacre.tasks.losses import check_loss
from nacre.tasks.metrics import metric_of
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Recipe
from nacre.tasks.sources import load_data

_FEWEST_GROUPS = 3  # that can be split by group


@dataclass(frozen=True)
class Task:
    """What is to be learned, from what, and how it is judged."""

    recipe: Recipe
    data: Dataset
    splits: list[Split]  # the folds
    columns: Columns | None  # of a table of your own, which predictions for new tables need

    def network(self, model: str, fold: int, seed: int) -> TaskNetwork:
        """A fresh network for a fold: scaled by its training part, weights drawn from the seed."""
        settings = self.recipe.network
        train = self.splits[fold].train
        torch.manual_seed(seed)
        try:
            network = TaskNetwork(
                model,
                self.data.kind,
                len(self.data.features),
                self.data.outputs,
                d_model=settings.d_model,
                num_heads=settings.num_heads,
                conv=[list(layer) for layer in settings.conv],
                dense=list(settings.dense),
                dropout=settings.dropout,
                time_scale=settings.time_scale or typical_duration(self.data, train),
                options=self.recipe.options(model),
                block=settings.block,
                depth=settings.depth,
                relative_to=self._relative_to(),
                window=self._window(train),
                image=self._image(),
                one_hot=self.data.one_hot,
                static=self.data.static,
                missing=self.data.missing,
                quantiles=self.recipe.training.levels,
            )
        except TypeError as error:  # an option that the model does not have, or of another type
            raise ValueError(f"{self.recipe.name}: {error}") from error
        network.fit_scale(self.data, train)
        return network

    def _relative_to(self) -> list[int]:
        """Columns that answers are relative to."""
        data = self.data
        if not self.recipe.network.relative:
            return []
        return list(data.guess) if data.target_column is None else [data.target_column]

    def _window(self, train: torch.Tensor) -> tuple[int, float] | None:
        """Points of a forecast's window, and the time between them; None where there is no linear map of it."""
        data = self.data
        if data.kind is not Kind.FORECASTING or not self.recipe.network.linear:
            return None
        if data.window is not None:
            return data.window
        points = int(data.length[train].max())
        return points, typical_duration(data, train) / max(points - 1, 1)

    def _image(self) -> dict[str, Any] | None:
        """Options of `ImageEncoder` but `channels`; None if rows are features."""
        recipe = self.recipe.network.image
        if (recipe is not None) != self.data.has_images:
            raise ValueError(
                f"{self.recipe.name}: [network.image] must be there if, and only if, the rows are images; "
                f"those of {self.data.name} are {'images' if self.data.has_images else 'features'}"
            )
        return None if recipe is None else {"size": list(self.data.values.shape[1:3]), **asdict(recipe)}


def load_task(recipe: Recipe, data_dir: Path | None = None) -> Task:
    """Read the data of a recipe and split it. Data files lie in `data_dir`; None for $NACRE_DATA, then the cache.

    Example:
        >>> from nacre.tasks.recipe import load_recipe
        >>> task = load_task(load_recipe("spiral"))
        >>> len(task.data), len(task.splits)
        (300, 5)
    """
    return task_on(recipe, *load_data(recipe.data, data_dir))


def task_on(recipe: Recipe, data: Dataset, columns: Columns | None = None) -> Task:
    """A recipe on a data set that is in memory, split as the recipe says."""
    _check(recipe, data)
    split = recipe.split
    by, folds = split.by, split.folds
    groups = len((data.group if data.transfer is None else data.group[~data.transfer]).unique())
    if by == "auto":
        by = SplitBy.GROUP if groups >= _FEWEST_GROUPS else SplitBy.TIME
        folds = min(folds, groups) if by is SplitBy.GROUP else folds
    return Task(recipe, data, make_splits(data, SplitBy(by), folds, split.test_share), columns)


def task_on_split(recipe: Recipe, data: Dataset, split: Split, columns: Columns | None = None) -> Task:
    """A recipe on a data set that is in memory, with one split of one's own."""
    _check(recipe, data)
    return Task(recipe, data, [split], columns)


def _check(recipe: Recipe, data: Dataset) -> None:
    metric_of(data.kind, recipe.metric)  # refuses what the kind does not have
    check_loss(recipe.training, data)


def typical_duration(data: Dataset, train: torch.Tensor) -> float:
    """Median time from the first to the last step of sequences; 1 if they have no duration."""
    start = data.start[train]
    duration = data.time[start + data.length[train] - 1] - data.time[start]
    return duration.median().item() or 1.0
