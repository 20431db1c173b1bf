"""`Regressor`: numbers for each sequence, or for each step."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from nacre.data.dataset import Kind
from nacre.data.tables.frames import is_frame, pandas_of
from nacre.data.tables.given import read_given
from nacre.estimators.base import SequenceEstimator
from nacre.estimators.labels import flat
from nacre.tasks.further_metrics import middle


class Regressor(RegressorMixin, SequenceEstimator):
    """Learns numbers that belong to sequences whose steps come at any moments.

    Arguments and attributes are those of `Classifier`, but for classes.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> t = [np.sort(random.uniform(0, 6, 12)) for _ in range(40)]
        >>> level = random.uniform(-1, 1, 40)
        >>> X = [np.full((12, 1), number) for number in level]
        >>> reg = Regressor("cfc-fc", d_model=8, num_heads=2, max_steps=60, learning_rate=0.02, random_state=0)
        >>> reg.fit(X[:30], level[:30] ** 2, time=t[:30]).predict(X[30:], time=t[30:]).shape
        (10,)
    """

    _kinds = (Kind.REGRESSION, Kind.STEP_REGRESSION)

    def fit(self, X: Any, y: Any, *, time: Any = None, groups: Any = None, validation: Any = None) -> Self:  # noqa: ANN401
        """Train; arguments as those of `Classifier.fit`.

        Args:
            X: The sequences.
            y: A number for each sequence [n], several [n, D], or one for each step, n items [T]; of a frame the
                name of a column, or a Series by the names of the sequences.
            time: Stamps.
            groups: Labels of what must not be both trained on and held out.
            validation: Labels of the groups that are held out.
        """
        data, columns = read_given(X, y, False, time, groups, self._given())
        return self._train(data, columns, validation, {})

    def predict(self, X: Any, *, time: Any = None) -> Any:  # noqa: ANN401
        """Numbers in the units of y: [n], or [n, D] if there are several; of steps, n arrays, or for each row."""
        data, table, outputs = self._answers(X, time)
        point = middle(outputs, data.outputs, self._fitted().network.quantiles).numpy()
        return self._in_form(point[:, 0] if point.shape[1] == 1 else point, data, table, is_frame(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, time: Any = None) -> float:  # noqa: ANN401
        """The coefficient of determination r²: 1 is perfect, 0 as good as the mean."""
        self._fitted()
        truth = pandas_of(X).groupby(self._group, sort=False)[y].first() if isinstance(y, str) else y
        found = self.predict(X, time=time)
        if isinstance(found, list):
            found, truth = np.concatenate(found), flat(truth)
        return float(r2_score(np.asarray(truth), found, sample_weight=sample_weight))
