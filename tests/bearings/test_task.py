"""Bearings from folds to results: controls, transfer to other rigs, and that nothing of either leaks."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.sets.bearings import load_bearings
from nacre.data.splits import Split, SplitBy, make_splits
from nacre.io import load
from nacre.tasks.controls import controls_for, create_control
from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task
from nacre.train.evaluate import predict
from nacre.train.run_cell import run_cell
from support.bearings import HOME, feature_table, feature_tables, write_tables
from support.datasets import sequences
from support.refused import refused
from support.train import MODEL, cell, outcome, read_log, result_of, spirals, task_of, weights_of, with_data

PARTS = ("PRONOSTIA", "PRONOSTIA conditions 2 and 3", "XJTU-SY", "HUST")


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Six bearings, 30 sequences each, three of them to train on."""
    folder = write_tables(tmp_path_factory.mktemp("bearings"), feature_tables())
    return task_of(load_bearings(folder, steps=3, average=1))


@pytest.fixture(scope="module")
def plain(task, tmp_path_factory):
    """The directory of a run."""
    return run(task, tmp_path_factory.mktemp("plain"))


def run(task, out, model=MODEL, fold=0):
    one = cell(task, out, model, fold=fold)
    with np.errstate(over="ignore"):  # the paper's score of an error of 1e6
        run_cell(one)
    return one.directory


def fitted(name, task, fold=0):
    control = create_control(name, task.data)
    control.fit(task.data, task.splits[fold].train)
    return control


# --- controls -----------------------------------------------------------------------------------------------


def test_linear_rms_is_a_ridge_on_the_last_row(task):
    data, everyone = task.data, torch.arange(len(task.data))
    columns = [data.features.index(f"{axis} log rms") for axis in ("horizontal", "vertical")]

    def strength(index):
        return np.stack([data.values[int(data.start[i] + 2), columns].double().numpy() for i in index])

    for fold, split in enumerate(task.splits):
        x, y = strength(split.train), data.y[split.train].double().numpy()
        mean, spread = x.mean(0), x.std(0)
        # A penalty of 1 on each weight of a standardised column: one more equation, which says that it is 0.
        left = np.concatenate([np.eye(2), (x - mean) / spread])
        weight = np.linalg.lstsq(left, np.concatenate([np.zeros((2, 1)), y - y.mean()]))[0]
        wanted = (strength(everyone) - mean) / spread @ weight + y.mean()
        control = fitted("linear-rms", task, fold)
        np.testing.assert_allclose(control.predict(data, everyone), wanted, rtol=1e-5, err_msg=f"fold {fold}")
        assert control.parameters == 3
        assert wanted.std() > 1e-3


def test_life_clock_knows_the_answers_of_all_lives(task):
    data = task.data
    control = fitted("life-clock", task)
    lives = torch.from_numpy(np.isfinite(data.metrics.life)).nonzero().squeeze(1).flip(0)
    assert torch.allclose(control.predict(data, lives), data.y[lives])
    assert control.predict(data, torch.arange(len(data))).max() == 1  # the end of HUST's recording
    assert control.parameters == 0


def test_controls_of_bearings_are_for_bearings(task):
    own = {"linear-rms", "life-clock"}
    assert own <= set(controls_for(task.data))
    assert own.isdisjoint(controls_for(spirals().data))
    assert own & set(controls_for(replace(task.data, metrics=None))) == {"linear-rms"}
    unnamed = replace(task.data, features=tuple(map(str, range(16))))
    assert own & set(controls_for(unnamed)) == {"life-clock"}


# --- folds --------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=12, max_size=60), st.integers(3, 4))
def test_leak_groups_of_other_machines_are_only_ever_transfer(drawn, folds):
    group = [2 * number + away for number, away in drawn]  # odd ones are of other machines
    home = {number for number in group if number % 2 == 0}
    transfer = torch.tensor([away for _, away in drawn])
    data = replace(sequences(group), transfer=transfer)
    if len(home) < folds:
        with pytest.raises(ValueError, match=f"folds must be 3 to {len(home)}"):
            make_splits(data, SplitBy.GROUP, folds)
        return
    splits = make_splits(data, SplitBy.GROUP, folds)
    alone = make_splits(sequences([number for number in group if number % 2 == 0]), SplitBy.GROUP, folds)
    at_home = (~transfer).nonzero().squeeze(1)
    for split, without in zip(splits, alone, strict=True):
        for part in ("train", "valid", "test"):  # as if there were no other machines
            assert getattr(split, part).equal(at_home[getattr(without, part)])
        assert split.transfer.tolist() == transfer.nonzero().squeeze(1).tolist()
    assert torch.cat([split.test for split in splits]).sort().values.equal(at_home)


def test_leak_other_machines_are_kept_apart_by_group_and_other_splits_are_refused(task):
    data = replace(task.data, test=task.data.group == 1)
    for by in set(SplitBy) - {SplitBy.GROUP}:
        with refused(f"only a split by 'group' keeps apart, got <SplitBy.*{by}"):
            make_splits(data, by, 3)
    for split in make_splits(data, SplitBy.GROUP, 3):
        assert not data.transfer[torch.cat([split.train, split.valid, split.test])].any()
        assert split.transfer.equal(data.transfer.nonzero().squeeze(1))


def test_without_other_machines_the_digest_of_a_split_is_what_it_was(task):
    split = task.splits[0]
    old = hashlib.sha256()
    for part in (split.train, split.valid, split.test):
        old.update(len(part).to_bytes(8, "little") + part.numpy().tobytes())
    assert Split(split.train, split.valid, split.test).digest == old.hexdigest()
    assert len({old.hexdigest(), split.digest, replace(split, transfer=split.transfer[1:]).digest}) == 3
    nobody = replace(task.data, transfer=torch.zeros_like(task.data.transfer))
    unknown = replace(task.data, transfer=None)
    both = [[each.digest for each in make_splits(data, SplitBy.GROUP, 3)] for data in (nobody, unknown)]
    assert both[0] == both[1]


# --- runs ---------------------------------------------------------------------------------------------------


def test_a_run_tells_the_metrics_of_every_rig(task, plain):
    data, split = task.data, task.splits[0]
    result, network = result_of(plain), load(plain / "model")
    everything = torch.cat([split.transfer, split.test])
    wanted = data.metrics.of(everything, predict(network, data, everything), data.y[everything])
    shared = ("score", "mae", "monotonicity", "trendability")
    names = {f"{name} {part}" for name in shared for part in PARTS} | {f"phm {part}" for part in PARTS[:3]}
    assert wanted.keys() == names
    assert {name: result["metrics"][name] for name in names} == pytest.approx(wanted, rel=1e-4)
    error = predict(network, data, split.test) - data.y[split.test]
    unit = data.y[torch.cat([split.train, split.valid])].std(correction=0)
    assert result["value"] == pytest.approx(float((error / unit).square().mean()), rel=1e-4)  # of the test part


def test_a_control_tells_the_metrics_of_every_rig(task, tmp_path):
    data, split = task.data, task.splits[1]
    everything = torch.cat([split.test, split.transfer])
    for name in ("linear-rms", "life-clock"):
        metrics = result_of(run(task, tmp_path, name, fold=1))["metrics"]
        answers = fitted(name, task, 1).predict(data, everything)
        wanted = data.metrics.of(everything, answers, data.y[everything])
        assert {key: metrics[key] for key in wanted} == pytest.approx(wanted, rel=1e-6, abs=1e-9), name
    assert [metrics[f"phm {part}"] for part in PARTS[:3]] == pytest.approx([1] * 3, abs=1e-4)  # of the clock


def test_without_own_metrics_a_run_tells_only_what_all_runs_do(task, plain, tmp_path):
    bare = run(with_data(task, metrics=None), tmp_path)
    metrics = result_of(plain)["metrics"]
    shared = {name: value for name, value in metrics.items() if not name.endswith(PARTS)}
    assert result_of(bare)["metrics"] == shared
    assert "mse" in shared
    assert weights_of(bare) == weights_of(plain)


def test_the_shipped_recipe_scores_seven_bearings_and_transfers_to_the_rest(tmp_path):
    some = [feature_table("pronostia", f"Bearing1_{i}", (2,) * 34) for i in range(1, 8)]
    others = [feature_table(rig, "Bearing3_1", (2,) * 33) for rig in ("pronostia", "xjtu-sy")]
    task = load_task(load_recipe("bearings"), write_tables(tmp_path, [*some, *others]))
    assert [len(split.test) for split in task.splits] == [3] * 7
    assert all(len(split.transfer) == 4 for split in task.splits)
    scored = [task.data.groups[int(task.data.group[split.test[0]])] for split in task.splits]
    assert scored == [f"pronostia {each.name}" for each in some]


# --- leaks --------------------------------------------------------------------------------------------------


def poison(rows, index, values, y):
    values[rows], y[index] = 1e6, 1e6


def permute(rows, index, values, y):
    values[rows], y[index] = values[rows.roll(7)], y[index.roll(7)]


@pytest.mark.parametrize("change", [poison, permute])
def test_leak_what_is_scored_reaches_neither_weights_nor_scaler(task, plain, tmp_path, change):
    split = task.splits[0]
    values, y = task.data.values.clone(), task.data.y.clone()
    for index in (split.test, split.transfer):
        change(task.data.rows(index), index, values, y)
    other = with_data(task, values=values, y=y)
    changed = run(other, tmp_path / "changed")
    lines = [run(each, tmp_path / name, "linear-rms") for name, each in (("plain", task), ("changed", other))]
    for before, after in (map(result_of, pair) for pair in ((plain, changed), lines)):
        assert after["valid"] == before["valid"], before["model"]
        for part in PARTS:
            assert after["metrics"][f"mae {part}"] != before["metrics"][f"mae {part}"], (before["model"], part)
    answers = [fitted("linear-rms", each).predict(task.data, split.train) for each in (task, other)]
    assert answers[0].equal(answers[1])
    assert weights_of(changed) == weights_of(plain)  # the scaler is among them
    assert read_log(changed) == read_log(plain)
    networks = [load(directory / "model") for directory in (plain, changed)]
    for name in ("shift", "scale", "y_shift", "y_scale"):
        assert getattr(networks[0], name).equal(getattr(networks[1], name)), name
    assert networks[0].shift.abs().max() < 10


def test_leak_no_row_of_a_scored_bearing_trains_or_validates(task):
    data = task.data
    bearing = np.repeat(np.arange(6), 32)  # of each row: 32 windows each, in the order of the groups
    home = [data.groups.index(f"{rig} {name}") for rig, name in HOME]
    for split in task.splits:
        seen, scored = (
            {int(bearing[int(data.start[i]) + step]) for part in parts for i in part for step in range(3)}
            for parts in ((split.train, split.valid), (split.test, split.transfer))
        )
        assert seen.isdisjoint(scored)
        assert seen | scored == set(range(6))
        assert seen < set(home)


def test_leak_rows_are_the_same_in_whatever_order_windows_come(task, tmp_path):
    """A row says nothing of where in a life it was measured."""
    random = np.random.default_rng(0)
    orders = [random.permutation(32) for _ in range(6)]
    some = [replace(each, values=each.values[order]) for each, order in zip(feature_tables(), orders, strict=True)]
    data = load_bearings(write_tables(tmp_path, some), steps=3, average=1)
    rows = np.concatenate([32 * i + order for i, order in enumerate(orders)])
    assert data.values.equal(task.data.values[torch.from_numpy(rows)])
    assert data.time.equal(task.data.time)
    assert data.y.equal(task.data.y)


def test_leak_when_a_recording_began_is_no_input(task, plain, tmp_path):
    """Stamps are multiples of 1/256 s, or of 1/512 s: sums with whole numbers have no rounding."""
    some = [replace(each, seconds=each.seconds + 2.0**20) for each in feature_tables()]
    data = load_bearings(write_tables(tmp_path, some), steps=3, average=1)
    everyone = torch.arange(len(data))
    assert data.values.equal(task.data.values)
    assert data.batch(everyone).x.equal(task.data.batch(everyone).x)
    assert not data.y.equal(task.data.y)
    for model in (MODEL, "nac", "sdpa"):
        network = load(plain / "model") if model == MODEL else task.network(model, 0, 0)
        assert predict(network, data, everyone).equal(predict(network, task.data, everyone))
    lines = [fitted("linear-rms", task).predict(each, everyone) for each in (data, task.data)]
    assert lines[0].equal(lines[1])


def test_leak_the_clock_reads_metrics_and_never_what_networks_see(task):
    everyone = torch.arange(len(task.data))
    clock = fitted("life-clock", task)
    wanted = clock.predict(task.data, everyone)
    blind = with_data(task, values=torch.randn_like(task.data.values), time=torch.zeros_like(task.data.time)).data
    assert clock.predict(blind, everyone).equal(wanted)
    late = replace(task.data.metrics, seconds=task.data.metrics.seconds + 50)
    assert not clock.predict(replace(task.data, metrics=late), everyone).equal(wanted)
    line = fitted("linear-rms", task)
    assert line.predict(replace(task.data, metrics=late), everyone).equal(line.predict(task.data, everyone))


def test_leak_two_runs_on_bearings_are_the_same(task, plain, tmp_path):
    assert outcome(run(task, tmp_path)) == outcome(plain)  # or else the comparisons above would say nothing
