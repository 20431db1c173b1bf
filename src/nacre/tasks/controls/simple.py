"""Controls that read nothing off the inputs, or a single value: the majority, the mean, the last known value."""

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind, is_scored
from nacre.data.rigs.life_metrics import LifeMetrics
from nacre.tasks.controls.base import Control, mean_answer
from nacre.tasks.controls.features import last_known
from nacre.tasks.metrics import answers_of, scored_sequences, scored_steps, steps_of

SEEN = "seen"  # name of the feature that is 1 where a step was observed and 0 where it is only asked about


class Majority(Control):
    """The most frequent class of the training part; of several, the one that comes first among the classes.

    A step that lies in several sequences counts once.
    """

    name = "majority"
    summary = "most frequent training class"
    kinds = frozenset({Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION})
    _scores: Tensor  # [C] share of each class

    def _fit(self, data: Dataset, train: Tensor) -> None:
        counts = data.answers(train).bincount(minlength=len(data.classes))
        self._scores = counts / counts.sum()  # of equal ones, argmax takes the first
        self.parameters = 1

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        return self._scores.repeat(len(answers_of(data, index)), 1)


class Mean(Control):
    """The mean of the training answers, for each of the D numbers. A step in several sequences counts once."""

    name = "mean"
    summary = "mean of the training answers"
    kinds = frozenset({Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.FORECASTING, Kind.MULTI_LABEL})
    _mean: Tensor  # [D]

    def _fit(self, data: Dataset, train: Tensor) -> None:
        self._mean = mean_answer(data, train)
        self.parameters = len(self._mean)

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        return self._mean.repeat(len(answers_of(data, index)), 1)


class Persistence(Control):
    """Nothing changes: the last known value is the answer.

    Forecasting: the last known value of the target column, at every horizon. Numbers of steps: what was last seen
    of the targets at the step or before it, where the data set has the targets and `seen` among its features.
    Where nothing was seen so far, the mean of the training answers stands.
    """

    name = "persistence"
    summary = "last known value"
    kinds = frozenset({Kind.FORECASTING, Kind.STEP_REGRESSION})
    _fallback: Tensor | None = None  # [D] before anything was seen, where that can be

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether the past of the targets is among the inputs."""
        if data.kind is Kind.FORECASTING:
            return data.target_column is not None
        return data.kind in cls.kinds and {SEEN, *data.targets} <= set(data.features)

    def _fit(self, data: Dataset, train: Tensor) -> None:
        can_be = data.kind is Kind.STEP_REGRESSION or data.missing.has_flags
        self._fallback = mean_answer(data, train) if can_be else None
        self.parameters = 0 if self._fallback is None else len(self._fallback)

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        if data.kind is Kind.STEP_REGRESSION and self._fallback is not None:
            return _last_seen(data, index, self._fallback)
        last = last_known(data, scored_sequences(data, index)).repeat(1, len(data.targets))
        return last if self._fallback is None else torch.where(last.isnan(), self._fallback, last)


class Interpolation(Control):
    """The first guess that the data set has of its numbers: straight lines between what was seen."""

    name = "interpolation"
    summary = "straight lines between what was seen"
    kinds = frozenset({Kind.STEP_REGRESSION})

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether the data set has a first guess."""
        return super().applies(data) and bool(data.guess)

    def _fit(self, data: Dataset, train: Tensor) -> None:
        pass

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        rows = scored_steps(data, index).row
        return data.values[rows][:, list(data.guess)].expand(-1, len(data.targets)).clone()


class LastAction(Control):
    """The right action of the moment before; where that is unknown, the majority or mean of the training part.

    It sees true answers, which no network does, so it measures how slowly answers change: an accuracy below it can
    be had by doing nothing new.
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
    """Always the number that the data set calls neutral, such as a wheel held straight."""

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


class LifeClock(Control):
    """How much of the recording has passed. It knows the moment of failure, which is what is asked: an oracle.

    The paper's inputs hold this clock: a column of time, scaled by each test recording's own end. A model that
    reads it needs no vibration. No network here sees it.
    """

    name = "life-clock"
    summary = "ORACLE: share of the recording that has passed, known from its end"
    kinds = frozenset({Kind.REGRESSION})

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether the sequences belong to lives."""
        return super().applies(data) and isinstance(data.metrics, LifeMetrics)

    def _fit(self, data: Dataset, train: Tensor) -> None:
        """Nothing to learn."""

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        assert isinstance(data.metrics, LifeMetrics)
        share = torch.from_numpy(data.metrics.clock(scored_sequences(data, index).numpy()))
        return share.float().unsqueeze(1)


def _last_seen(data: Dataset, index: Tensor, fallback: Tensor) -> Tensor:
    """[m, D] for each scored step, what was last seen of the targets in its sequence."""
    row, first = steps_of(data, index)
    # All steps stand in one list, one sequence after the other: the latest place where something was seen is a
    # running maximum, and belongs to the step's own sequence if it is not before the place where that begins.
    place = torch.arange(len(row)).unsqueeze(1)
    begin = place - (row - first).unsqueeze(1)  # place of the first step of the same sequence
    values = data.values[row][:, [data.features.index(name) for name in data.targets]]  # [steps, D]
    seen = (data.values[row, data.features.index(SEEN)] > 0).unsqueeze(1) & ~values.isnan()
    latest = torch.where(seen, place, -1).cummax(0).values
    held = torch.where(latest >= begin, values.gather(0, latest.clamp(min=0)), fallback)
    return held[is_scored(data.y[row], data.kind)]
