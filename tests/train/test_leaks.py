"""Nothing of the test part reaches training: neither answers nor inputs, neither by scaler nor by split."""

import math
import os
from functools import cache

import numpy as np
import pytest
import torch

from nacre.data import from_arrays
from nacre.tasks.recipe import list_recipes, load_recipe
from nacre.tasks.task import load_task
from nacre.train.run_cell import run_cell
from support.train import (
    MODEL,
    cell,
    outcome,
    result_of,
    spirals,
    steps_of_part,
    task_of,
    weights_of,
    with_data,
)

needs_data = pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs the data sets, in $NACRE_DATA")


def run(task, out, model=MODEL):
    one = cell(task, out, model)
    run_cell(one)
    return one.directory


def permuted(rows):
    """The rows in another order, in which none is where it was."""
    return rows.roll(7)


def with_test_answers_permuted(task):
    rows = steps_of_part(task, "test")
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
    def made(make, model=MODEL):
        return run(make(), tmp_path_factory.mktemp("plain"), model)

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "change"),
    [
        (MODEL, with_test_answers_permuted),
        ("nac", with_test_inputs_permuted),
        pytest.param(MODEL, with_test_inputs_permuted, marks=pytest.mark.deep),
        pytest.param("nac", with_test_answers_permuted, marks=pytest.mark.deep),
    ],
)
def test_leak_permuting_the_test_part_changes_the_score_and_nothing_else(tmp_path, plain_run, change, model):
    plain, changed = plain_run(spirals, model), run(change(spirals()), tmp_path, model)
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


def test_leak_poisoned_test_inputs_reach_the_test_score_only(tmp_path, plain_run):
    task = spirals()
    values = task.data.values.clone()
    values[steps_of_part(task, "test")] = float("nan")
    plain, poisoned = plain_run(spirals), run(with_data(task, values=values), tmp_path)
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
def test_leak_the_scaler_sees_training_rows_only(fold):
    task = spirals()
    values, y = task.data.values.clone(), task.data.y.clone()
    for part in ("valid", "test"):
        rows = steps_of_part(task, part, fold)
        values[rows], y[rows] = float("nan"), float("nan")
    plain, poisoned = task.network(MODEL, fold, 0), with_data(task, values=values, y=y).network(MODEL, fold, 0)
    for name in ("shift", "scale", "y_shift", "y_scale"):
        assert getattr(plain, name).equal(getattr(poisoned, name))
    rows = steps_of_part(task, "train", fold)
    assert torch.allclose(plain.shift, task.data.values[rows].mean(0), atol=1e-5)
    assert torch.allclose(plain.scale, task.data.values[rows].std(0, correction=0), atol=1e-5)
    answers = task.data.y[rows][~task.data.y[rows].isnan().any(1)]
    assert torch.allclose(plain.y_shift, answers.mean(0), atol=1e-5)
    assert torch.allclose(plain.y_scale, answers.std(0, correction=0), atol=1e-5)


def test_leak_the_time_scale_comes_from_training_sequences_only():
    task = spirals()
    time = task.data.time.clone()
    for part in ("valid", "test"):
        time[steps_of_part(task, part)] *= 100
    assert with_data(task, time=time).network(MODEL, 0, 0).time_scale == task.network(MODEL, 0, 0).time_scale


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


def test_leak_two_runs_on_the_same_data_are_the_same(tmp_path, plain_run):
    # Or else the comparisons above would say nothing.
    assert outcome(run(spirals(), tmp_path)) == outcome(plain_run(spirals))
