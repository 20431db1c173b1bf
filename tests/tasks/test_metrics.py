"""What predictions are worth: against scikit-learn, and against plain sums."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix

from nacre.data.dataset import Kind
from nacre.tasks.metrics import confusion, metric_of, score_classes, score_numbers
from support.hypothesis import examples


@given(
    classes=st.integers(2, 6),
    count=st.integers(1, 40),
    seed=st.integers(0, 999),
    absent=st.sets(st.integers(0, 5)),
)
@examples(80)
def test_classes_are_scored_as_scikit_learn_does(classes, count, seed, absent):
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, classes, generator=random)
    there = [c for c in range(classes) if c not in absent] or [0]  # the other classes never occur, but are guessed
    truth = torch.tensor(there)[torch.randint(0, len(there), (count,), generator=random)]
    guess = scores.argmax(1)
    figures = score_classes(scores, truth)
    assert list(figures) == ["accuracy", "balanced accuracy"]
    assert figures["accuracy"] == pytest.approx(100 * accuracy_score(truth, guess))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true|A single label was found")
        assert figures["balanced accuracy"] == pytest.approx(100 * balanced_accuracy_score(truth, guess))
    expected = confusion_matrix(truth, guess, labels=range(classes))
    assert np.array_equal(confusion(scores, truth), expected)


def test_balanced_accuracy_counts_classes_and_not_answers():
    scores = torch.eye(3)[[0] * 10]  # always class 0
    figures = score_classes(scores, torch.tensor([0] * 8 + [1] * 2))
    assert figures == {"accuracy": 80.0, "balanced accuracy": 50.0}


@given(count=st.integers(1, 20), width=st.integers(1, 3), seed=st.integers(0, 99))
@examples(40)
def test_numbers_are_scored_as_plain_sums_say(count, width, seed):
    random = torch.Generator().manual_seed(seed)
    prediction, truth = torch.randn(2, count, width, generator=random) * 10
    unit = torch.rand(width, generator=random) + 0.5
    errors = [
        (p - t, u)
        for row, true_row in zip(prediction.tolist(), truth.tolist(), strict=True)
        for p, t, u in zip(row, true_row, unit.tolist(), strict=True)
    ]
    figures = score_numbers(prediction, truth, unit)
    assert list(figures) == ["mse", "mae", "raw rmse"]
    assert figures["mse"] == pytest.approx(sum((e / u) ** 2 for e, u in errors) / len(errors))
    assert figures["mae"] == pytest.approx(sum(abs(e / u) for e, u in errors) / len(errors))
    assert figures["raw rmse"] == pytest.approx((sum(e**2 for e, _ in errors) / len(errors)) ** 0.5)


def test_errors_are_taken_and_summed_in_double_precision():
    prediction, truth = torch.full((100_000, 1), 100.1), torch.full((100_000, 1), 0.3)
    error = prediction[0].item() - truth[0].item()  # no number of single precision
    figures = score_numbers(prediction, truth, torch.ones(1))
    assert figures["mse"] == pytest.approx(error**2, rel=1e-12)
    assert figures["raw rmse"] == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_figure_of_a_kind(kind):
    metric = metric_of(kind)
    if kind in (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION):
        assert (metric.name, metric.higher_is_better) == ("accuracy", True)
        assert metric.name in score_classes(torch.eye(2), torch.tensor([0, 1]))
    elif kind is Kind.MULTI_LABEL:
        assert (metric.name, metric.higher_is_better) == ("auroc", True)
    else:
        assert (metric.name, metric.higher_is_better) == ("mse", False)
        assert metric.name in score_numbers(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1))
