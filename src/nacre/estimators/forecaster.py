"""`Forecaster`: what a number is at any moment, between observations or after them, or in the next rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import flag, there_are, whole
from nacre.data.dataset import Kind
from nacre.data.missing import Missing
from nacre.data.tables.columns import Clock, Columns
from nacre.data.tables.given import read_new_given
from nacre.data.tables.moments import ask, one_for_each
from nacre.data.tables.reading import Reading
from nacre.data.tables.series_given import GivenSeries, new_series, read_forecasts, read_series
from nacre.data.tables.when import instants
from nacre.estimators.base import SequenceEstimator
from nacre.tasks.further_metrics import middle
from nacre.train.predict import network_answers


class Forecaster(SequenceEstimator):
    """Learns what one feature of a series is at moments that one asks for: between its rows, or after them.

    With `at` in `fit`, it learns to answer at any moments, of irregular series too: rows that ask hold their
    moment and tell nothing. Attention models answer by looking from there at what was observed, recurrent ones by
    going on to there. Answers are learned relative to straight lines between the observations. Without `at`, it
    learns the next `horizon` rows from the last `lookback`.

    Args:
        model: One of `nacre.list_models`, or package.module:factory.
        target: The feature that is asked: its number, or its name.
        horizon: Rows that are forecast where no moments are given.
        lookback: Rows that such a forecast sees.
        causal: Whether answers may use only what was observed up to their moment. False lets them use later rows,
            too, as one wants it for filling gaps.
        max_steps: As those of `Classifier`, like all that follow.
        missing: What is done about NaN in X: "flags", "last" or "error".
        random_state: Seed.
        d_model: Width of the network.
        num_heads: Heads of its layer.
        learning_rate: None for 0.001.
        batch_size: Series in a batch.
        options: Options of the model.
        columns: `features` and `static`, lists of names.
        recipe: All else.
        device: Where to train.
        callbacks: Callbacks of Lightning.
        logger: A logger of Lightning.
        progress: Whether to show a bar.

    Attributes:
        controls_: What straight lines ("interpolation"), the last value ("persistence") and other trivial rivals
            reach on the held-out part.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> t = [np.sort(random.uniform(0, 6, 8)) for _ in range(20)]
        >>> X, at = [np.sin(time)[:, None] for time in t], [time[:-1] + 0.1 for time in t]
        >>> fc = Forecaster("cfc-fc", d_model=8, num_heads=2, max_steps=20, random_state=0)
        >>> fc = fc.fit(X, [np.sin(a) for a in at], time=t, at=at)
        >>> [len(answers) for answers in fc.predict(X[:2], time=t[:2], at=[5.9, 6.5, 7.0])]
        [3, 3]
    """

    _kinds = (Kind.STEP_REGRESSION, Kind.FORECASTING)

    def __init__(
        self,
        model: str = "nac-plus",
        *,
        target: int | str = 0,
        horizon: int = 24,
        lookback: int = 48,
        causal: bool = False,
        max_steps: int | None = None,
        missing: str = "flags",
        random_state: Any = None,  # noqa: ANN401
        d_model: int | None = None,
        num_heads: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        recipe: Any = None,  # noqa: ANN401
        device: str = "auto",
        callbacks: Sequence[Any] | None = None,
        logger: Any = None,  # noqa: ANN401
        progress: bool | None = None,
    ) -> None:
        super().__init__(
            model,
            max_steps=max_steps,
            missing=missing,
            random_state=random_state,
            d_model=d_model,
            num_heads=num_heads,
            learning_rate=learning_rate,
            batch_size=batch_size,
            options=options,
            columns=columns,
            recipe=recipe,
            device=device,
            callbacks=callbacks,
            logger=logger,
            progress=progress,
        )
        self.target = target
        self.horizon = horizon
        self.lookback = lookback
        self.causal = causal

    def fit(
        self,
        X: Any,  # noqa: ANN401
        Y: Any = None,  # noqa: ANN401
        *,
        time: Any = None,  # noqa: ANN401
        at: Any = None,  # noqa: ANN401
        groups: Any = None,  # noqa: ANN401
        validation: Any = None,  # noqa: ANN401
    ) -> Self:
        """Train.

        Args:
            X: The series as they were observed: as for `Classifier`. The target is one of their features.
            Y: With `at`, what the target is at these moments: a list of numbers for each series, NaN if unknown.
            time: Stamps of X; of a frame the name of its column.
            at: Moments on the same clock: one list for all, or one for each series. None learns the next rows.
            groups: Labels of what must not be both trained on and held out; of a frame the column that tells its
                series apart, or None if it is one.
            validation: Labels of the groups that are held out.

        Raises:
            ValueError: If something is wrong with the data or an argument, or training diverged.
        """
        whole("horizon", self.horizon, 1)
        whole("lookback", self.lookback, 1)
        flag("causal", self.causal)
        given = self._given(lookback=self.lookback, horizon=self.horizon)
        reading = given.reading
        if reading.variable or reading.categories or reading.policy is Missing.EVENTS:
            raise ValueError(
                "a Forecaster takes rows of numbers: leave out variable, value and categories of columns, and say "
                "missing='flags', 'last' or 'error'"
            )
        if at is None and Y is not None:
            raise ValueError("Y is given alone; give at, too, the moments that it is of")
        if Y is None and at is not None:
            raise ValueError("at is given alone; give Y, too, what the target is at these moments")
        series = read_series(X, time, groups, features=given.features, static=reading.static, gaps=reading.gaps)
        target, labels = self._place(series.rows.features), self._labels(X, groups, series)
        if at is None:
            data, columns = read_forecasts(series, labels, target, given)
            return self._train(data, columns, validation, {"moments": False})
        count = len(series.rows.length)
        moments = [instants(series.clock, item) for item in one_for_each("at", at, count)]
        truth = [np.asarray(item, np.float64) for item in one_for_each("Y", Y, count)]
        asked = ask(
            series.rows,
            moments,
            target,
            answers=truth,
            groups=labels,
            causal=self.causal,
            missing=reading.policy,
            name=self._name,
        )
        return self._train(asked.data, _columns(series, target, reading), validation, {"moments": True})

    def predict(self, X: Any, *, time: Any = None, at: Any = None) -> list[NDArray[np.float64]]:  # noqa: ANN401
        """What the target is at some moments, in the units of the data: an array for each series.

        Args:
            X: Series, in any of the forms of `fit`.
            time: Their stamps; of a frame the name of their column, if it is another one than in `fit`.
            at: Moments, one list for all or one for each series. None for the `horizon` next rows.

        Raises:
            ValueError: If a moment lies before the first observation, or `fit` was not asked for moments.
        """
        trained = self._fitted()
        columns = trained.columns
        assert columns is not None
        if columns.kind is Kind.FORECASTING:
            if at is not None:
                raise ValueError(
                    f"this Forecaster learned the next {columns.horizon} rows; to ask at any moment, give at and "
                    "Y in fit, too"
                )
            values, stamps = new_series(X, time, columns).pieces
            data, _ = read_new_given(values, stamps, replace(columns, clock=Clock()))
            outputs = network_answers(trained.network, data)
            return list(middle(outputs, data.outputs, trained.network.quantiles).double().numpy())
        series = new_series(X, time, columns)
        count = len(series.rows.length)
        if at is None:
            moments = self._next(series)
        else:
            moments = [instants(series.clock, item) for item in one_for_each("at", at, count)]
        policy = columns.reading.policy
        target = columns.features.index(columns.target[0])
        asked = ask(series.rows, moments, target, causal=self.causal, missing=policy)
        outputs = network_answers(trained.network, asked.data)
        point = middle(outputs, 1, trained.network.quantiles)[torch.from_numpy(asked.row), 0].double().numpy()
        found = [np.empty(len(item)) for item in moments]
        for number, place, value in zip(asked.sequence, asked.place, point, strict=True):
            found[number][place] = value
        return found

    def score(self, X: Any, Y: Any, *, time: Any = None, at: Any = None) -> float:  # noqa: ANN401
        """The coefficient of determination r² over all moments whose answer is known."""
        found = np.concatenate(self.predict(X, time=time, at=at))
        truth = np.concatenate([np.asarray(item, np.float64) for item in one_for_each("Y", Y, len(Y))])
        if truth.shape != found.shape:
            raise ValueError(f"Y must hold {len(found):,} numbers, one for each moment, got {len(truth):,}")
        known = ~np.isnan(truth)
        spread = np.square(truth[known] - truth[known].mean()).sum()
        return float(1 - np.square(found[known] - truth[known]).sum() / spread)

    def _next(self, series: GivenSeries) -> list[NDArray[np.float64]]:
        """The moments of the next rows, at the median step of each series."""
        rows, found = series.rows, []
        for begin, length in zip(rows.start, rows.length, strict=True):
            time = rows.time[begin : begin + length]
            steps = np.diff(time)[np.diff(time) > 0]
            step = np.median(steps) if len(steps) else series.step
            found.append(time[-1] + step * np.arange(1, self.horizon + 1))
        return found

    def _place(self, features: tuple[str, ...]) -> int:
        """The column of the target."""
        if isinstance(self.target, str):
            if self.target not in features:
                raise ValueError(f"target={self.target!r} is no feature of X; {there_are(self.target, features)}")
            return features.index(self.target)
        return whole("target", self.target, 0, len(features) - 1)

    def _labels(self, x: Any, groups: Any, series: GivenSeries) -> list[str]:  # noqa: ANN401
        """The group of each series."""
        if groups is None or hasattr(x, "columns"):
            return list(series.names)
        labels = [str(label) for label in (groups.tolist() if hasattr(groups, "tolist") else groups)]
        if len(labels) != len(series.names):
            raise ValueError(f"groups must hold {len(series.names):,} labels, got {len(labels):,}")
        return labels


def _columns(series: GivenSeries, target: int, reading: Reading) -> Columns:
    features = series.rows.features
    return Columns(
        kind=Kind.STEP_REGRESSION,
        time=series.time,
        target=(features[target],),
        group=series.group,
        features=features,
        classes=(),
        lookback=48,
        horizon=24,
        pieces=False,
        clock=series.clock,
        step=series.step,
        reading=reading,
    )
