"""Recordings of drives: at each moment the window that ends with it, as it is scored."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nacre.inspect import Lesion
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording.layer_writer import PAIR_GATES, SENSORY
from nacre.inspect.recording.outputs import windows_of
from nacre.inspect.recording.run import AT_ONCE, record_run
from nacre.io import load, save
from nacre.layer.trace import BACKBONE
from nacre.tasks.recipe import load_recipe, to_toml
from nacre.tasks.recipe_sections import SplitRecipe
from nacre.tasks.task import load_task
from nacre.train.evaluate import outputs_of, predict, score
from support.drive import episode, write_episode
from support.drive import network as drive_network
from support.drive import write_run as write_drive_run
from support.inspect import NAC_LAYER, layer_call

pytestmark = pytest.mark.slow


def same(a, b) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


FRAMES = 4


def write_drives(place: Path, steps: list[int]) -> Path:
    """Drives of so many frames, in which all actions occur, and a run on them."""
    for seed, count in enumerate(steps):
        write_episode(place / "carracing", replace(episode(seed, count), label=np.arange(count) % 5))
    run = write_drive_run(place / "run")
    recipe = replace(load_recipe(run / "recipe.toml"), split=SplitRecipe("group", 3))
    (run / "recipe.toml").write_text(to_toml(recipe))
    return run


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    place = tmp_path_factory.mktemp("drive")
    run = write_drives(place, [6, 7, 8, 9, 10, 11])
    task = load_task(load_recipe(run / "recipe.toml"), place)
    told = []
    recording = record_run(
        run, 2, data_dir=place, detail="pairs", progress=lambda done, of: told.append((done, of))
    )
    return place, run, task, load(run / "model").eval(), recording, told


def moments_of(task, recording):
    """Sequences of each drive of a recording."""
    names = recording.about.samples
    return [(task.data.group == task.data.groups.index(name)).nonzero().squeeze(1) for name in names]


def test_a_drive_is_recorded_frame_by_frame(drive):
    _, _, task, _, recording, told = drive
    moments = moments_of(task, recording)
    tested = {task.data.groups[g] for g in task.data.group[task.splits[0].test].tolist()}
    assert set(recording.about.samples) <= tested
    assert recording.about.window == FRAMES
    assert not recording.about.once
    lengths = [len(m) for m in moments]
    assert told[-1] == (sum(lengths), sum(lengths))
    for sample, index in enumerate(moments):
        rows = (task.data.start + task.data.length - 1)[index]
        assert recording.length("x", sample) == recording.length("output", sample) == len(index)
        x = recording.array("x")
        assert x.dtype == np.uint8
        assert same(x[sample, : len(index)], task.data.values[rows])
        assert same(recording.array("time")[sample, : len(index)], task.data.time[rows])
        assert same(recording.array("truth")[sample, : len(index)], task.data.y[index])


def test_the_answer_at_each_moment_is_the_networks_answer_to_its_window(drive):
    _, _, task, network, recording, _ = drive
    for sample, index in enumerate(moments_of(task, recording)):
        output = torch.from_numpy(np.asarray(recording.array("output")[sample]))
        for i, moment in enumerate(index):
            batch = task.data.batch(moment.view(1))
            with torch.no_grad():
                want = network(batch.x, batch.time, batch.key_padding_mask)[0]
            torch.testing.assert_close(output[i], want, atol=1e-5, rtol=1e-5)  # last bits depend on the processor


def test_a_step_of_a_drive_is_the_last_query_of_its_window(drive):
    _, _, task, network, recording, _ = drive
    layer = recording.layers[NAC_LAYER]
    for sample, index in enumerate(moments_of(task, recording)):
        assert layer.length(sample) == len(index)
        first = task.data.time[task.data.start[index[0]]]
        assert same(layer.time(sample), task.data.time[(task.data.start + task.data.length - 1)[index]] - first)
        for i, moment in enumerate(index):
            batch = task.data.batch(moment.view(1))
            tokens, *rest = network.tokens(batch.x, batch.time, batch.key_padding_mask)
            with torch.no_grad():
                nac, call = layer_call(network, tokens, *rest)
                _, trace = nac(**call, return_trace=True)
            valid = trace.valid[0, :, -1]
            assert same(layer.array("valid")[sample, i], valid)
            shift = i + 1 - tokens.shape[1]  # frame of the drive on which the window begins
            want = (trace.index[0, :, -1] + shift).masked_fill(~valid, 0)
            assert same(layer.array("index")[sample, i], want)
            for name in (*PAIR_GATES, *BACKBONE, *SENSORY):
                value = getattr(trace, name)
                if value is not None:
                    got = np.asarray(layer.array(name)[sample, i])
                    np.testing.assert_allclose(got, value[0, :, -1], atol=1e-5, rtol=1e-4, err_msg=name)


def test_a_moment_attends_to_frames_of_its_window_and_to_none_after_it(drive):
    _, _, task, _, recording, _ = drive
    layer = recording.layers[NAC_LAYER]
    for sample, index in enumerate(moments_of(task, recording)):
        for i in range(len(index)):
            valid = np.asarray(layer.array("valid")[sample, i])
            frames = np.asarray(layer.array("index")[sample, i])[valid]
            assert valid.any()
            assert frames.max() <= i
            assert frames.min() >= max(0, i - FRAMES + 1)
            assert not np.asarray(layer.array("index")[sample, i])[~valid].any()


def test_means_of_a_drive_are_those_of_its_pairs(drive):
    layer = drive[-2].layers[NAC_LAYER]
    weights = np.asarray(layer.array("weights")[...], np.float64)
    states = np.asarray(layer.array("states")[...])
    for group in BACKBONE:
        column = layer.column(group, 0)
        want = (weights[..., None] * np.asarray(layer.array(group)[...])).sum(3)
        np.testing.assert_allclose(states[..., column : column + layer.sizes[group]], want, atol=1e-5)
    for group in SENSORY:
        column = layer.column(group, 0)
        assert same(states[..., column : column + layer.sizes[group]], layer.array(group)[...])
    for column, name in enumerate(layer.gates[:-1]):
        want = (weights * np.asarray(layer.array(name)[...])).sum(3)
        np.testing.assert_allclose(np.asarray(layer.array("gates")[..., column]), want, atol=1e-5)


def test_a_rerun_of_a_drive_gives_what_was_recorded_bit_by_bit(drive):
    _, _, task, network, recording, _ = drive
    moments = moments_of(task, recording)
    reruns = [Rerun(recording, sample) for sample in range(recording.samples)]
    for sample, rerun in enumerate(reruns):
        outputs = rerun.outputs()
        assert outputs.answer is None
        assert same(outputs.curve[0], recording.array("output")[sample, : len(moments[sample])])
        layer = recording.layers[NAC_LAYER]
        assert same(rerun.gates([], NAC_LAYER), layer.array("gates")[sample, : len(moments[sample])])
        few = Rerun(recording, sample, steps=3).outputs().curve[0]
        torch.testing.assert_close(few, outputs.curve[0, :3], atol=1e-5, rtol=1e-5)
    index = torch.cat(moments)
    want = score(task.data, index, predict(network, task.data, index), torch.ones(1)).metrics["accuracy"]
    assert metric_of_samples(reruns)[0] == pytest.approx(want)
    assert len(metric_of_samples(reruns, [Lesion("motor", 0)])[1][0]) == len(moments[0])


def test_long_and_short_drives_are_recorded_alike(tmp_path):
    """Longer than what is looked at at once; and shorter than a window."""
    run = write_drives(tmp_path, [AT_ONCE + 6, 9, 8, 2, 9, 10])
    task, network = load_task(load_recipe(run / "recipe.toml"), tmp_path), load(run / "model").eval()
    for fold in range(3):
        result = json.loads((run / "result.json").read_bytes())
        (run / "result.json").write_text(json.dumps(result | {"fold": fold}))
        recording = record_run(run, 3, data_dir=tmp_path)
        layer = recording.layers[NAC_LAYER]
        for sample, index in enumerate(moments_of(task, recording)):
            assert layer.length(sample) == len(index)
            assert np.asarray(layer.array("valid")[sample, : len(index)]).any(-1).all()
            again = Rerun(recording, sample).outputs().curve[0].numpy()
            got = np.asarray(recording.array("output")[sample, : len(index)])
            np.testing.assert_allclose(got, again, atol=1e-5)
            want = torch.cat(outputs_of(network, task.data, index)).numpy()
            np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_first_moments_of_a_drive_are_answered_as_they_are_scored(tmp_path):
    run = write_drives(tmp_path, [12, 12, 12])
    recipe = load_recipe(run / "recipe.toml")
    (run / "recipe.toml").write_text(to_toml(replace(recipe, data={"name": "carracing", "frames": 12})))
    save(drive_network(causal=False, top_k=3), run / "model")
    task, network = load_task(load_recipe(run / "recipe.toml"), tmp_path), load(run / "model").eval()
    recording = record_run(run, 1, data_dir=tmp_path)
    (index,) = moments_of(task, recording)
    want = torch.cat(outputs_of(network, task.data, index)).numpy()
    np.testing.assert_allclose(np.asarray(recording.array("output")[0]), want, atol=1e-5)


def test_short_drives_of_a_layer_that_looks_at_all_pairs(tmp_path):
    run = write_drives(tmp_path, [9, 9, 9, 2, 9, 9])
    save(drive_network("nac-pw", causal=True), run / "model")
    task, network = load_task(load_recipe(run / "recipe.toml"), tmp_path), load(run / "model").eval()
    recording = record_run(run, 2, data_dir=tmp_path)
    for sample, index in enumerate(moments_of(task, recording)):
        want = torch.cat(outputs_of(network, task.data, index)).numpy()
        got = np.asarray(recording.array("output")[sample, : len(index)])
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_windows_end_on_their_moment_and_never_reach_before_the_drive():
    frames = torch.arange(1, 8).view(7, 1, 1, 1).expand(-1, 2, 2, 3).to(torch.uint8)
    time = torch.arange(7).double() / 50
    x, stamps, padding, start = windows_of(frames, time, 1, 6, 3)
    assert start.tolist() == [0, 0, 1, 2, 3]
    assert x[:, :, 0, 0, 0].tolist() == [[1, 2, 0], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert padding.tolist() == [[False, False, True]] + [[False] * 3] * 4
    assert torch.equal(stamps[2], time[1:4])
    assert stamps[0].tolist() == [0, 0.02, 0.02]
    assert windows_of(frames, time, 0, 1, 3)[0].shape == (1, 1, 2, 2, 3)
