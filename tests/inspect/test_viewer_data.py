"""What the viewer answers is what the recording holds, and what a model with lesions does."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from nacre.inspect import record
from nacre.inspect.recording.arrays import FACTOR
from nacre.inspect.recording.hooks import layers_of
from nacre.inspect.viewer.query import MOST_STEPS
from nacre.inspect.viewer.source import SHOWN, ViewerSource, plain, to_png
from support.viewer import STEPS, Strange, ask, frames, one_layer, sequences, serving, two_layers

pytestmark = pytest.mark.slow

GROUPS = ("query", "key", "value", "inter", "command", "motor")
LONG = 2500


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Recordings of a layer, of frames, of two layers, and of many steps, each with its port and number of run."""
    folder = tmp_path_factory.mktemp("seen")
    layer, (drives, images) = one_layer(folder / "layer"), frames(folder / "frames")
    x, time = sequences(1, LONG)
    torch.manual_seed(2)
    long = record(Strange(top_k=2), x, time, out=folder / "long", detail="means")
    with two_layers(folder / "two") as two, serving(layer, drives) as port, serving(two, long) as other:
        yield {
            "layer": (layer, port),
            "frames": (drives, images, port),
            "two": (two, other),
            "long": (long, other),
        }


def get(port, route, **parameters):
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    reply = ask(port, f"/api/{route}?{query}")
    assert reply.status == 200, reply.body
    return reply.data


def assert_near(got, want):
    """Six digits of the largest, and None for what is not finite."""
    got = np.array(got, dtype=float)  # None becomes NaN
    want = np.asarray(want, dtype=float)
    assert got.shape == want.shape
    size = np.abs(want[np.isfinite(want)]).max(initial=0)
    np.testing.assert_allclose(got, np.where(np.isfinite(want), want, np.nan), rtol=0, atol=5.1e-6 * size)


# Curves and steps


def test_what_there_is_to_choose_from(seen):
    (layer, port), (_, other) = seen["layer"], seen["two"]
    first, second = get(port, "about")["runs"]
    assert (first["name"], first["samples"]) == ("NAC", ["sample 0", "sample 1", "sample 2"])
    assert (first["features"], first["outputs"]) == ([f"x{i}" for i in range(8)], [f"y{i}" for i in range(8)])
    assert (first["frames"], first["lesions"], first["classes"], first["once"]) == (False, True, False, False)
    assert (second["frames"], second["lesions"], second["outputs"]) == (True, False, ["steer"])
    assert second["layers"][0]["lengths"] == [7, 4]
    [only] = first["layers"]
    sizes = layer.recording.layers["nac"].sizes
    assert only["groups"] == [[group, sizes[group]] for group in GROUPS if group != "clock"]  # it has none
    assert (only["name"], only["heads"], only["shared"], only["lengths"]) == ("nac", 2, False, [STEPS] * 3)
    assert only["gates"] == list(layer.recording.layers["nac"].gates)
    third, fourth = get(other, "about")["runs"]
    layers = [(one["name"], one["heads"], one["shared"]) for one in third["layers"]]
    assert layers == [("first", 4, False), ("second", 2, True), ("first#2", 4, False)]
    assert fourth["layers"][0]["lengths"] == [LONG]


def test_curves_are_those_of_the_recording(seen):
    example, port = seen["layer"]
    recording, layer = example.recording, example.recording.layers["nac"]
    for sample, head, start, stop in ((0, 0, 0, STEPS), (2, 1, 3, 17), (1, 0, STEPS - 1, STEPS)):
        curves = get(port, "curves", sample=sample, head=head, start=start, stop=stop)
        assert (curves["start"], curves["stop"]) == (start, stop)
        stamps = example.time[sample].double().numpy()
        held = {
            "gates": layer.array("gates")[sample, start:stop, head],
            "output": example.model(example.x, time=example.time)[sample, start:stop].detach(),
            "input": example.x[sample, start:stop],
        }
        assert np.array_equal(recording.array("x")[sample], example.x[sample])
        for name, rows in held.items():
            curve = curves[name]
            assert curve["step"] == list(range(start, stop))
            assert_near(curve["time"], (stamps - stamps[0])[start:stop])
            assert len(curve["columns"]) == rows.shape[1]
            for i, column in enumerate(curve["columns"]):
                assert list(column) == ["mean"]  # one step each
                assert_near(column["mean"], rows[:, i])


def test_a_neuron_is_that_of_the_recording(seen):
    example, port = seen["layer"]
    layer = example.recording.layers["nac"]
    columns = len(layer.neurons)
    for sample, head, column in ((0, 0, 0), (1, 1, columns - 1), (2, 0, columns // 2)):
        curve = get(port, "neuron", sample=sample, head=head, column=column, start=2, stop=30)
        assert curve["step"] == list(range(2, 30))
        assert_near(curve["columns"][0]["mean"], layer.array("states")[sample, 2:30, head, column])
        assert len(curve["columns"]) == 1


def test_steps_hold_every_neuron_gate_and_key(seen):
    example, port = seen["layer"]
    layer = example.recording.layers["nac"]
    _, trace = example.model(example.x, time=example.time, return_trace=True)
    outputs = example.model(example.x, time=example.time).detach()
    for sample, head, start, stop in ((0, 1, 0, STEPS), (2, 0, 5, 9)):
        steps = get(port, "steps", sample=sample, head=head, start=start, stop=stop)
        some = slice(start, stop)
        stamps = example.time[sample].double().numpy() - float(example.time[sample, 0])
        assert steps["start"] == start
        assert_near(steps["time"], stamps[some])
        assert_near(steps["states"], layer.array("states")[sample, some, head])
        assert_near(np.array(steps["states"])[:, :4], trace.query[sample, head, some].detach())
        assert_near(steps["gates"], layer.array("gates")[sample, some, head])
        index, valid = trace.index[sample, head, some].numpy(), trace.valid[sample, head, some].numpy()
        got = np.array(steps["index"])
        assert np.array_equal(got[valid], index[valid])
        assert_near(steps["keyTime"], stamps[got])
        assert_near(steps["weights"], np.where(valid, trace.weights[sample, head, some].detach(), np.nan))
        assert steps["inputStep"] == list(range(start, stop))
        assert_near(steps["output"], outputs[sample, some])
        assert_near(steps["input"], example.x[sample, some])
        assert (steps["truth"], steps["answer"]) == (None, None)


def test_steps_are_few_and_the_first_few_unless_told(seen):
    _, port = seen["long"]
    assert len(get(port, "steps", run=1)["time"]) == MOST_STEPS
    assert len(get(port, "steps", run=1, start=1000)["time"]) == MOST_STEPS
    assert len(get(port, "steps", run=1, start=LONG - 7)["time"]) == 7
    assert len(get(port, "steps", run=1, start=5, stop=5 + MOST_STEPS)["time"]) == MOST_STEPS
    reply = ask(port, f"/api/steps?run=1&start=5&stop={6 + MOST_STEPS}")
    assert (reply.status, reply.error) == (400, f"stop - start must be at most {MOST_STEPS}, got {MOST_STEPS + 1}")


def test_truth_and_answer_are_those_of_the_sample(seen):
    drives, images, port = seen["frames"]
    for sample, steps in ((0, 7), (1, 4)):
        got = get(port, "steps", run=1, sample=sample)
        assert got["truth"] == images[sample][:, 0, 0, 0].tolist()
        assert_near(got["answer"], drives.array("answer")[sample, 0])
        assert got["inputStep"] == list(range(steps))
        assert "input" not in got
        assert_near(got["time"], np.arange(steps) * 0.5)
        some = get(port, "steps", run=1, sample=sample, start=2, stop=3)
        assert some["truth"] == got["truth"][2:3]
        assert "input" not in get(port, "curves", run=1, sample=sample)


def test_the_spread_of_a_neuron_is_its_mean_and_its_farthest_state(seen):
    for (recording, port), run in ((seen["layer"], 0), (seen["long"], 1)):
        recording = getattr(recording, "recording", recording)
        [layer] = recording.layers.values()
        states = np.asarray(layer.array("states")[0, :, 1], dtype=float)
        spread = get(port, "spread", run=run, head=1)
        mean = states.mean(0)
        np.testing.assert_allclose(spread["mean"], mean, atol=1e-2 if run else 1e-6)
        np.testing.assert_allclose(spread["most"], np.abs(states - mean).max(0), atol=1e-2 if run else 1e-5)


class Half(Strange):
    """Sees every second step."""

    def forward(self, x, time=None):
        return self.layer(x[:, ::2], time=time[:, ::2])


def test_steps_of_a_layer_that_sees_fewer_belong_to_their_inputs(tmp_path):
    x, time = sequences(1, 12)
    steps = ViewerSource(record(Half(), x, time, out=tmp_path / "half")).steps(0, "layer", 0, 1, 5)
    assert steps["inputStep"] == [2, 4, 6, 8]
    assert_near(steps["input"], x[0, 2:9:2])


def test_a_key_that_is_not_there_has_no_weight(tmp_path):
    x, time = sequences(1, 12)
    recording = record(Strange(causal=True, top_k=4), x, time, out=tmp_path / "causal")
    weights = ViewerSource(recording).steps(0, "layer", 0, 0, 12)["weights"]
    assert [sum(weight is not None for weight in row) for row in weights[:3]] == [1, 2, 3]


# The circuit


def by_loop(net, head):
    """Synapses {(source column, target column): weight} of a head, neuron by neuron."""
    wiring, weights = net.backbone.wiring, net.backbone.weights
    head = 0 if net.config.share_backbone else head
    width = net.config.d_head
    place = {}
    at = 3 * width
    for group in ("inter", "command", "motor"):
        for neuron in wiring.group(group):
            place[neuron] = at
            at += 1
    synapses = {}
    for table, first in ((weights.input_weight, None), (weights.recurrent_weight, place)):
        for j, flat in enumerate(table.index.tolist()):
            source, target = divmod(flat, table.shape[1])
            signs = wiring.input_adjacency if first is None else wiring.adjacency
            sign = signs[source, target]
            assert sign != 0
            synapses[source if first is None else first[source], place[target]] = (
                sign,
                float(table.weight.detach()[head, j]),
            )
    return synapses


@pytest.mark.parametrize("which", ["layer", pytest.param("two", marks=pytest.mark.slow)])
def test_the_circuit_is_that_of_the_model_synapse_by_synapse(seen, which):
    example, port = seen[which]
    for number, (name, layer) in enumerate(example.recording.layers.items()):
        net = layers_of(example.model)[name.partition("#")[0]]
        for head in range(layer.heads):
            circuit = get(port, "circuit", layer=number, head=head)
            assert circuit["trained"] is True
            pairs = list(zip(circuit["source"], circuit["target"], strict=True))
            want = by_loop(net, head)
            assert len(set(pairs)) == len(pairs)
            assert set(pairs) <= set(want)
            assert all(want[pair] == 0 for pair in set(want) - set(pairs))
            tables = net.backbone.weights.drive()[0], net.backbone.weights.recurrent()
            own = 0 if layer.shared else head
            size = max(abs(weight) for weight in circuit["weight"])
            for (source, target), weight in zip(pairs, circuit["weight"], strict=True):
                group, i = layer.neurons[source]
                to = net.backbone.wiring.group(layer.neurons[target][0])[layer.neurons[target][1]]
                if group in ("query", "key"):
                    trained = tables[0][own, source, to]
                else:
                    trained = tables[1][own, net.backbone.wiring.group(group)[i], to]
                assert abs(weight - float(trained.detach())) <= 5.1e-6 * size
            sizes = [abs(weight) for weight in circuit["weight"]]
            assert sizes == sorted(sizes, reverse=True)


def test_heads_have_circuits_of_their_own_unless_they_share_one(seen):
    _, port = seen["two"]
    first = [get(port, "circuit", layer=0, head=head) for head in range(4)]
    assert len({json.dumps(circuit) for circuit in first}) == 4
    assert get(port, "circuit", layer=1, head=0) == get(port, "circuit", layer=1, head=1)
    assert get(port, "circuit", layer=2, head=3) == first[3]  # the same layer, called again


def test_without_a_model_the_circuit_is_the_wiring(seen):
    drives, _, port = seen["frames"]
    [layer] = drives.layers.values()
    circuit = get(port, "circuit", run=1)
    assert circuit["trained"] is False
    want = np.count_nonzero(layer.wiring.adjacency) + np.count_nonzero(layer.wiring.input_adjacency)
    assert len(circuit["weight"]) == want
    assert set(circuit["weight"]) == {1, -1}


# Layers and runs


def test_each_layer_head_sample_and_run_has_its_own_numbers(seen):
    example, port = seen["two"]
    for number, layer in enumerate(example.recording.layers.values()):
        for head in range(layer.heads):
            for sample in range(2):
                steps = get(port, "steps", layer=number, head=head, sample=sample)
                assert_near(steps["states"], layer.array("states")[sample, :, head])
    long, _ = seen["long"]
    [layer] = long.layers.values()
    assert_near(get(port, "steps", run=1, head=1, stop=9)["states"], layer.array("states")[0, :9, 1])
    assert get(port, "steps", run=0) == get(port, "steps")


# Many steps


MORE = [pytest.param(points, marks=pytest.mark.deep) for points in (10, 100, 800, 1249, 2499, 4000)]


@pytest.mark.parametrize("points", [1, 99, 313, 1250, *MORE])
def test_a_long_curve_is_summed_up_in_about_as_many_points_as_are_asked_for(seen, points):
    long, port = seen["long"]
    [layer] = long.layers.values()
    for start, stop in ((0, LONG), (777, 2222)):
        curves = get(port, "curves", run=1, points=points, start=start, stop=stop)
        for name, rows in (("gates", layer.array("gates")[0, :, 0]), ("output", long.array("output")[0])):
            steps, columns = curves[name]["step"], curves[name]["columns"]
            assert min(points, stop - start) <= len(steps) <= 2 * points + 2
            assert len(columns) == min(rows.shape[1], SHOWN)
            assert steps[0] <= start < steps[0] + FACTOR
            unit = FACTOR if (stop - start) // points >= FACTOR else 1  # the summaries that are on disk
            edges = [*steps, min(LONG, -(-stop // unit) * unit)]
            size = np.abs(rows).max()
            for i in range(len(steps)):
                block = np.asarray(rows[edges[i] : edges[i + 1]], dtype=float)
                for j, column in enumerate(columns):
                    low, high = (column.get(k, column["mean"])[i] for k in ("low", "high"))
                    assert abs(low - block[:, j].min()) <= 5.1e-6 * size
                    assert abs(high - block[:, j].max()) <= 5.1e-6 * size
                    if i + 1 < len(steps) or unit == 1:  # the last summary on disk may be of fewer steps
                        assert abs(column["mean"][i] - block[:, j].mean()) <= 1e-5 * size
                    assert low - 1e-5 <= column["mean"][i] <= high + 1e-5


def test_an_answer_has_bounded_size_however_long_the_sample(seen):
    _, port = seen["long"]
    for points in (1, 50, 700):
        reply = ask(port, f"/api/curves?run=1&points={points}")
        assert len(reply.body) < 1000 + (2 * points + 2) * (5 + 2 * 8) * 3 * 14
    assert len(ask(port, "/api/neuron?run=1&column=3&points=100").body) < 15_000


# Frames


@pytest.mark.parametrize("colours", [1, 3])
def test_a_frame_is_a_png_of_the_very_pixels(seen, tmp_path, colours):
    if colours == 3:
        _, images, port = seen["frames"]
        for sample, drive in enumerate(images):
            for step, pixels in enumerate(drive):
                reply = ask(port, f"/api/frame?run=1&sample={sample}&step={step}")
                assert reply.headers["content-type"] == "image/png"
                image = Image.open(io.BytesIO(reply.body))
                image.verify()
                image = Image.open(io.BytesIO(reply.body))
                assert (image.format, image.mode) == ("PNG", "RGB")
                assert np.array_equal(np.asarray(image), pixels)
    recording, images = frames(tmp_path / "grey", colours=colours)
    image = Image.open(io.BytesIO(ViewerSource(recording).frame(1, 2)))
    assert np.array_equal(np.asarray(image).reshape(5, 6, colours), images[1][2])


def test_an_image_need_not_be_contiguous():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 4, 3), dtype=np.uint8)
    for odd in (pixels[::2], pixels[:, ::-1], pixels.transpose(1, 0, 2)):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(to_png(odd)))), odd)


# Plain numbers


def test_numbers_have_six_digits_of_the_largest_and_none_where_there_is_no_number():
    assert plain([1.23456789, 0.001]) == [1.23457, 0.001]
    assert plain([123456.789, 1.4]) == [123457.0, 1.0]
    assert plain([[np.nan, 1.0], [np.inf, -np.inf]]) == [[None, 1.0], [None, None]]
    assert plain([0.0, -0.0]) == [0.0, 0.0]
    assert plain(np.float32([1e-40, 3e38])) == pytest.approx([0.0, 3e38])
    assert plain([np.nan]) == [None]
    assert plain(np.array([], dtype=float)) == []
    assert plain(np.array([3, 10**12])) == [3, 10**12]
    assert plain(np.array([True])) == [True]
