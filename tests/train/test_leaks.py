"""Nothing of the test part reaches training: neither answers nor inputs, neither by scaler nor by split."""

import math
import os
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from nacre.data import from_arrays
from nacre.tasks.controls import create_control
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Profile, list_recipes, load_recipe
from nacre.tasks.task import load_task
from nacre.train.evaluate import outputs_of
from nacre.train.run_cell import run_cell
from support.datasets import hourly
from support.train import (
    MODEL,
    answers_of_part,
    cell,
    forecasts,
    gaps,
    irregular,
    outcome,
    result_of,
    spirals,
    steps_of_part,
    task_of,
    weights_of,
    with_data,
)

needs_data = pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs the data sets, in $NACRE_DATA")


WEEK = 7 * 24  # hours
NEW = [gaps, forecasts, irregular]  # answers relative to a guess, or to the last value and with a linear map


def run(task, out, model=MODEL, profile=Profile.QUICK):
    one = cell(task, out, model, profile=profile)
    run_cell(one)
    return one.directory


def permuted(rows):
    """The rows in another order, in which none is where it was."""
    return rows.roll(7)


def with_test_answers_permuted(task):
    rows = answers_of_part(task, "test")
    rows = rows[~task.data.y[rows].isnan().any(1)]  # those that are scored
    y = task.data.y.clone()
    y[rows] = task.data.y[permuted(rows)]
    return with_data(task, y=y)


def with_test_inputs_permuted(task):
    rows = steps_of_part(task, "test")
    values = task.data.values.clone()
    values[rows] = task.data.values[permuted(rows)]
    return with_data(task, values=values)


def labelled(*, shuffled=False):
    """Short noisy sequences around +1 or -1; which is the label, unless labels are shuffled."""
    random = np.random.default_rng(3)
    label = np.arange(300) % 2
    x = random.normal(np.where(label == 1, 1.0, -1.0)[:, None, None], 1.0, (300, 5, 1))
    y = random.permutation(label) if shuffled else label
    return task_of(from_arrays(x, y, name="labelled"), quick_steps=60, quick_valid=100, lr=0.02, batch_size=16)


def training_of(directory):
    """All that training leaves behind."""
    return weights_of(directory), (directory / "log.csv").read_text(), result_of(directory)["valid"]


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """The run of a task that nobody changed, which is made once."""

    @cache
    def made(make, model=MODEL, profile=Profile.QUICK):
        return run(make(), tmp_path_factory.mktemp("plain"), model, profile)

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "model", "change"),
    [
        (spirals, MODEL, with_test_answers_permuted),
        (spirals, "nac", with_test_inputs_permuted),
        pytest.param(spirals, MODEL, with_test_inputs_permuted, marks=pytest.mark.deep),
        pytest.param(spirals, "nac", with_test_answers_permuted, marks=pytest.mark.deep),
        *(
            (make, MODEL, change)
            for make in NEW
            for change in (with_test_answers_permuted, with_test_inputs_permuted)
        ),
    ],
)
def test_leak_permuting_the_test_part_changes_the_score_and_nothing_else(tmp_path, plain_run, make, model, change):
    profile = Profile.STANDARD if make in NEW else Profile.QUICK
    plain, changed = plain_run(make, model, profile), run(change(make()), tmp_path, model, profile)
    assert training_of(changed) == training_of(plain)
    assert result_of(changed)["value"] != result_of(plain)["value"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["majority", "linear", "time-only", MODEL])
def test_leak_swapping_the_test_classes_turns_right_into_wrong_and_changes_nothing_else(
    tmp_path, plain_run, model
):
    task = labelled()
    y = task.data.y.clone()
    y[task.splits[0].test] = 1 - y[task.splits[0].test]
    plain, swapped = result_of(plain_run(labelled, model)), result_of(run(with_data(task, y=y), tmp_path, model))
    assert swapped["valid"] == plain["valid"]
    assert swapped["value"] == pytest.approx(100 - plain["value"])


def test_leak_other_test_inputs_change_the_score_of_a_control_but_not_its_fit(tmp_path, plain_run):
    task = labelled()
    values, rows = task.data.values.clone(), steps_of_part(task, "test")
    values[rows] = -values[rows]
    plain = result_of(plain_run(labelled, "linear"))
    changed = result_of(run(with_data(task, values=values), tmp_path / "changed", "linear"))
    assert changed["valid"] == plain["valid"]
    assert plain["value"] > 90
    assert changed["value"] < 10


@pytest.mark.parametrize("make", [spirals, *(pytest.param(make, marks=pytest.mark.slow) for make in NEW)])
def test_leak_poisoned_test_inputs_reach_the_test_score_only(tmp_path, plain_run, make):
    task, profile = make(), Profile.STANDARD if make in NEW else Profile.QUICK
    values = task.data.values.clone()
    values[steps_of_part(task, "test")] = float("nan")
    plain = plain_run(make, MODEL, profile)
    poisoned = run(with_data(task, values=values), tmp_path, profile=profile)
    assert training_of(poisoned) == training_of(plain)
    assert result_of(poisoned)["value"] is None
    assert math.isfinite(result_of(poisoned)["valid"]["mse"])


def test_leak_the_unit_of_errors_does_not_come_from_test_answers(tmp_path, plain_run):
    task = spirals()
    y = task.data.y.clone()
    y[steps_of_part(task, "test")] *= 1000
    plain, larger = plain_run(spirals), run(with_data(task, y=y), tmp_path)
    assert result_of(larger)["valid"] == result_of(plain)["valid"]
    assert result_of(larger)["value"] > 1e4 * result_of(plain)["value"]


@pytest.mark.parametrize("fold", [0, 2])
@pytest.mark.parametrize("make", [spirals, *NEW])
def test_leak_the_scaler_sees_training_rows_only(make, fold):
    task = make()
    values, y = task.data.values.clone(), task.data.y.clone()
    for part in ("valid", "test"):
        values[steps_of_part(task, part, fold)] = float("nan")
        y[answers_of_part(task, part, fold)] = float("nan")
    plain, poisoned = task.network(MODEL, fold, 0), with_data(task, values=values, y=y).network(MODEL, fold, 0)
    assert plain.to_config() == poisoned.to_config()
    for name in ("shift", "scale", "y_shift", "y_scale"):
        assert getattr(plain, name).equal(getattr(poisoned, name))
        assert getattr(plain, name).isfinite().all()


@pytest.mark.parametrize("fold", [0, 2])
def test_the_scaler_takes_mean_and_spread_of_training_rows(fold):
    task = spirals()
    plain, rows = task.network(MODEL, fold, 0), steps_of_part(task, "train", fold)
    known = task.data.values[rows][~task.data.query_only[rows]]  # what asks tells nothing
    assert torch.allclose(plain.shift, known.mean(0), atol=1e-5)
    spread = known.std(0, correction=0)
    assert torch.allclose(plain.scale, spread.where(spread > 0, torch.tensor(1.0)), atol=1e-5)
    answers = task.data.y[rows][~task.data.y[rows].isnan().any(1)]
    assert torch.allclose(plain.y_shift, answers.mean(0), atol=1e-5)
    assert torch.allclose(plain.y_scale, answers.std(0, correction=0), atol=1e-5)


@pytest.mark.parametrize("make", [spirals, *NEW])
def test_leak_the_time_scale_comes_from_training_sequences_only(make):
    task = make()
    time = task.data.time.clone()
    for part in ("valid", "test"):
        time[steps_of_part(task, part)] *= 100
    networks = [one.network(MODEL, 0, 0).to_config() for one in (with_data(task, time=time), task)]
    assert networks[0] == networks[1]


@pytest.mark.parametrize("make", [gaps, irregular])
def test_leak_rows_that_nobody_sees_reach_answers_only(make):
    task, series = make(), hourly(42 if make is gaps else 8)
    data = task.data
    seen = data.time[data.values[:, data.features.index("seen")] == 1] if make is gaps else data.time
    hidden = ~np.isin(np.arange(len(series.values)), seen.long())  # hours are rows of the series
    values = np.where(hidden[:, None], 1e6 + np.arange(len(hidden))[:, None], series.values).astype(np.float32)
    other = make(replace(series, values=values))
    assert hidden.mean() > 0.4
    for name in ("values", "time", "start", "length", "group"):
        assert torch.equal(getattr(other.data, name), getattr(data, name)), name
    assert not torch.equal(other.data.y, data.y)
    network, changed = task.network(MODEL, 0, 0), other.network(MODEL, 0, 0)
    assert network.shift.equal(changed.shift)
    assert network.scale.equal(changed.scale)
    if make is irregular:
        torch.nn.init.normal_(network.window.linear.weight)  # it starts as zeros
    index = torch.arange(len(data))
    answers, again = (torch.cat(outputs_of(network, one, index)) for one in (data, other.data))
    assert answers.equal(again)
    control = create_control("interpolation" if make is gaps else "linear", data)
    control.fit(data, task.splits[0].train)
    assert control.predict(data, index).equal(control.predict(other.data, index))


@pytest.mark.slow
@pytest.mark.parametrize("make", [gaps, irregular])
def test_all_models_see_the_same_rows_in_the_same_order(tmp_path, monkeypatch, make):
    seen, forward = [], TaskNetwork.forward

    def watched(network, *batch, query_only=None):
        seen[-1].append(batch if query_only is None else (*batch, query_only))
        return forward(network, *batch, query_only=query_only)

    monkeypatch.setattr(TaskNetwork, "forward", watched)
    for model in (MODEL, "sdpa"):
        seen.append([])
        run(make(), tmp_path, model)
    assert len(seen[0]) > 12  # all steps, and what is scored
    for first, second in zip(*seen, strict=True):
        assert all(a.equal(b) for a, b in zip(first, second, strict=True))


@pytest.mark.slow
def test_leak_true_labels_are_learned_and_shuffled_ones_stay_at_chance(tmp_path, plain_run):
    learned, shuffled = result_of(plain_run(labelled)), result_of(run(labelled(shuffled=True), tmp_path))
    assert learned["metric"] == "accuracy"
    assert learned["value"] > 90
    assert learned["data"]["test"] == shuffled["data"]["test"] == 100
    assert abs(shuffled["value"] - 50) <= 3 * 100 * math.sqrt(0.25 / 100)  # binomial, in percent


def rows_used(data, index):
    """[N] bool: which rows some of these sequences use, as input or as answer."""
    used = torch.zeros(len(data.values) + 1, dtype=torch.int64)
    used.index_add_(0, data.start[index], torch.ones_like(index))
    used.index_add_(0, data.stop[index], -torch.ones_like(index))
    return used.cumsum(0)[:-1] > 0


def shipped():
    """Tasks with a split of their own; the two event-mnist share data and split."""
    marks = {"spiral": (), "event-mnist-11": (needs_data, pytest.mark.deep)}
    names = [name for name in list_recipes() if name == "bearings" or load_recipe(name).split.by != "auto"]
    return [pytest.param(name, marks=marks.get(name, (needs_data, pytest.mark.slow))) for name in names]


@pytest.mark.parametrize("name", shipped())
def test_leak_no_row_and_no_group_is_in_two_parts_of_a_shipped_task(name):
    task = load_task(load_recipe(name))
    data = task.data
    assert len(task.splits) == task.recipe.split.folds
    for split in task.splits:
        parts = (split.train, split.valid, split.test, split.transfer)
        used = torch.stack([rows_used(data, part) for part in parts])
        assert used.sum(0).max() == 1
        if task.recipe.split.by == "time":  # of one series: the test part comes after all else
            rest = torch.cat([split.train, split.valid])
            assert data.start[split.test].min() >= data.stop[rest].max()
            assert data.time[data.start[split.test]].min() > data.time[data.stop[rest] - 1].max()
        else:
            groups = [set(data.group[part].tolist()) for part in parts]
            assert sum(map(len, groups)) == len(set.union(*groups)) == len(data.groups)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ettm1-gaps", "jena-gaps"])
def test_leak_no_week_is_in_two_parts_of_a_fold_or_scored_twice(name):
    """By the clock: windows overlap, and each has rows of its own."""
    task = load_task(load_recipe(name))

    def weeks(index):
        return set((task.data.stamps(index) // WEEK).unique().tolist())

    scored = [weeks(split.test) for split in task.splits]
    assert sum(map(len, scored)) == len(set.union(*scored)) == len(task.data.groups)
    for split, test in zip(task.splits, scored, strict=True):
        train, valid = weeks(split.train), weeks(split.valid)
        assert len(train) + len(valid) + len(test) == len(train | valid | test) == len(task.data.groups)


@pytest.mark.parametrize("make", [spirals, *(pytest.param(make, marks=pytest.mark.slow) for make in NEW)])
def test_leak_two_runs_on_the_same_data_are_the_same(tmp_path, plain_run, make):
    # Or else the comparisons above would say nothing.
    profile = Profile.STANDARD if make in NEW else Profile.QUICK
    again = run(make(), tmp_path, profile=profile)
    assert outcome(again) == outcome(plain_run(make, MODEL, profile))
    budget = result_of(again)["budget"]
    assert (budget["profile"], budget["steps"]) == (profile, 20 if make in NEW else 12)
