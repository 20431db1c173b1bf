"""One trial of a search: what it is judged by, what stops it, and what it leaves."""

from dataclasses import replace

import numpy as np
import pytest

from nacre._util.locks import LockedElsewhere
from nacre.tasks.recipe import Profile
from nacre.train.run import CHECKPOINTS
from nacre.train.tuning import trial
from nacre.train.tuning.trial import Pruned, SearchContext, try_recipe
from support.train import MODEL, read_log, spirals, waves, with_data


def go_on(number, loss):
    return False


def context(tmp_path, **changes):
    return replace(SearchContext(spirals(quick_steps=12), MODEL, Profile.QUICK, 1, 0, tmp_path, {}), **changes)


def test_leak_the_test_part_decides_nothing(tmp_path):
    one = context(tmp_path / "one")
    y = one.task.data.y.clone()
    y[one.task.data.rows(one.task.splits[0].test)] = 1e6
    values = one.task.data.values.clone()
    values[one.task.data.rows(one.task.splits[0].test)] = -1e6
    other = context(tmp_path / "other", task=with_data(one.task, y=y, values=values))
    recipe = one.task.recipe
    assert try_recipe(one, recipe, go_on) == try_recipe(other, recipe, go_on)


@pytest.mark.slow
def test_a_recipe_is_judged_by_the_mean_of_the_best_rounds_of_its_folds(tmp_path):
    both = context(tmp_path, folds=2, task=waves(quick_steps=18, lr=0.3))  # too high: losses rise again
    recipe = both.task.recipe
    tried = try_recipe(both, recipe, go_on)
    losses = [[row["valid_loss"] for row in read_log(both.cell(recipe, f).directory)] for f in (0, 1)]
    best = [min(rounds) for rounds in losses]
    assert tried.value == pytest.approx(np.mean(best))
    assert best[0] != best[1]
    assert best != [rounds[-1] for rounds in losses]
    assert try_recipe(replace(both, folds=1, out=tmp_path / "b"), recipe, go_on).value == pytest.approx(best[0])


def test_rounds_are_told_in_order_of_the_first_fold_only(tmp_path):
    told = []
    one = context(tmp_path, folds=2)
    try_recipe(one, one.task.recipe, lambda number, loss: bool(told.append((number, loss))))
    log = read_log(one.cell(one.task.recipe, 0).directory)
    assert told == [(i, pytest.approx(row["valid_loss"])) for i, row in enumerate(log, 1)]
    again = []
    try_recipe(one, one.task.recipe, lambda number, loss: bool(again.append((number, loss))))
    assert again == told  # read, not trained


def test_a_trial_that_is_stopped_trains_no_further_and_leaves_no_checkpoint(tmp_path):
    one = context(tmp_path)
    with pytest.raises(Pruned):
        try_recipe(one, one.task.recipe, lambda number, loss: number == 2)
    directory = one.cell(one.task.recipe, 0).directory
    assert len(read_log(directory)) == 2
    assert not (directory / CHECKPOINTS).exists()
    assert not (directory / trial.TRIED).exists()


def test_a_trial_that_diverged_from_the_start_is_an_error(tmp_path):
    one = context(tmp_path, task=spirals(quick_steps=12))
    values = one.task.data.y * float("inf")
    one = replace(one, task=with_data(one.task, y=values))
    with pytest.raises(RuntimeError, match="diverged"):
        try_recipe(one, one.task.recipe, go_on)


def test_a_trial_at_work_elsewhere_is_left_alone(tmp_path):
    one = context(tmp_path)
    held = one.cell(one.task.recipe, 0)
    held.directory.mkdir(parents=True)
    with held.lock(), pytest.raises(LockedElsewhere):
        try_recipe(one, one.task.recipe, go_on)
