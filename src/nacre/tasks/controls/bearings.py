"""Controls for bearings: a line through how strongly they shake, and a clock that knows when they fail."""

import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.data.rigs.life_metrics import LifeFigures
from nacre.tasks.answers import answers_of, scored_sequences
from nacre.tasks.controls.base import Control
from nacre.tasks.controls.least_squares import LeastSquares, Line

_RMS = " log rms"  # end of the names of the features that say how strongly an axis shakes


class LinearRms(Control):
    """The best line from the logarithm of the last window's root mean square, axis by axis."""

    name = "linear-rms"
    summary = "linear regression on how strongly a bearing shakes"
    kinds = frozenset({Kind.REGRESSION})
    _line: Line

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether there are features of that name."""
        return super().applies(data) and any(name.endswith(_RMS) for name in data.features)

    def _fit(self, data: Dataset, train: Tensor) -> None:
        x = _strength(data, scored_sequences(data, train))
        squares = LeastSquares(x.shape[1])
        squares.add(x, answers_of(data, train).double())
        self._line = squares.solve(penalty=1.0 / squares.rows)
        self.parameters = self._line.numbers

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        return self._line(_strength(data, scored_sequences(data, index))).float()


class LifeClock(Control):
    """How much of the recording has passed. It knows the moment of failure, which is what is asked: an oracle.

    The paper's inputs hold this clock: a column of time, scaled by each test recording's own end. Whoever reads it
    off needs no vibration. No network here sees it.
    """

    name = "life-clock"
    summary = "ORACLE: share of the recording that has passed, known from its end"
    kinds = frozenset({Kind.REGRESSION})

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether the sequences belong to lives."""
        return super().applies(data) and isinstance(data.figures, LifeFigures)

    def _fit(self, data: Dataset, train: Tensor) -> None:
        """Nothing to learn."""

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        assert isinstance(data.figures, LifeFigures)
        share = torch.from_numpy(data.figures.clock(scored_sequences(data, index).numpy()))
        return share.float().unsqueeze(1)


def _strength(data: Dataset, index: Tensor) -> Tensor:
    """[m, axes] logarithms of the root mean squares of the last row."""
    columns = [i for i, name in enumerate(data.features) if name.endswith(_RMS)]
    last = data.start[index] + data.length[index] - 1
    return data.values[last][:, columns].double()
