"""Controls that learn from features: linear models of the values, and a tree that sees time stamps only."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import Missing
from nacre.tasks.controls.base import Control, mean_answer
from nacre.tasks.controls.features import chunks, inputs_of, last_known, last_row, times_of, training_table
from nacre.tasks.controls.least_squares import LeastSquares, LinearMap
from nacre.tasks.controls.observed import column_means
from nacre.tasks.metrics import answers_of, scored_sequences

_TINY = 1e-8  # ridge of forecasting, as a share of each column's variance: only keeps the equations solvable
_ITERATIONS = 1000  # of logistic regression, at most
_DEPTH = 8  # of a tree
_LEAF = 10  # training answers in each leaf of a tree, at least
_RMS = " log rms"  # end of the names of the features that say how strongly an axis shakes


class Linear(Control):
    """A linear model of the inputs, which are described at `nacre.tasks.controls.features.inputs_of`.

    Classes: multinomial logistic regression of scikit-learn on standardised inputs. Numbers: ridge regression on
    standardised inputs, with penalty 1 as in scikit-learn. Forecasting: the same with next to no penalty, from the
    whole window to all horizons, the target relative to its last value (as NLinear does it).
    """

    name = "linear"
    summary = "linear or logistic regression"
    kinds = frozenset(Kind)
    _line: LinearMap | None = None  # for numbers
    _classifier: Any = None  # of scikit-learn, for classes
    _fill: Tensor | None = None  # [P] what stands for inputs that are not known
    _mean: Tensor  # [D] of forecasts, for windows in which the target was never seen

    @classmethod
    def applies(cls, data: Dataset) -> bool:
        """Whether rows are features: pixels say nothing one by one."""
        return super().applies(data) and not data.has_images

    def _fit(self, data: Dataset, train: Tensor) -> None:
        self._fill = _training_means(data, train)
        self._mean = mean_answer(data, train) if data.kind is Kind.FORECASTING else torch.zeros(1)
        if data.kind.has_classes:
            self._line = None
            self._classifier, self.parameters = _fit_logistic(*training_table(data, train, self._inputs))
        else:
            self._line = self._fit_line(data, train)
            self.parameters = self._line.numbers

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        if self._line is None:
            scores = partial(_class_scores, self._classifier, data=data)
            return _in_chunks(data, index, self._inputs, scores).float()
        found = _in_chunks(data, index, self._inputs, self._line)
        return (found + self._base(data, index)).float()

    def _inputs(self, data: Dataset, index: Tensor) -> Tensor:
        return _inputs(data, index, self._fill)

    def _fit_line(self, data: Dataset, train: Tensor) -> LinearMap:
        """Chunk by chunk: the normal equations need sums over rows only."""
        answers = data.outputs
        apart = bool(answers_of(data, train).isnan().any())  # of a forecast, some numbers may be unknown
        squares: list[LeastSquares] = []
        for chunk in chunks(data, train):
            x, y = self._inputs(data, chunk), answers_of(data, chunk).double() - self._base(data, chunk)
            squares = squares or [LeastSquares(x.shape[1]) for _ in range(answers if apart else 1)]
            for fit, part in zip(squares, y.split(1, 1) if apart else [y], strict=True):
                known = ~part.isnan().any(1)
                fit.add(x[known], part[known])
        penalties = [_TINY if data.kind is Kind.FORECASTING else 1.0 / max(fit.rows, 1) for fit in squares]
        lines = [fit.solve(penalty) for fit, penalty in zip(squares, penalties, strict=True)]
        return LinearMap(torch.cat([line.weight for line in lines], 1), torch.cat([line.bias for line in lines]))

    def _base(self, data: Dataset, index: Tensor) -> Tensor:
        """What answers are relative to: [m, 1] the last known value in forecasting, else 0."""
        if data.kind is not Kind.FORECASTING:
            return torch.zeros(1, dtype=torch.float64)
        last = last_known(data, scored_sequences(data, index)).double()
        return torch.where(last.isnan(), self._mean.double().mean(), last)


class TimeOnly(Control):
    """A decision tree that sees when something was measured and never what.

    Where it beats the majority class or the mean, either time itself is informative (days have a rhythm, parts
    wear out), or the protocol leaks, for example because neighbouring rows of one recording are in the training
    and in the test part. A network's score means little before that is settled. Its inputs are described at
    `nacre.tasks.controls.features.times_of`.
    """

    name = "time-only"
    summary = "decision tree on time stamps, blind to values"
    kinds = frozenset(Kind)
    _tree: Any = None  # of scikit-learn
    _origin: Tensor  # [P] smallest training number of each column

    def _fit(self, data: Dataset, train: Tensor) -> None:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        x, y = training_table(data, train, times_of)
        # Trees compare in float32, too coarse for stamps such as seconds since 1970: count from the first.
        self._origin = x.amin(0)
        kind = DecisionTreeClassifier if data.kind.has_classes else DecisionTreeRegressor
        self._tree = kind(max_depth=_DEPTH, min_samples_leaf=_LEAF, random_state=0)
        if not data.kind.has_classes:  # a tree takes no unknown numbers, of which a forecast may have some
            y = torch.where(y.isnan(), mean_answer(data, train), y)
        self._tree.fit((x - self._origin).numpy(), y.numpy())
        leaves = int(self._tree.get_n_leaves())
        inner = int(self._tree.tree_.node_count) - leaves
        self.parameters = 2 * inner + leaves * data.outputs  # column and threshold; what a leaf answers

    def _predict(self, data: Dataset, index: Tensor) -> Tensor:
        return _in_chunks(data, index, times_of, lambda x: self._outputs(x - self._origin, data)).float()

    def _outputs(self, x: Tensor, data: Dataset) -> Tensor:
        if data.kind.has_classes:
            return _class_scores(self._tree, x, data)
        return torch.from_numpy(self._tree.predict(x.numpy())).reshape(len(x), -1)


class LinearRms(Control):
    """Ridge regression on the logarithms of the last window's root mean squares, one for each axis."""

    name = "linear-rms"
    summary = "linear regression on how strongly a bearing shakes"
    kinds = frozenset({Kind.REGRESSION})
    _line: LinearMap

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


def _fit_logistic(x: Tensor, y: Tensor) -> tuple[Any, int]:
    """A classifier, and how many numbers it holds; scaling to variance 1 is part of its weights."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(y.unique()) == 1:  # logistic regression refuses to learn from one class
        return DummyClassifier().fit(x.numpy(), y.numpy()), 1
    line = LogisticRegression(max_iter=_ITERATIONS)
    model = make_pipeline(StandardScaler(), line)
    model.fit(x.numpy(), y.numpy())
    return model, np.size(line.coef_) + np.size(line.intercept_)


def _class_scores(classifier: Any, x: Tensor, data: Dataset) -> Tensor:  # noqa: ANN401
    """[m, C] probabilities; 0 for classes that training did not have."""
    scores = torch.zeros(len(x), len(data.classes), dtype=torch.float64)
    scores[:, torch.from_numpy(classifier.classes_)] = torch.from_numpy(classifier.predict_proba(x.numpy()))
    return scores


def _in_chunks(
    data: Dataset, index: Tensor, table: Callable[[Dataset, Tensor], Tensor], outputs: Callable[[Tensor], Tensor]
) -> Tensor:
    """[m, outputs] float64: what `outputs` makes of the table, which is never held as a whole."""
    parts = [torch.empty(0, data.outputs, dtype=torch.float64)]
    for chunk in chunks(data, index):
        x = table(data, chunk)
        if len(x):  # scikit-learn refuses to predict nothing
            parts.append(outputs(x))
    return torch.cat(parts)


def _inputs(data: Dataset, index: Tensor, fill: Tensor | None) -> Tensor:
    """Inputs without NaN: where values may be missing, `fill` [P] stands for what is not known."""
    x = inputs_of(data, index)
    if fill is not None:
        return torch.where(x.isnan(), fill, x)
    if not x.isfinite().all():
        lost = (~data.values[data.rows(index)].isfinite()).any(0).tolist()
        names = [name for name, bad in zip(data.features, lost, strict=True) if bad]
        raise ValueError(
            f"{data.name}: 'linear' needs finite values, but there is NaN or infinity in "
            f"{', '.join(map(repr, names)) or 'the time stamps'}; fill the gaps where the data is read, or say "
            "missing='flags'"
        )
    return x


def _training_means(data: Dataset, train: Tensor) -> Tensor | None:
    """[P] means of the known training inputs; None where nothing may be missing."""
    if data.missing is Missing.ERROR:
        return None
    return column_means([inputs_of(data, chunk) for chunk in chunks(data, train)])


def _strength(data: Dataset, index: Tensor) -> Tensor:
    """[m, axes] logarithms of the root mean squares of the last row."""
    columns = [i for i, name in enumerate(data.features) if name.endswith(_RMS)]
    return data.values[last_row(data, index)][:, columns].double()
