"""Controls for drives, where neighbouring moments are alike: the last action, and no action at all."""

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.tasks.answers import is_scored, scored_sequences
from nacre.tasks.controls.base import Control
from nacre.tasks.controls.simple import Majority, Mean


class LastAction(Control):
    """What was right a moment ago is right now. Without that: the majority, or the mean, of the training part.

    It sees true answers, which no network does, so it is a measure of how slowly answers change: an accuracy below
    it can be had by doing nothing new.
    """

    name = "last-action"
    summary = "the right action of the moment before"
    kinds = frozenset({Kind.CLASSIFICATION, Kind.REGRESSION})
    _fallback: Majority | Mean

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether the data set knows the answers before."""
        return data.kind in cls.kinds and data.before is not None

    def _fit(self, data: Dataset, train: Tensor) -> None:
        self._fallback = Majority() if data.kind.has_classes else Mean()
        self._fallback.fit(data, train)
        self.parameters = self._fallback.parameters

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        if data.before is None:
            raise ValueError(f"{data.name} does not know the answers before those of its sequences")
        scores = self._fallback.predict(data, index)  # [m, C or D]
        before = data.before[scored_sequences(data, index)]
        known = is_scored(before, data.kind)
        scores[known] = torch.eye(len(data.classes))[before[known]] if data.classes else before[known]
        return scores


class ZeroSteering(Control):
    """Never does anything: the number that the data set calls neutral, such as a wheel held straight."""

    name = "zero-steering"
    summary = "straight ahead, always"
    kinds = frozenset({Kind.REGRESSION})

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether there is a number for doing nothing."""
        return data.kind in cls.kinds and data.neutral is not None

    def _fit(self, data: Dataset, train: Tensor) -> None:
        """Nothing to learn."""

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        if data.neutral is None:
            raise ValueError(f"{data.name} has no number for doing nothing")
        return torch.full((len(scored_sequences(data, index)), data.outputs), data.neutral)
