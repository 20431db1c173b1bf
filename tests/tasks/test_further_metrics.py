"""Metrics beyond accuracy and squared errors: against scikit-learn, plain loops, and where undefined."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, log_loss, mean_pinball_loss, r2_score, roc_auc_score

from nacre.data.dataset import Kind
from nacre.tasks.further_metrics import (
    calibration_error,
    middle,
    score_labels,
    score_probabilities,
    score_quantities,
)
from nacre.tasks.metrics import METRICS_OF, metric_of
from support.hypothesis import examples

NAMES = ("a", "b", "c", "d")


def answers(count, classes, seed):
    """Random probabilities, and truths of which each class occurs."""
    random = torch.Generator().manual_seed(seed)
    truth = torch.cat([torch.arange(classes), torch.randint(classes, (count,), generator=random)])
    return torch.randn(len(truth), classes, generator=random).double().softmax(1), truth


@given(classes=st.integers(2, 4), count=st.integers(1, 40), seed=st.integers(0, 999))
@examples(30)
def test_classes_are_judged_as_scikit_learn_does(classes, count, seed):
    p, truth = answers(count, classes, seed)
    found, notes = score_probabilities(p, truth, NAMES[:classes])
    hot = np.eye(classes, dtype=bool)[truth]
    assert notes == ()
    assert found["f1"] == pytest.approx(f1_score(truth, p.argmax(1), average="macro"))
    assert found["log loss"] == pytest.approx(log_loss(truth, p.numpy()))
    if classes == 2:
        assert found["auroc"] == pytest.approx(roc_auc_score(truth, p[:, 1]))
        assert found["auprc"] == pytest.approx(average_precision_score(truth, p[:, 1]))
    else:
        assert found["auroc"] == pytest.approx(roc_auc_score(truth, p.numpy(), multi_class="ovr"))
        assert found["auprc"] == pytest.approx(average_precision_score(hot, p.numpy(), average="macro"))


@given(labels=st.integers(1, 3), count=st.integers(4, 30), seed=st.integers(0, 999))
@examples(20)
def test_labels_are_judged_each_by_itself(labels, count, seed):
    random = torch.Generator().manual_seed(seed)
    p, truth = torch.rand(2, count, labels, generator=random).double()
    truth = (truth > 0.5).double()
    truth[0], truth[1] = 0.0, 1.0  # both occur
    found, notes = score_labels(p, truth, NAMES[:labels])
    each = [(truth[:, i].numpy(), p[:, i].numpy()) for i in range(labels)]
    assert notes == ()
    assert found["auroc"] == pytest.approx(np.mean([roc_auc_score(t, q) for t, q in each]))
    assert found["auprc"] == pytest.approx(np.mean([average_precision_score(t, q) for t, q in each]))
    assert found["f1"] == pytest.approx(np.mean([f1_score(t, q >= 0.5, zero_division=0) for t, q in each]))
    assert found["log loss"] == pytest.approx(np.mean([log_loss(t, q) for t, q in each]))
    assert found["accuracy"] == pytest.approx(100 * np.mean([(t == (q >= 0.5)).mean() for t, q in each]))


@given(count=st.integers(2, 20), width=st.integers(1, 3), seed=st.integers(0, 99))
@examples(20)
def test_numbers_are_judged_as_scikit_learn_does(count, width, seed):
    random = torch.Generator().manual_seed(seed)
    levels = (0.2, 0.5, 0.9)
    truth = torch.randn(count, width, generator=random) * 10
    quantiles = torch.randn(count, width, 3, generator=random).sort(-1).values * 10
    unit = torch.rand(width, generator=random) + 0.5
    found = score_quantities(quantiles.flatten(1), truth, unit, levels).metrics
    wanted = np.mean(
        [
            mean_pinball_loss(truth[:, i] / unit[i], quantiles[:, i, q] / unit[i], alpha=level)
            for i in range(width)
            for q, level in enumerate(levels)
        ]
    )
    assert found["quantile loss"] == pytest.approx(wanted, rel=1e-5)
    point = middle(quantiles.flatten(1), width, levels)
    assert torch.equal(point, quantiles[..., 1])
    assert found["r2"] == pytest.approx(r2_score(truth, point), rel=1e-4)
    assert found["raw mae"] == pytest.approx((truth - point).abs().mean().item(), rel=1e-5)
    one = score_quantities(point, truth, unit, ()).metrics
    assert one["quantile loss"] == pytest.approx(0.5 * ((truth - point).abs() / unit).mean().item(), rel=1e-5)


def test_calibration_is_that_of_a_plain_loop():
    random = np.random.default_rng(0)
    confidence, right = random.uniform(0, 1, 400), random.uniform(0, 1, 400) < 0.6
    total = 0.0
    for low in range(15):
        here = (confidence >= low / 15) & (confidence < (low + 1) / 15)
        if here.any():
            total += here.mean() * abs(confidence[here].mean() - right[here].mean())
    assert calibration_error(confidence, right) == pytest.approx(total)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0


def test_what_is_not_defined_is_nan_with_a_note():
    p, _ = answers(4, 2, 0)
    found, notes = score_probabilities(p, torch.zeros(6, dtype=torch.int64), NAMES[:2])
    assert math.isnan(found["auroc"])
    assert math.isnan(found["auprc"])
    assert math.isfinite(found["log loss"])
    assert notes == ("auroc, auprc: not defined, because 'b' is there always or never",)
    p, truth = answers(0, 3, 0)
    found, notes = score_probabilities(torch.cat([p, p], 1)[:, :4], truth, NAMES)
    assert math.isfinite(found["auroc"])
    assert notes == ("auroc, auprc: the mean over the others, because 'd' is there always or never",)
    found, notes = score_quantities(torch.zeros(2, 1), torch.ones(2, 1), torch.ones(1), ())
    assert math.isnan(found["r2"])
    assert notes == ("r2: the answers are all the same",)
    for judged in (
        score_probabilities(p * math.nan, truth, NAMES[:3]),
        score_labels(p * math.nan, (p > 0.5).float(), NAMES[:3]),
    ):
        assert all(math.isnan(value) for value in judged.metrics.values())
        assert judged.notes


def test_every_metric_that_can_be_chosen_is_computed():
    from nacre.data import from_arrays
    from nacre.train.evaluate import score

    x = [[float(i)] for i in range(6)]
    asked = {
        Kind.CLASSIFICATION: (list("abaabb"), 2),
        Kind.REGRESSION: ([0.5, 1.5, 2.5, 1.0, 0.0, 3.0], 1),
        Kind.MULTI_LABEL: ([[0, 1], [1, 0], [1, 1], [0, 0], [0, 1], [1, 0]], 2),
    }
    for kind, (y, width) in asked.items():
        data = from_arrays(x, y, kind=kind)
        outputs = torch.rand(6, width, dtype=torch.float64)
        found = score(data, torch.arange(6), outputs, torch.ones(width))
        assert {*METRICS_OF[kind]} <= {*found.metrics}, kind
        for name in METRICS_OF[kind]:
            assert metric_of(kind, name).higher_is_better == (name not in _LOWER)


_LOWER = {"log loss", "calibration error", "mse", "mae", "rmse", "raw rmse", "raw mae", "quantile loss"}


def test_a_metric_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="metric of regression must be one of 'mse', .*, got 'auroc'"):
        metric_of(Kind.REGRESSION, "auroc")
