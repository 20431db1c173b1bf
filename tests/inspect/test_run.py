"""Recordings of trained runs: what the network answers in one is what it answers anywhere else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nacre import NAC
from nacre.data.dataset import UNSCORED
from nacre.data.splits import spread
from nacre.inspect import Lesion, Recording
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording import run as inspect_run
from nacre.inspect.recording.layer_writer import PAIR_GATES, SENSORY
from nacre.inspect.recording.run import load_subject, record_run
from nacre.io import load, save
from nacre.layer.trace import BACKBONE
from nacre.tasks.controls import controls_for
from nacre.tasks.metrics import answers_of
from nacre.tasks.recipe import load_recipe, to_toml
from nacre.tasks.task import load_task
from nacre.train.evaluate import outputs_of, predict, score
from nacre.train.run_cell import run_cell
from support.inspect import NAC_LAYER, layer_call
from support.runs import fields
from support.train import cell, spirals

DATA = {
    "classification": 'time = "when", group = "who", target = "speed", features = ["value"]',
    "step-classification": 'time = "when", group = "who", target = "up", features = ["value", "level"]',
    "regression": 'time = "when", group = "who", target = ["level", "value2"], kind = "regression"',
    "step-regression": 'time = "when", group = "who", target = ["next", "level"], kind = "step-regression"',
    "forecasting": 'time = "when", group = "who", target = "value", lookback = 6, horizon = 3',
}


def table(people=12, seed=3):
    """Oscillations of 10 to 24 steps at irregular times."""
    random = np.random.default_rng(seed)
    lines = ["who,when,value,up,next,level,value2,speed"]
    for number in range(people):
        stamps = 1000 + random.uniform(0.1, 0.9, random.integers(10, 25)).cumsum().round(3)
        level = random.normal()
        for when in stamps:
            value = np.sin((1 + 3 * (number % 2)) * when)
            up, after = "yes" if value > 0 else "no", f"{value + level:.5f}"
            speed = "fast" if number % 2 else "slow"
            lines.append(f"p{number:02},{when},{value:.5f},{up},{after},{level:.5f},{level**2:.5f},{speed}")
    return "\n".join(lines) + "\n"


def write_run(place: Path, kind: str, model="nac", options="", network="") -> Path:
    """A run on a table, with a network that was never trained."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "table.csv").write_text(table())
    text = f'data = {{ csv = "{place / "table.csv"}", {DATA[kind]} }}\nsplit = {{ by = "group", folds = 3 }}\n'
    text += f"network = {{ d_model = 8, num_heads = 2{network} }}\n[models.nac]\n{options}\n"
    (place / "my.toml").write_text(text)
    recipe = load_recipe(place / "my.toml")
    task, run = load_task(recipe), place / "run"
    run.mkdir()
    save(task.network(model, 1, 0), run / "model")
    (run / "recipe.toml").write_text(to_toml(recipe))
    (run / "result.json").write_text(json.dumps(fields(model, 1, task="my")))
    return run


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=() if kind == "classification" else pytest.mark.slow) for kind in DATA],
)
def run_of(request, tmp_path_factory):
    """A run of each kind, its recording and what it was made of."""
    place = tmp_path_factory.mktemp("run")
    conv = ", conv = [[6, 3, 2]]" if request.param == "regression" else ", dense = [5]"
    run = write_run(place, request.param, network=conv)
    recording = record_run(run, 3, detail="pairs")
    task = load_task(load_recipe(run / "recipe.toml"))
    return run, recording, task, load(run / "model").eval()


def same(a, b) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


def one_by_one(network, data, index):
    """What a network gives for each sequence alone: products of larger matrices have other last bits."""
    parts = [outputs_of(network, data, index[i : i + 1])[0] for i in range(len(index))]
    for part, among in zip(parts, outputs_of(network, data, index), strict=True):
        torch.testing.assert_close(part, among, atol=1e-5, rtol=1e-5)
    return parts


# Sequences


def test_answers_in_a_recording_are_those_that_are_scored(run_of):
    run, recording, task, network = run_of
    index = spread(task.splits[1].test, 3)
    assert recording.path == run / "inspect"
    assert recording.samples == 3
    for sample, out in enumerate(one_by_one(network, task.data, index)):
        if task.data.kind.each_step:
            assert recording.length("output", sample) == len(out)
            assert same(recording.array("output")[sample, : len(out)], out)
            assert not recording.has("answer")
        else:
            assert same(recording.array("answer")[sample], out)
        batch = task.data.batch(index[sample : sample + 1])
        length = recording.length("x", sample)
        assert length == task.data.length[index[sample]]
        assert same(recording.array("x")[sample, :length], batch.x[0])
        assert same(recording.array("time")[sample, :length], batch.time[0].double())
        assert not np.asarray(recording.array("x")[sample, length:]).any()


def test_the_layer_in_a_recording_is_the_layer(run_of):
    _, recording, task, network = run_of
    index = spread(task.splits[1].test, 3)
    layer = recording.layers[NAC_LAYER]
    assert list(recording.layers) == [NAC_LAYER]
    for sample in range(3):
        batch = task.data.batch(index[sample : sample + 1])
        given = network.tokens(batch.x, batch.time, batch.key_padding_mask, query_only=batch.query_only)
        tokens, time = given.x, given.time
        with torch.no_grad():
            nac, call = layer_call(network, *given)
            _, trace = nac(**call, return_trace=True)
        length = tokens.shape[1]
        assert layer.length(sample) == recording.length("output", sample) == length
        assert same(layer.time(sample), time[0].double())
        for name in (*PAIR_GATES, *BACKBONE, *SENSORY, "index", "valid"):
            want = getattr(trace, name)
            if want is None:
                assert not layer.has(name)
            else:
                assert same(layer.array(name)[sample, :length], want[0].transpose(0, 1)), name
                assert not np.asarray(layer.array(name)[sample, length:]).any()


def test_where_a_network_answers_once_its_curve_is_what_it_reads_of_each_state(run_of):
    _, recording, task, network = run_of
    if task.data.kind.each_step:
        assert not recording.about.once
        return
    assert recording.about.once
    index = spread(task.splits[1].test, 3)
    for sample in range(3):
        batch = task.data.batch(index[sample : sample + 1])
        tokens, time, padding, base, _ = network.tokens(batch.x, batch.time, batch.key_padding_mask)
        with torch.no_grad():
            states = network.layer(tokens, time=time, key_padding_mask=padding)
            want = network.answer(states, None if base is None else base.unsqueeze(1))[0]
        assert same(recording.array("output")[sample, : len(want)], want)


def test_truth_is_the_datas_own(run_of):
    _, recording, task, _ = run_of
    index, data = spread(task.splits[1].test, 3), task.data
    truth = recording.array("truth")
    assert truth.dtype == (np.int64 if data.kind.has_classes else np.float32)
    for sample in range(3):
        want = data.batch(index[sample : sample + 1]).y[0]
        got = np.asarray(truth[sample])
        if not data.kind.each_step:
            assert len(got) == 1
            got = got[0]
        else:
            got = got[: len(want)]
        np.testing.assert_array_equal(got, want.numpy())


def test_a_recording_of_a_run_says_what_it_is_of(run_of):
    _, recording, task, _ = run_of
    about, data = recording.about, task.data
    assert about.name == "my, nac, fold 1, seed 0"
    groups = [data.groups[g] for g in data.group[spread(task.splits[1].test, 3)]]
    assert [name.split(",")[0] for name in about.samples] == groups
    assert about.features == data.features
    assert about.outputs == (data.classes or data.targets)
    assert about.classes == data.kind.has_classes
    assert (about.metric, about.better) == (("accuracy", "higher") if about.classes else ("mse", "lower"))
    assert about.window == 0
    assert len(about.unit) == (0 if about.classes else data.outputs)


def test_a_rerun_gives_what_was_recorded_bit_by_bit(run_of):
    _, recording, _, _ = run_of
    for sample in range(3):
        outputs = Rerun(recording, sample).outputs()
        length = recording.length("output", sample)
        assert same(outputs.curve[0], recording.array("output")[sample, :length])
        if outputs.answer is not None:
            assert same(outputs.answer, recording.array("answer")[sample])


def test_gates_of_a_rerun_are_those_that_were_recorded_bit_by_bit(run_of):
    _, recording, _, _ = run_of
    layer = recording.layers[NAC_LAYER]
    for sample in range(3):
        rerun = Rerun(recording, sample)
        assert same(rerun.gates([], NAC_LAYER), layer.array("gates")[sample, : layer.length(sample)])
        quiet = rerun.gates([Lesion("motor", 0, head=1)], NAC_LAYER)[:, :, layer.gates.index("phi")]
        assert quiet[:, 1].std() < 1e-6
        assert same(quiet[:, 0], layer.array("gates")[sample, : layer.length(sample), 0, 0])
        assert same(rerun.gates([], NAC_LAYER), layer.array("gates")[sample, : layer.length(sample)])


def test_the_metric_over_samples_is_the_tasks_own(run_of):
    run, recording, task, network = run_of
    index, split = spread(task.splits[1].test, 3), task.splits[1]
    value, answers = metric_of_samples([Rerun(recording, i) for i in range(3)])
    subject = load_subject(run)
    unit = torch.tensor(subject.unit)
    want = score(task.data, index, predict(network, task.data, index), unit)
    assert value == pytest.approx(want.metrics[recording.about.metric], rel=1e-6)
    for got, out in zip(answers, one_by_one(network, task.data, index), strict=True):
        assert same(got, out)
    assert torch.equal(subject.test, split.test)
    if not task.data.kind.has_classes:
        train = torch.cat([split.train, split.valid])
        known = answers_of(task.data, train).double()
        if str(task.data.kind) == "forecasting":
            known = known.reshape(-1, 1)
        np.testing.assert_allclose(subject.unit, known.std(0, correction=0).expand(task.data.outputs), rtol=1e-5)


def test_a_lesion_changes_answers_and_metrics_of_a_rerun_only(run_of):
    _, recording, _, _ = run_of
    reruns = [Rerun(recording, i) for i in range(3)]
    lesions = [Lesion("value")]
    value, answers = metric_of_samples(reruns, lesions)
    assert np.isfinite(value)
    assert not same(answers[0], metric_of_samples(reruns)[1][0])
    assert same(reruns[0].outputs(lesions).curve, Rerun(recording, 0).outputs(lesions).curve)
    assert same(reruns[0].outputs().curve[0], recording.array("output")[0, : recording.length("output", 0)])


def test_a_rerun_of_the_first_steps_is_one_of_a_shorter_sequence(run_of):
    _, recording, task, network = run_of
    got = Rerun(recording, 1, steps=5).outputs()
    x, time = (torch.from_numpy(np.asarray(recording.array(name)[1:2, :5])) for name in ("x", "time"))
    with torch.no_grad():
        want = network(x, time, torch.zeros(1, 5).bool())
    assert same(got.curve if task.data.kind.each_step else got.answer, want)
    value, _ = metric_of_samples([Rerun(recording, 1, steps=5)])
    assert np.isfinite(value)


# All pairs: as many columns as steps


@pytest.mark.slow
def test_sequences_of_different_lengths_of_a_layer_that_looks_at_all_pairs(tmp_path):
    run = write_run(tmp_path / "a", "classification", model="nac-pw")
    task, network = load_task(load_recipe(run / "recipe.toml")), load(run / "model").eval()
    index = spread(task.splits[1].test, 3)
    assert len(set(task.data.length[index].tolist())) > 1
    recording = record_run(run, 3)
    for sample, out in enumerate(one_by_one(network, task.data, index)):
        assert same(recording.array("answer")[sample], out)


def test_steps_that_are_not_scored_do_not_count(run_of, tmp_path, monkeypatch):
    run, _, task, network = run_of
    if not task.data.kind.each_step:
        return
    y = task.data.y.clone()
    y[::3] = UNSCORED if task.data.kind.has_classes else float("nan")
    changed = replace(task, data=replace(task.data, y=y))
    monkeypatch.setattr("nacre.train.run.load_task", lambda recipe, data_dir: changed)
    recording = record_run(run, 3, out=tmp_path / "here")
    index = spread(task.splits[1].test, 3)
    value, _ = metric_of_samples([Rerun(recording, i) for i in range(3)])
    unit = torch.tensor(recording.about.unit)
    want = score(changed.data, index, predict(network, changed.data, index), unit).metrics
    assert value == pytest.approx(want[recording.about.metric], rel=1e-6)
    y[:] = UNSCORED if task.data.kind.has_classes else float("nan")
    monkeypatch.setattr(inspect_run, "answer_scale", lambda data, train: (torch.ones(2), torch.ones(2)))
    recording = record_run(run, 1, out=tmp_path / "none")
    value, answers = metric_of_samples([Rerun(recording, 0)])
    assert np.isnan(value)
    assert len(answers[0]) == recording.length("output", 0)


# A run that was really trained


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    made = cell(spirals(quick_steps=6), tmp_path_factory.mktemp("trained"), "nac")
    run_cell(made)
    return made


@pytest.mark.slow
def test_a_trained_run_is_recorded_with_the_metric_of_its_result(trained):
    told = []
    recording = record_run(trained.directory, 99, progress=lambda done, of: told.append((done, of)))
    count = len(trained.split.test)
    assert recording.samples == count
    assert told == [(i + 1, count) for i in range(count)]
    value, _ = metric_of_samples([Rerun(recording, i) for i in range(count)])
    result = json.loads((trained.directory / "result.json").read_bytes())
    assert value == pytest.approx(result["value"], rel=1e-6)
    assert recording.about.time_unit == "radians"
    assert not recording.layers[NAC_LAYER].has("inter")  # means are enough, unless one asks for more


@pytest.mark.slow
def test_a_recording_of_a_run_goes_where_it_is_told_and_replaces_the_one_before(trained, tmp_path):
    for samples in (2, 1):
        assert record_run(str(trained.directory), samples, out=tmp_path / "here").path == tmp_path / "here"
    assert Recording(tmp_path / "here").samples == 1
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


@pytest.mark.slow
def test_a_recording_of_a_run_that_fails_leaves_nothing_behind(trained, tmp_path):
    def stop(done, of):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_run(trained.directory, 3, out=tmp_path / "here", progress=stop)
    assert list(tmp_path.iterdir()) == []


# What is refused


@pytest.mark.slow
def test_controls_and_models_without_nac_are_refused(tmp_path):
    control = cell(spirals(), tmp_path, controls_for(spirals().data)[0])
    run_cell(control)
    with pytest.raises(ValueError, match="holds no network; controls have none"):
        record_run(control.directory)
    run = write_run(tmp_path / "other", "classification", model="cfc-fc")
    with pytest.raises(ValueError, match=f"{run} is a run of cfc-fc, which has no NAC layer to look into; choose"):
        record_run(run)
    assert not (run / "inspect").exists()
    assert not (control.directory / "inspect").exists()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no finished run; give a directory"):
        record_run(tmp_path)
    for text in ("{", "[]", '{"model": "nac"}'):
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(ValueError, match=r"result.json is damaged: .*; delete .* and train it again"):
            record_run(tmp_path)


def test_a_run_that_holds_a_bare_layer_is_refused(tmp_path):
    save(NAC(8, 2), tmp_path / "model")
    (tmp_path / "result.json").write_text(json.dumps(fields(task="my")))
    with pytest.raises(ValueError, match="it is a NAC, wanted a network"):
        record_run(tmp_path)


def test_a_number_of_samples_that_is_none_is_refused(tmp_path):
    for samples, kind in ((0, ValueError), ("all", TypeError), (1.5, TypeError)):
        with pytest.raises(kind, match="samples must be"):
            record_run(tmp_path, samples)


def test_an_unknown_detail_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nonsense"):
        record_run(tmp_path / "run", 1, detail="nonsense", out=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
