"""Trivial controls: what all of them promise, and those that need no features."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import UNSCORED, Kind, is_scored
from nacre.tasks.controls import CONTROLS, controls_for, create_control
from nacre.tasks.controls import features as control_features
from nacre.tasks.metrics import answers_of, steps_of
from support.controls import example, fitted, halves, ragged, series, walk
from support.hypothesis import examples

KINDS = list(Kind)
EXPECTED = {
    Kind.CLASSIFICATION: ["majority", "linear", "time-only"],
    Kind.STEP_CLASSIFICATION: ["majority", "linear", "time-only"],
    Kind.REGRESSION: ["mean", "linear", "time-only"],
    Kind.STEP_REGRESSION: ["mean", "persistence", "linear", "time-only"],
    Kind.FORECASTING: ["mean", "persistence", "linear", "time-only"],
    Kind.MULTI_LABEL: ["mean", "linear", "time-only"],
}
PAIRS = [(kind, name) for kind, names in EXPECTED.items() for name in names]


# --- answers ------------------------------------------------------------------------------------------------


@given(st.sampled_from(KINDS), st.integers(0, 50), st.lists(st.integers(0, 19), min_size=1, max_size=12))
@examples(75)
def test_answers_are_the_scored_ones_of_a_batch_in_its_order(kind, seed, order):
    data = series(walk(27)) if kind is Kind.FORECASTING else ragged(kind, seed, n=20)
    index = torch.tensor(order)  # any order, some twice
    batch = data.batch(index)
    mask = is_scored(batch.y, kind)
    assert mask.shape == batch.y.shape[: 2 if kind.each_step else 1]
    assert torch.equal(answers_of(data, index), batch.y[mask])


def test_steps_of_sequences_in_any_order():
    data = ragged(Kind.STEP_REGRESSION)
    row, first = steps_of(data, torch.tensor([3, 1]))
    expected = [
        (s + i, s) for s, n in ((int(data.start[j]), int(data.length[j])) for j in (3, 1)) for i in range(n)
    ]
    assert list(zip(row.tolist(), first.tolist(), strict=True)) == expected


# --- all of them --------------------------------------------------------------------------------------------


def test_which_controls_a_kind_has():
    assert {kind: controls_for(example(kind)) for kind in KINDS} == EXPECTED


@cache
def trained(kind, name):
    """A data set, the part to predict, a control that is fitted to the other one, and its predictions."""
    data = example(kind)
    train, test = halves(data)
    control = fitted(name, data, train)
    return data, test, control, control.predict(data, test)


def test_one_output_for_each_scored_answer_and_the_same_each_time():
    for kind, name in PAIRS:
        data, test, first, outputs = trained(kind, name)
        second = fitted(name, data, halves(data)[0])
        assert outputs.shape == (len(answers_of(data, test)), data.outputs), (kind, name)
        assert outputs.dtype == torch.float32, (kind, name)
        assert outputs.isfinite().all(), (kind, name)
        assert torch.equal(outputs, second.predict(data, test)), (kind, name)
        assert first.parameters == second.parameters, (kind, name)
        if kind.has_classes:
            torch.testing.assert_close(outputs.sum(1), torch.ones(len(outputs)))


def test_only_training_sequences_are_learned_from():
    for kind, name in PAIRS:
        data = example(kind)
        train, test = torch.arange(40), torch.arange(50, len(data))
        rows = torch.arange(len(data.values)) >= data.stop[:40].max()  # rows that no training sequence uses
        answers = rows if kind.each_step else torch.arange(len(data)) >= 40
        values, y, time = data.values.clone(), data.y.clone(), data.time.clone()
        values[rows] = values[rows].flip(0) * 100 + 7
        y[answers] = 0 if kind.has_classes else 1e6
        time[rows] += 1e4
        changed = dataclasses.replace(data, values=values, y=y, time=time)
        before, after = fitted(name, data, train), fitted(name, changed, train)
        assert torch.equal(before.predict(data, test), after.predict(data, test)), (kind, name)
        assert before.parameters == after.parameters, (kind, name)


def test_predictions_do_not_depend_on_the_order_of_the_index():
    for kind, name in PAIRS:
        data, test, control, _ = trained(kind, name)
        index = test.flip(0)[:15]
        apart = torch.cat([control.predict(data, one) for one in index.split(1)])
        assert torch.allclose(control.predict(data, index), apart, rtol=1e-5, atol=1e-5), (kind, name)


def test_predictions_do_not_read_the_true_answers():
    for kind, name in PAIRS:
        data, test, control, outputs = trained(kind, name)
        y = data.y.clone()
        keep = y != UNSCORED if kind.has_classes else ~y.isnan()  # what is scored stays scored
        y[keep] = 2 if kind.has_classes else -5.0
        changed = dataclasses.replace(data, y=y)
        assert torch.equal(outputs, control.predict(changed, test)), (kind, name)


def test_small_chunks_give_the_same_as_one(monkeypatch):
    for kind, name in PAIRS:
        data, test, _, once = trained(kind, name)
        train = halves(data)[0]
        assert len(control_features.chunks(data, train)) == 1
        with monkeypatch.context() as patch:
            patch.setattr(control_features, "CHUNK_VALUES", 100)
            assert len(control_features.chunks(data, train)) > 3
            chunked = fitted(name, data, train).predict(data, test)
        assert torch.allclose(once, chunked, rtol=1e-5, atol=1e-5), (kind, name)


def test_too_many_answers_are_drawn_from_with_their_features(monkeypatch):
    data = ragged(Kind.STEP_CLASSIFICATION)
    index = torch.arange(len(data))
    x, y = control_features.training_table(data, index, control_features.inputs_of)
    monkeypatch.setattr(control_features, "ROWS", 50)
    monkeypatch.setattr(control_features, "CHUNK_VALUES", 100)
    part_x, part_y = control_features.training_table(data, index, control_features.inputs_of)
    assert len(part_x) == len(part_y) == 50 < len(x)
    where = [(x == row).all(1).nonzero().item() for row in part_x]
    assert where == sorted(where)
    assert torch.equal(y[where], part_y)


# --- majority, mean -----------------------------------------------------------------------------------------


@given(st.sampled_from([Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION]), st.integers(0, 1000))
@examples(30)
def test_majority_is_the_most_frequent_class(kind, seed):
    data = ragged(kind, seed)
    train, test = halves(data)
    counts = np.bincount(answers_of(data, train).numpy(), minlength=3)
    outputs = fitted("majority", data, train).predict(data, test)
    assert set(outputs.argmax(1).tolist()) == {int(counts.argmax())}  # numpy's argmax is the first of equals


def test_of_equally_frequent_classes_the_first_wins_whatever_their_order():
    data = ragged(Kind.CLASSIFICATION, n=6)
    for y in ([2, 1, 2, 1, 0, UNSCORED], [1, 2, 0, 1, UNSCORED, 2]):
        even = dataclasses.replace(data, y=torch.tensor(y))
        control = fitted("majority", even, torch.arange(6))
        assert control.predict(even, torch.tensor([0]))[0].tolist() == pytest.approx([0.2, 0.4, 0.4])
        assert control.predict(even, torch.tensor([0])).argmax() == 1
        assert control.parameters == 1


def test_a_step_in_two_windows_counts_once():
    data = ragged(Kind.STEP_CLASSIFICATION, n=1)
    windows = dataclasses.replace(
        data,
        values=torch.zeros(5, 3),
        time=torch.arange(5.0).double(),
        y=torch.tensor([0, 0, 1, 1, 0]),
        start=torch.tensor([0, 1, 2]),
        length=torch.tensor([4, 3, 3]),
        group=torch.zeros(3, dtype=torch.int64),
    )
    assert answers_of(windows, torch.arange(3)).bincount().tolist() == [4, 6]
    assert fitted("majority", windows, torch.arange(3)).predict(windows, torch.tensor([0])).argmax(1)[0] == 0


@pytest.mark.parametrize("kind", [Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.FORECASTING])
def test_mean_is_the_mean_of_training_answers(kind):
    data = example(kind)
    train, test = halves(data)
    control = fitted("mean", data, train)
    expected = answers_of(data, train).numpy().astype(float).mean(0)
    np.testing.assert_allclose(control.predict(data, test)[0], expected, rtol=1e-6)
    assert control.parameters == data.outputs


# --- persistence --------------------------------------------------------------------------------------------


def test_persistence_repeats_the_last_value_of_the_target():
    data = series(walk(50, features=3), target=1)
    control = fitted("persistence", data, torch.arange(10))
    outputs = control.predict(data, torch.tensor([0, 7]))
    assert torch.equal(outputs, torch.stack([data.values[4, 1], data.values[11, 1]]).unsqueeze(1).repeat(1, 3))
    assert control.parameters == 0


@given(seed=st.integers(0, 1000))
@examples(25)
def test_persistence_holds_what_was_last_seen_in_the_same_sequence(seed):
    data = ragged(Kind.STEP_REGRESSION, seed, n=20)
    train, test = torch.arange(10), torch.tensor([15, 3, 12, 19, 11, 0])
    y = data.y[: int(data.start[10])].double().numpy()
    mean = y[~np.isnan(y).any(1)].mean(0)
    expected = []
    for i in test.tolist():
        held = mean
        for row in range(int(data.start[i]), int(data.start[i] + data.length[i])):
            if data.values[row, 2] == 1:
                held = data.values[row, :2].numpy()
            if not data.y[row].isnan().any():
                expected.append(held)
    control = fitted("persistence", data, train)
    np.testing.assert_allclose(control.predict(data, test), np.reshape(expected, (-1, 2)), rtol=1e-5, atol=1e-7)
    assert control.parameters == 2


def test_persistence_finds_targets_by_name():
    data = ragged(Kind.STEP_REGRESSION, n=20)
    swapped = dataclasses.replace(data, values=data.values[:, [2, 1, 0]], features=("seen", "y", "x"))
    index = torch.arange(20)
    one, other = (fitted("persistence", d, index).predict(d, index) for d in (data, swapped))
    assert torch.equal(one, other)


@pytest.mark.parametrize("features", [("x", "y", "flag"), ("x", "z", "seen")])
def test_persistence_is_not_for_steps_whose_past_is_not_an_input(features):
    data = dataclasses.replace(ragged(Kind.STEP_REGRESSION), features=features)
    assert controls_for(data) == ["mean", "linear", "time-only"]


# --- bad input ----------------------------------------------------------------------------------------------


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(ValueError, match="did you mean 'persistence'"):
        create_control("persistance", ragged(Kind.REGRESSION))


def test_a_control_of_another_kind_says_which_there_are():
    with pytest.raises(
        ValueError, match="'majority' .* 'ragged', which is regression; use one of 'mean', 'linear', "
    ):
        create_control("majority", ragged(Kind.REGRESSION))
    with pytest.raises(ValueError, match="'majority' cannot be fitted on 'ragged'"):
        CONTROLS["majority"]().fit(ragged(Kind.REGRESSION), torch.arange(3))


def test_predicting_before_fitting_is_refused():
    data = ragged(Kind.REGRESSION)
    with pytest.raises(RuntimeError, match=r"call fit\(data, train\) before"):
        create_control("mean", data).predict(data, torch.arange(3))


def test_other_columns_than_fitted_on_are_refused():
    data = ragged(Kind.REGRESSION)
    other = dataclasses.replace(data, features=("x", "y", "z"))
    with pytest.raises(ValueError, match="'linear' was fitted on other columns"):
        fitted("linear", data, torch.arange(30)).predict(other, torch.arange(3))


def test_masks_and_empty_indices_are_refused():
    data = ragged(Kind.REGRESSION)
    control = create_control("mean", data)
    with pytest.raises(TypeError, match="train must be a 1-d int64 tensor .* torch.bool"):
        control.fit(data, torch.ones(60, dtype=torch.bool))
    with pytest.raises(ValueError, match="train is empty"):
        control.fit(data, torch.arange(0))


def test_training_without_answers_is_refused():
    data = ragged(Kind.REGRESSION)
    data.y[:5] = float("nan")
    with pytest.raises(ValueError, match="none of the 5 training sequences has an answer"):
        fitted("mean", data, torch.arange(5))


def test_sequences_without_scored_answers_give_no_rows():
    for kind, name in PAIRS:
        data = example(kind)
        data.y[int(data.start[7]) if kind.each_step else 7] = UNSCORED if kind.has_classes else float("nan")
        if kind.each_step:
            data.length[7] = 1
        outputs = fitted(name, data, torch.arange(40)).predict(data, torch.tensor([7]))
        assert outputs.shape == (0, data.outputs), (kind, name)
