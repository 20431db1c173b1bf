"""`Classifier`: a class for each sequence, or for each step."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from nacre.data.dataset import Kind
from nacre.data.tables.frames import is_frame, pandas_of
from nacre.data.tables.given import read_given
from nacre.estimators.base import SequenceEstimator
from nacre.estimators.labels import codes_of, flat, labels_of, plain_labels, restored


class Classifier(ClassifierMixin, SequenceEstimator):
    """Learns the classes of sequences whose steps come at any moments.

    X is a list of n arrays [T, F], an array [n, T, F], a list of n frames, or one frame with a row for each step,
    or, with `columns={"variable": ..., "value": ...}`, for each observed value: frames of pandas, or, where
    pyarrow is there, of polars. A part of the sequences, whole groups, is held out: it chooses the checkpoint,
    ends training early, and says what the trivial controls reach.

    Args:
        model: One of `nacre.list_models`, or package.module:factory.
        max_steps: How many steps to train at most; None for the recipe's 2,000.
        missing: What is done about NaN in X: "flags", "last", "events" or "error", as `nacre.data.Missing` says.
        random_state: Seed of weights, order and dropout; the same one gives the same network on the same machine.
        d_model: Width of the network; None for 64.
        num_heads: Heads of its layer; None for 4.
        learning_rate: None for 0.001.
        batch_size: Sequences in a batch; None for 64.
        options: Options of the model, such as {"top_k": 16}.
        columns: How X is read, by the keys that `[data]` of a recipe has: `features`, `static`, `categories`,
            `variable`, `value`, `sort`, `duplicates`. For arrays `features`, which names them, and `static`.
        recipe: All else, such as the metric that judges and the loss: a `Recipe` or a TOML file without `[data]`.
        device: Where to train: "auto", "cpu", "cuda", "gpu" or "mps".
        callbacks: Callbacks of Lightning.
        logger: A logger of Lightning.
        progress: Whether to show a bar; None for only where there is a terminal.

    Attributes:
        classes_: The classes, in the order of `predict_proba`.
        controls_: What trivial controls reach on the held-out part, in `metric_`.
        valid_score_: What the network reaches there. It is a little too good: this part chose the checkpoint.
        metric_: Name of the metric that judges.
        feature_names_in_: Names of the features.
        n_steps_: Steps that were trained.
        seed_: The seed.
        notes_: What was left out, and how much is missing.

    Example:
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> t = [np.sort(random.uniform(0, 6, 12)) for _ in range(40)]
        >>> X = [np.sin((1 + i % 2) * time)[:, None] for i, time in enumerate(t)]
        >>> y = ["slow", "fast"] * 20
        >>> clf = Classifier("cfc-fc", d_model=8, num_heads=2, max_steps=60, learning_rate=0.02, random_state=0)
        >>> clf.fit(X[:30], y[:30], time=t[:30]).predict_proba(X[30:], time=t[30:]).shape
        (10, 2)
        >>> sorted(clf.controls_)
        ['linear', 'majority', 'time-only']
    """

    _kinds = (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION)

    def fit(self, X: Any, y: Any, *, time: Any = None, groups: Any = None, validation: Any = None) -> Self:  # noqa: ANN401
        """Train.

        Args:
            X: The sequences.
            y: A class for each sequence, or for each step of each; of a frame the name of its column, or a Series
                by the names of the sequences.
            time: Stamps that never go back within a sequence, numbers in any unit or dates: [n, T] or n items [T];
                of a frame the name of its column. None counts steps.
            groups: [n] labels of what must not be both trained on and held out, such as persons; None takes each
                sequence for itself. Of a frame the name of the column that tells its sequences apart.
            validation: Labels of the groups that are held out; None for about a fifth.

        Raises:
            ValueError: If something is wrong with the data or an argument, or training diverged.
        """
        data, columns = read_given(X, y, True, time, groups, self._given())
        column = pandas_of(X)[y] if is_frame(X) and isinstance(y, str) else y
        return self._train(data, columns, validation, {"labels": plain_labels(labels_of(column, data.classes))})

    def predict(self, X: Any, *, time: Any = None) -> Any:  # noqa: ANN401
        """The most likely class of each sequence [n]; of steps, n arrays [T], or of a frame one for each row.

        The sequences of a frame come in the order in which it first names them.
        """
        data, table, shares = self._answers(X, time)
        return self._in_form(self.classes_[shares.argmax(1).numpy()], data, table, is_frame(X))

    def predict_proba(self, X: Any, *, time: Any = None) -> Any:  # noqa: ANN401
        """Probabilities [n, C] of the classes, in the order of `classes_`; of steps as `predict`."""
        data, table, shares = self._answers(X, time)
        return self._in_form(shares.numpy(), data, table, is_frame(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, time: Any = None) -> float:  # noqa: ANN401
        """Accuracy, from 0 to 1. Classes that `fit` never saw are refused."""
        self._fitted()
        column = pandas_of(X).groupby(self._group, sort=False)[y].first() if isinstance(y, str) else y
        truth = codes_of(column, self.classes_)
        found = flat(self.predict(X, time=time))
        if len(truth) != len(found):
            raise ValueError(f"y must hold {len(found):,} classes, one for each answer, got {len(truth):,}")
        return float(np.average(self.classes_[truth] == found, weights=sample_weight))

    def _adopt(self, trained: Any) -> None:  # noqa: ANN401
        super()._adopt(trained)
        self.classes_ = restored(trained.record)
