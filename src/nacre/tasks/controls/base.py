"""`Control`: what all trivial controls have in common, and the checks of their arguments."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.tasks.metrics import answers_of


class Control(ABC):
    """A predictor that a network has to beat: fitted in seconds, and the same each time."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line of a table
    kinds: ClassVar[frozenset[Kind]]  # of data that it can be meant for
    parameters: int = 0  # numbers that were fitted
    _layout: tuple[object, ...] | None = None  # of the data it was fitted on

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether this control makes sense for a data set."""
        return data.kind in cls.kinds

    def fit(self, data: Dataset, train: Tensor) -> None:
        """Learn from these sequences [n] of a data set, and from no other row of it."""
        _check_index("train", train)
        if not self.applies(data):
            raise ValueError(f"{self.name!r} cannot be fitted on {data.name!r}, which is {data.kind}")
        if len(answers_of(data, train)) == 0:
            raise ValueError(
                f"{data.name}: none of the {len(train):,} training sequences has an answer to learn from"
            )
        self._fit(data, train)
        self._layout = _layout_of(data)

    def predict(self, data: Dataset, index: Tensor) -> Tensor:
        """Predict the scored answers of these sequences [n], in the order of `nacre.tasks.metrics.answers_of`.

        The data set is the one that was fitted on, or has the same columns.

        Returns:
            [m, C] scores of the classes, the highest wins, or [m, D] numbers in the units of the data; float32.
        """
        _check_index("index", index)
        if self._layout is None:
            raise RuntimeError(f"{self.name!r} has learned nothing yet; call fit(data, train) before predict")
        if _layout_of(data) != self._layout:
            raise ValueError(
                f"{self.name!r} was fitted on other columns, classes or targets than {data.name!r} has"
            )
        return self._predict(data, index)

    @abstractmethod
    def _fit(self, data: Dataset, train: Tensor) -> None:
        """Learn, and set `parameters`."""

    @abstractmethod
    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        """Predict, after the checks."""


def _layout_of(data: Dataset) -> tuple[object, ...]:
    return data.kind, data.features, data.classes, data.targets, data.target_column


def _check_index(name: str, index: Tensor) -> None:
    if index.dtype != torch.int64 or index.dim() != 1:
        raise TypeError(
            f"{name} must be a 1-d int64 tensor of indices of sequences, got {index.dtype} of shape "
            f"{tuple(index.shape)}; turn a mask into indices with mask.nonzero().squeeze(1)"
        )
    if len(index) == 0:
        raise ValueError(f"{name} is empty; it must name at least one sequence")


def mean_answer(data: Dataset, train: Tensor) -> Tensor:
    """[D] mean of the known training answers; 0 where none is known."""
    answers = data.answers(train).double()
    return answers.nanmean(0).nan_to_num(0.0).float() if answers.isnan().any() else answers.mean(0).float()
