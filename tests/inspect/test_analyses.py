"""Labels, centroids, health and strengths of recordings, held against what is simple and slow."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nacre
from nacre import NAC, Wiring
from nacre.data.dataset import UNSCORED
from nacre.inspect import record
from nacre.inspect.analysis import centroids as centroids_module
from nacre.inspect.analysis import health as health_module
from nacre.inspect.analysis.centroids import centroids
from nacre.inspect.analysis.health import health
from nacre.inspect.analysis.labels import labels_of, layer_of
from nacre.inspect.analysis.strengths import strengths
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.recording import GROUPS
from nacre.inspect.recording.run import AT_ONCE, record_run
from nacre.io import saveable
from nacre.tasks.recipe import load_recipe, to_toml
from nacre.tasks.recipe_sections import SplitRecipe
from support.drive import episode, write_episode
from support.drive import write_run as write_drive_run
from support.inspect import NAC_LAYER, NEURONS, write


def blank(*lengths):
    return [np.zeros((n, 2, NEURONS)) for n in lengths]


# Labels


def test_classes_are_labels(tmp_path):
    truth = [np.array([0, 2, UNSCORED, 1]), np.array([1, 1])]
    said = [np.eye(3)[[2, 2, 1, 0]], np.eye(3)[[0, 1]]]
    names = ("left", "right", "gas")
    recording = write(tmp_path / "r", blank(4, 2), said, truth=truth, classes=True, outputs=names)
    labels = labels_of(recording)
    assert [x.tolist() for x in labels.of_step] == [[0, 2, -1, 1], [1, 1]]
    assert (labels.names, labels.per_sample, labels.counts.tolist()) == (names, False, [1, 3, 1])
    assert [x.tolist() for x in labels_of(recording, "layer", "answer").of_step] == [[2, 2, 1, 0], [0, 1]]


def test_numbers_are_cut_at_the_terciles_of_all_samples(tmp_path):
    truth = [np.array([[1.0, 9], [5, 9], [np.nan, 1]]), np.array([[2.0, 1], [3, np.nan], [4, 2], [6, 3]])]
    recording = write(tmp_path / "r", blank(3, 4), [x.copy() for x in truth], truth=truth)
    labels = labels_of(recording)
    assert labels.names == ("low", "middle", "high")
    assert [x.tolist() for x in labels.of_step] == [[0, 2, -1], [0, 1, 1, 2]]
    assert [x.tolist() for x in labels_of(recording, output="y1").of_step] == [[2, 2, 0], [0, -1, 1, 1]]
    assert labels.counts.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0, 0, 0, 0, 0, 0, 0, 1, -1], [1] * 7 + [2, 0]), ([0, 1, 0, 1], [0, 1, 0, 1]), ([3, 3], [1, 1])],
)
def test_ties_stay_together(tmp_path, values, expected):
    """A car that mostly drives straight has left and right on both sides of it."""
    truth = [np.array(values, float)[:, None]]
    recording = write(tmp_path / "r", blank(len(values)), truth, truth=truth)
    assert labels_of(recording).of_step[0].tolist() == expected


def test_the_answer_to_a_sample_is_that_of_its_steps(tmp_path):
    truth = [np.array([1]), np.array([0]), np.array([UNSCORED])]
    said = [np.array([[1.0, 0]]), np.array([[3.0, 4]]), np.array([[0.0, 1]])]
    about = {"classes": True, "outputs": ("no", "yes"), "once": True}
    recording = write(tmp_path / "r", blank(3, 2, 2), said, truth=truth, inputs=[6, 5, 3], stamps=None, **about)
    with pytest.raises(ValueError, match="'layer' has no stamps and 3 steps in sample 0, where its input has 6"):
        labels_of(recording)
    stamps = [np.arange(n, dtype=float) for n in (3, 2, 2)]
    recording = write(tmp_path / "r", blank(3, 2, 2), said, truth=truth, inputs=[6, 5, 3], stamps=stamps, **about)
    labels = labels_of(recording)
    assert labels.per_sample
    assert [x.tolist() for x in labels.of_step] == [[1] * 3, [0] * 2, [-1] * 2]
    assert [x.tolist() for x in labels_of(recording, what="answer").of_step] == [[0] * 3, [1] * 2, [1] * 2]


def test_a_number_for_a_sample_is_that_of_its_steps(tmp_path):
    truth = [np.array([[x]]) for x in (3.0, 1.0, np.nan, 2.0)]
    recording = write(tmp_path / "r", blank(2, 3, 2, 2), truth, truth=truth, once=True)
    for what in ("truth", "answer"):
        labels = labels_of(recording, what=what)
        assert labels.per_sample
        assert [x.tolist() for x in labels.of_step] == [[2, 2], [0, 0, 0], [-1, -1], [1, 1]]


@pytest.mark.parametrize("origin", [0.0, 100.0])
def test_steps_of_a_layer_are_matched_by_time(tmp_path, origin):
    """Stamps of a layer may count from the first of the input, or be the input's."""
    truth = [np.arange(9) % 5]
    stamps = [origin + np.array([1.0, 3.5, 4.0, 8.0])]
    said = [np.eye(5)[truth[0]]]
    names = tuple("abcde")
    given = {"truth": truth, "inputs": [9], "start": 100.0, "stamps": stamps, "classes": True, "outputs": names}
    recording = write(tmp_path / "r", blank(4), said, **given)
    for what in ("truth", "answer"):
        assert labels_of(recording, what=what).of_step[0].tolist() == [1, 3, 4, 3]
    own = write(tmp_path / "own", blank(4), [np.eye(5)[[4, 0, 0, 2]]], **given)
    assert labels_of(own, what="answer").of_step[0].tolist() == [4, 0, 0, 2]
    odd = write(tmp_path / "odd", blank(4), [np.eye(5)[[4, 0]]], **given)
    with pytest.raises(ValueError, match="gives 2 answers to sample 0, which has 9 steps and 4 in layer 'layer'"):
        labels_of(odd, what="answer")


def test_strided_convolutions_are_matched(tmp_path):
    network = nacre.TaskNetwork("nac", "classification", 2, 3, d_model=8, num_heads=2, conv=[(4, 3, 2)])
    time = 50 + torch.rand(2, 21, dtype=torch.float64).cumsum(1)
    recording = record(network, torch.randn(2, 21, 2), time, out=tmp_path / "r")
    layer = layer_of(recording, NAC_LAYER)
    assert layer.length(0) == 11
    from nacre.inspect.analysis.labels import _input_steps

    # A token stands at the last step that it covers.
    assert _input_steps(recording, layer, 1).tolist() == [*range(1, 20, 2), 20]


def test_padding_has_no_label(tmp_path):
    padding = torch.zeros(2, 12, dtype=torch.bool)
    padding[0, 9:] = padding[1, 4] = True
    recording = record(NAC(8, 2), torch.randn(2, 12, 8), None, padding, out=tmp_path / "r")
    labels = labels_of(recording, what="answer")
    assert len(labels.of_step[0]) == 9
    assert (labels.of_step[0] >= 0).all()
    assert (labels.of_step[1] < 0).nonzero()[0].tolist() == [4]
    known = np.asarray(recording.array("output"))[..., 0][~padding.numpy()]
    assert labels.counts.tolist() == np.histogram(known, [-9, *np.quantile(known, [1 / 3, 2 / 3]), 9])[0].tolist()


@pytest.mark.slow
def test_what_labels_cannot_be(tmp_path):
    recording = record(NAC(8, 2), torch.randn(1, 12, 8), out=tmp_path / "r")
    with pytest.raises(ValueError, match='what must be "answer", got "truth", but the recording has no true'):
        labels_of(recording)
    with pytest.raises(ValueError, match="what must be one of 'truth', 'answer', got 'true'"):
        labels_of(recording, what="true")
    with pytest.raises(ValueError, match="output must name an output, got 'y9'; there are y0, y1"):
        labels_of(recording, what="answer", output="y9")
    with pytest.raises(ValueError, match="layer must name a layer of .*, got 'nacs'; did you mean 'nac'"):
        labels_of(recording, "nacs")
    two = record(
        nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2), num_layers=2),
        torch.randn(1, 12, 8),
        out=tmp_path / "two",
    )
    with pytest.raises(ValueError, match="layer must name a layer of the recording, got None; there are layers.0"):
        layer_of(two, None)
    classes = write(tmp_path / "c", blank(2), [np.eye(2)], classes=True, outputs=("a", "b"))
    with pytest.raises(ValueError, match="output chooses one of several numbers, got 'a', but the answers are cl"):
        labels_of(classes, what="answer", output="a")


# Centroids


def test_centroids_are_means(tmp_path, monkeypatch):
    recording = record(NAC(16, 2, clock=2), torch.randn(2, 40, 16), out=tmp_path / "r")
    monkeypatch.setattr(centroids_module, "_READ", 7)
    layer = recording.layers["nac"]
    states = np.asarray(layer.array("states"))
    for sample, head in ((0, 1), (1, 0)):
        found = centroids(recording, sample, "nac", head)
        assert tuple(found) == GROUPS
        for group in GROUPS:
            columns = [i for i, (name, _) in enumerate(layer.neurons) if name == group]
            rows = states[sample, :, head][:, columns]
            expected = np.stack([rows.mean(1), rows.min(1), rows.max(1)], 1)
            np.testing.assert_allclose(found[group], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="head must be from 0 to 1, got 2"):
        centroids(recording, 0, head=2)
    with pytest.raises(ValueError, match="sample must be from 0 to 1, got -1"):
        centroids(recording, -1)


# Health


def sick_layer(**options):
    """A layer with an inter neuron that nothing hears, one that never changes, and values at their bounds."""
    layer = NAC(16, 2, **options)
    weights = layer.backbone.weights
    with torch.no_grad():
        table = weights.recurrent_weight
        unheard, still = layer.backbone.wiring.group("inter")[:2]
        table.weight[1, table.index // table.shape[1] == unheard] = 0
        for name in ("input_weight", "recurrent_weight"):
            table = getattr(weights, name)
            table.weight[0, table.index % table.shape[1] == still] = 0
        layer.value_gate.weights.input_weight.weight *= 1e6
    return layer


FEW = {"causal": True, "top_k": 3}
PLUS = {"clock": 3, "match": "start", "sensory_activation": "sigmoid"}
CASES = [({}, False, False), (FEW, True, False), (FEW, False, True), (PLUS, True, True), ({}, True, True)]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in CASES[:-1]]


@pytest.mark.parametrize(("options", "padded", "timed"), [*SLOW, CASES[-1]])
def test_health_is_what_the_certificate_says(tmp_path, options, padded, timed, either_path):
    layer, x = sick_layer(**options), torch.randn(3, 30, 16)
    time = torch.rand(3, 30).cumsum(1) if timed else None
    padding = None
    if padded:
        padding = torch.arange(30) >= torch.tensor([[30], [12], [1]])
        padding[0, 4] = True
        x[padding] = torch.nan
    found = health(record(layer, x, time, padding, out=tmp_path / "r"))
    certificate = nacre.certify(layer, x, time, padding)
    assert found.dead_neurons == certificate.dead
    assert found.saturated_neurons == certificate.saturated
    assert found.left_out == certificate.left_out
    assert found.dead["inter"] == 2
    assert found.saturated["value"] == 16
    assert sum(found.dead.values()) == len(certificate.dead)
    assert found.neurons == {"query": 16, "key": 16, "value": 16} | {
        group: 2 * len(layer.backbone.wiring.group(group)) for group in ("inter", "command", "motor")
    } | ({"clock": 12} if "clock" in options else {})
    np.testing.assert_allclose(found.keys_mean, [h.keys_mean for h in certificate.heads], rtol=1e-5)
    np.testing.assert_allclose(found.keys_min, [h.keys_min for h in certificate.heads], rtol=1e-5)
    layer.eval()
    _, trace = layer(x.nan_to_num(), time=time, key_padding_mask=padding, return_trace=True)
    keys = torch.special.entr(trace.weights.double()).sum(-1).exp()
    np.testing.assert_allclose(found.keys_max, keys.detach().amax((0, 2)), rtol=1e-5)
    for name in ("phi", "omega"):
        spread = [getattr(trace, name)[:, h][trace.valid[:, h]].std(correction=0).item() for h in range(2)]
        np.testing.assert_allclose(getattr(found, f"{name}_std"), spread, rtol=1e-4)


def kept_outputs(monkeypatch):
    """What the model answers while it is looked at."""
    seen = []

    def keep(*given):
        seen.append(outputs_of(*given))
        return seen[-1]

    monkeypatch.setattr(health_module, "outputs_of", keep)
    return seen


@pytest.mark.slow
def test_health_of_one_of_two_layers(tmp_path, monkeypatch):
    """The second layer is given what it was given, without stamps."""
    encoder = nacre.NACEncoder(nacre.NACConfig(d_model=16, num_heads=2), num_layers=2)
    with torch.no_grad():
        encoder.layers[1].attention.value_gate.weights.input_weight.weight *= 1e6
    recording = record(encoder, torch.randn(2, 20, 16), out=tmp_path / "r")
    seen = kept_outputs(monkeypatch)
    first, second = (health(recording, name) for name in recording.layers)
    said = torch.cat([y.curve for y in seen[:2]]).numpy()
    np.testing.assert_allclose(said, np.asarray(recording.array("output")), rtol=1e-5, atol=1e-5)
    assert (first.saturated["value"], second.saturated["value"]) == (0, 16)


@pytest.mark.slow
def test_health_of_a_drive_sees_all_of_its_windows(tmp_path, monkeypatch):
    """Batches of windows cover the drive, with the frames before each batch."""
    for seed in range(3):
        write_episode(tmp_path / "carracing", episode(seed, AT_ONCE + 5))  # all labels occur in each
    run = write_drive_run(tmp_path / "run")
    recipe = replace(load_recipe(run / "recipe.toml"), split=SplitRecipe("group", 3))
    (run / "recipe.toml").write_text(to_toml(recipe))
    recording = record_run(run, 1, data_dir=tmp_path)
    seen = kept_outputs(monkeypatch)
    found = health(recording)
    said = torch.cat([y.answer for y in seen]).numpy()
    np.testing.assert_allclose(said, np.asarray(recording.array("output")[0]), rtol=1e-5, atol=1e-5)
    assert len(seen) == 2
    assert found.neurons["query"] == recording.model().layer.blocks[0].attention.config.d_model


@saveable("nac across in a test")
class Across(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nac = NAC(8, 2)

    def forward(self, x):
        return self.nac(x, x[:, :5], x[:, :5])

    def to_config(self):
        return {}

    @classmethod
    def from_config(cls, data):
        return cls()


def test_health_of_cross_attention_is_refused(tmp_path):
    recording = record(Across(), torch.randn(1, 12, 8), out=tmp_path / "r")
    with pytest.raises(ValueError, match="layer must attend to its own steps, got 12 queries and 5 keys"):
        health(recording)


def test_health_needs_a_model(tmp_path):
    recording = record(torch.nn.Sequential(NAC(8, 2)), torch.randn(1, 12, 8), out=tmp_path / "r")
    with pytest.raises(ValueError, match="holds no model"):
        health(recording)


# Strengths


def test_strengths_are_the_weights_that_act():
    layer = NAC(16, 2)
    wiring, weights = layer.backbone.wiring, layer.backbone.weights
    with torch.no_grad():
        weights.input_scale.weight.uniform_(0.5, 2)
        weights.input_weight.weight[1, :3] *= -1
        weights.recurrent_weight.weight[0, 5] *= -1
        weights.recurrent_weight.weight[0, 6] = 0
    found = strengths(layer)
    assert found.flipped_inputs.tolist() == [0, 3]
    assert found.flipped_recurrent.tolist() == [1, 0]
    assert found.flipped.tolist() == [1, 3]
    # Neurons that settle from rest with these strengths are those of the layer.
    _, trace = layer.eval()(torch.randn(1, 3, 16), return_trace=True)
    bias, motor = weights.drive()[1].detach().numpy(), list(wiring.group("motor"))
    for head in range(2):
        pair = trace.query[0, head, 2], trace.key[0, head, trace.index[0, head, 2, 1]]
        drive, x = torch.cat(pair).detach().numpy() @ found.inputs[head] + bias[head], np.zeros(wiring.num_neurons)
        for _ in range(layer.backbone.settle_steps):
            x = np.tanh(drive + x @ found.recurrent[head])
        np.testing.assert_allclose(x[motor], trace.motor[0, head, 2, 1].detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.inputs[1] != 0, wiring.input_adjacency != 0)
    assert found.synapses == (found.inputs[1] != 0).sum() + (found.recurrent[1] != 0).sum()
    every = found.strongest(0, 10**6)
    assert len(every) == found.synapses - 1
    assert [abs(s.weight) for s in every] == sorted((abs(s.weight) for s in every), reverse=True)
    for s in every[::29]:
        to = wiring.group(s.target_group)[s.target]
        if s.source_group in ("query", "key"):
            assert found.inputs[0, s.source + 8 * (s.source_group == "key"), to] == s.weight
        else:
            assert found.recurrent[0, wiring.group(s.source_group)[s.source], to] == s.weight
    assert every[:3] == found.strongest(0, 3)
    assert {s.source_group for s in every} == {"query", "key", "inter", "command"}


def test_strengths_of_shared_and_named_layers():
    shared = NAC(16, 2, share_backbone=True)
    found = strengths(shared)
    assert found.inputs.shape[0] == found.recurrent.shape[0] == 2
    assert found.strongest(0, 9) == found.strongest(1, 9)
    encoder = nacre.NACEncoder(nacre.NACConfig(d_model=16, num_heads=2), num_layers=2)
    assert strengths(encoder, "layers.1.attention").layer == "layers.1.attention"
    with pytest.raises(ValueError, match="layer must name a NAC layer of the model, got None; there are layers.0"):
        strengths(encoder)
    with pytest.raises(ValueError, match="head must be from 0 to 1, got 2"):
        found.strongest(2, 1)


def test_strengths_of_a_wiring_without_recurrence():
    wiring = Wiring(np.zeros((2, 2)), np.array([[1, -1]] * 16), ("motor", "motor"))
    found = strengths(NAC(16, 2, wiring=wiring))
    assert not found.recurrent.any()
    assert found.synapses == 32
    assert {(s.target_group, s.target) for s in found.strongest(1, 40)} == {("motor", 0), ("motor", 1)}
