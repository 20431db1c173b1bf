"""Nothing of the test part reaches training: neither answers nor inputs, neither by scaler nor by split."""

import math
import os

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
    waves,
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
    return task_of(from_arrays(x, y, name="labelled"), quick_steps=120, quick_valid=100, lr=0.01, batch_size=16)


def training_of(directory):
    """All that training leaves behind."""
    return weights_of(directory), (directory / "log.csv").read_text(), result_of(directory)["valid"]


@pytest.mark.parametrize("model", ["nac", MODEL])
@pytest.mark.parametrize("change", [with_test_answers_permuted, with_test_inputs_permuted])
def test_leak_permuting_the_test_part_changes_the_score_and_nothing_else(tmp_path, change, model):
    task = spirals()
    plain, changed = run(task, tmp_path / "plain", model), run(change(task), tmp_path / "changed", model)
    assert training_of(changed) == training_of(plain)
    assert result_of(changed)["value"] != result_of(plain)["value"]


@pytest.mark.parametrize("model", ["majority", "linear", "time-only", MODEL])
def test_leak_swapping_the_test_classes_turns_right_into_wrong_and_changes_nothing_else(tmp_path, model):
    task = labelled()
    y = task.data.y.clone()
    y[task.splits[0].test] = 1 - y[task.splits[0].test]
    plain, swapped = (
        result_of(run(t, tmp_path / str(i), model)) for i, t in enumerate((task, with_data(task, y=y)))
    )
    assert swapped["valid"] == plain["valid"]
    assert swapped["value"] == pytest.approx(100 - plain["value"])


def test_leak_other_test_inputs_change_the_score_of_a_control_but_not_its_fit(tmp_path):
    task = labelled()
    values, rows = task.data.values.clone(), steps_of_part(task, "test")
    values[rows] = -values[rows]
    plain = result_of(run(task, tmp_path / "plain", "linear"))
    changed = result_of(run(with_data(task, values=values), tmp_path / "changed", "linear"))
    assert changed["valid"] == plain["valid"]
    assert plain["value"] > 90
    assert changed["value"] < 10


def test_leak_poisoned_test_inputs_reach_the_test_score_only(tmp_path):
    task = spirals()
    values = task.data.values.clone()
    values[steps_of_part(task, "test")] = float("nan")
    plain, poisoned = run(task, tmp_path / "plain"), run(with_data(task, values=values), tmp_path / "poisoned")
    assert training_of(poisoned) == training_of(plain)
    assert result_of(poisoned)["value"] is None
    assert math.isfinite(result_of(poisoned)["valid"]["mse"])


def test_leak_the_unit_of_errors_does_not_come_from_test_answers(tmp_path):
    task = spirals()
    y = task.data.y.clone()
    y[steps_of_part(task, "test")] *= 1000
    plain, larger = run(task, tmp_path / "plain"), run(with_data(task, y=y), tmp_path / "larger")
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


def test_leak_true_labels_are_learned_and_shuffled_ones_stay_at_chance(tmp_path):
    learned, shuffled = (result_of(run(labelled(shuffled=s), tmp_path / str(s))) for s in (False, True))
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


def shipped(*ways):
    names = [name for name in list_recipes() if load_recipe(name).split.by in ways]
    names += ["bearings"] * ("group" in ways)  # "auto", which is by group for them
    return [pytest.param(name, marks=() if name == "spiral" else needs_data) for name in names]


@pytest.mark.parametrize("name", shipped("group", "official", "time"))
def test_leak_no_row_is_in_two_parts_of_a_shipped_task(name):
    task = load_task(load_recipe(name))
    assert len(task.splits) == task.recipe.split.folds
    for split in task.splits:
        parts = (split.train, split.valid, split.test, split.transfer)
        used = torch.stack([rows_used(task.data, part) for part in parts])
        assert used.sum(0).max() == 1


@pytest.mark.parametrize("name", shipped("group", "official"))
def test_leak_no_group_is_in_two_parts_of_a_shipped_task(name):
    task = load_task(load_recipe(name))
    for split in task.splits:
        indices = (split.train, split.valid, split.test, split.transfer)
        parts = [set(task.data.group[part].tolist()) for part in indices]
        assert sum(map(len, parts)) == len(set.union(*parts)) == len(task.data.groups)


@pytest.mark.parametrize("name", shipped("time"))
def test_leak_the_test_part_of_a_shipped_series_comes_after_all_else(name):
    task = load_task(load_recipe(name))
    for split in task.splits:
        rest = torch.cat([split.train, split.valid])
        assert task.data.start[split.test].min() >= task.data.stop[rest].max()
        assert task.data.time[task.data.start[split.test]].min() > task.data.time[task.data.stop[rest] - 1].max()


def test_leak_two_runs_on_the_same_data_are_the_same(tmp_path):
    task = waves()  # or else the comparisons above would say nothing
    assert outcome(run(task, tmp_path / "a")) == outcome(run(task, tmp_path / "b"))
