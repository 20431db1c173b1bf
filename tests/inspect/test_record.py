"""A recording holds what the forward pass computed, to the last bit, and a failed one leaves nothing behind."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import nacre
from nacre.inspect import record
from nacre.inspect.recording.hooks import layers_of, watching
from nacre.inspect.recording.layer_writer import SENSORY
from nacre.layer import pairs
from nacre.layer.trace import BACKBONE, TraceBuilder
from nacre.native import library
from support.inspect_recordings import STEPS, WIDTH, Cross, Two, assert_holds, bits, padded, sequences

# Bit by bit


OPTIONS = [
    {},
    {"causal": True},
    {"top_k": None},
    {"top_k": None, "causal": True},
    {"mode": "steady", "integrate": False},
    {"match": "both"},
    {"match": "start", "clock": 3, "near": 4, "sensory_activation": "identity"},
    {"share_backbone": True},
    {"activation": "gelu"},
    {"activation": "sigmoid", "mode": "euler"},
    {"top_k": 50},
]


def assert_recorded_bit_by_bit(options, out, *, chunks, kernels, padding):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "CHUNK_NUMBERS", 2**12 if chunks else 2**21)
        if not kernels:
            patch.setattr(library, "runs", lambda *tensors: False)
        model = nacre.NAC(WIDTH, 2, **options).eval()
        x, time = sequences()
        with torch.no_grad():
            plain = model(x, time=time, key_padding_mask=padding)
            traced, trace = model(x, time=time, key_padding_mask=padding, return_trace=True)
        recording = record(model, x, time, padding, out=out)
        assert_holds(recording.layers["nac"], trace)
        assert np.array_equal(bits(recording.array("output")[...]), bits(plain))
        assert torch.equal(plain, traced)
        assert torch.equal(plain, model(x, time=time, key_padding_mask=padding))
    assert np.array_equal(bits(recording.array("x")[...]), bits(x))
    assert np.array_equal(np.asarray(recording.array("time")[...]), time.double().numpy())
    assert recording.has("padding") == (padding is not None)
    if padding is not None:
        assert np.array_equal(np.asarray(recording.array("padding")[...]), padding.numpy())
        assert [recording.layers["nac"].length(i) for i in range(3)] == [37, 20, 37]


WAYS = [
    {"chunks": True, "kernels": True, "padding": padded()},
    {"chunks": False, "kernels": False, "padding": padded()},
    {"chunks": False, "kernels": True, "padding": None},
    {"chunks": True, "kernels": False, "padding": padded()},
    {"chunks": False, "kernels": False, "padding": None},
    {"chunks": False, "kernels": True, "padding": padded()},
]


def test_a_recording_is_the_forward_pass_bit_by_bit(tmp_path):
    assert_recorded_bit_by_bit({}, tmp_path / "look", **WAYS[0])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(OPTIONS)))
def test_with_any_options_a_recording_is_the_forward_pass(number, tmp_path):
    assert_recorded_bit_by_bit(OPTIONS[number], tmp_path / "look", **WAYS[number % len(WAYS)])


@pytest.mark.deep
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_with_any_options_a_recording_is_the_forward_pass_in_every_way(options, tmp_path):
    for way in WAYS:
        assert_recorded_bit_by_bit(options, tmp_path / "look", **way)


def test_every_chunk_is_told_once_and_there_are_several(monkeypatch):
    """The chunks of the test above are real."""
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 2**12)
    told = []

    class Counts(TraceBuilder):
        def see(self, rows, gates, neurons):
            told.append(rows)
            super().see(rows, gates, neurons)

    x, time = sequences()
    layer = nacre.NAC(WIDTH, 2)
    with watching(layer, lambda name, layer: Counts()):
        layer(x, time=time, key_padding_mask=padded())
    assert len(told) > 5
    assert [r.start for r in told[1:]] == [r.stop for r in told[:-1]]
    assert (told[0].start, told[-1].stop) == (0, int((~padded()).sum()))


def test_without_time_a_recording_is_the_forward_pass_too(tmp_path):
    model, (x, _) = nacre.NAC(WIDTH, 2).eval(), sequences()
    y, trace = model(x, return_trace=True)
    recording = record(model, x, out=tmp_path / "look")
    layer = recording.layers["nac"]
    assert_holds(layer, trace)
    assert np.array_equal(bits(recording.array("output")[...]), bits(y.detach()))
    assert not layer.has("time")
    assert layer.time(0, 3, 7).tolist() == [3, 4, 5, 6]
    assert np.asarray(recording.array("time")[...]).tolist() == [list(range(STEPS))] * 3


def test_stamps_of_the_layer_are_those_of_its_steps(tmp_path):
    x, time = sequences()
    layer = record(nacre.NAC(WIDTH, 2), x, time, padded(), out=tmp_path / "look").layers["nac"]
    for sample in range(3):
        on = ~padded()[sample, : layer.length(sample)]
        want = time[sample, : layer.length(sample)].double()
        assert np.array_equal(layer.time(sample)[on.numpy()], want[on].numpy())
    assert np.array_equal(layer.time(0, 3, 10**6), time[0, 3:].double().numpy())


def test_stamps_of_all_rows_are_given_once(tmp_path):
    x, time = sequences()
    recording = record(nacre.NAC(WIDTH, 2), x, time[0], out=tmp_path / "look")
    for sample in range(3):
        assert np.array_equal(recording.layers["nac"].time(sample), time[0].double().numpy())


ALL_PAIRS, BOTH = {"top_k": None}, {"match": "both"}
EVERY = [
    pytest.param(*case, marks=pytest.mark.deep)
    for case in itertools.product([5, 11, STEPS, 60], [{}, ALL_PAIRS, BOTH], [True, False])
]
FEW = [(5, {}, True), (11, BOTH, False), (STEPS, {}, False), (60, ALL_PAIRS, True)]


@pytest.mark.parametrize(("keys", "options", "kernels"), FEW + EVERY)
def test_cross_attention_is_recorded_bit_by_bit(keys, options, kernels, monkeypatch, tmp_path):
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    model, (x, time) = Cross(keys, **options).eval(), sequences(2)
    k = model.memory.expand(2, -1, -1)
    y, trace = model.layer(x, k, 2 * k, time=time, key_time=model.stamps.expand(2, -1), return_trace=True)
    recording = record(model, x, time, out=tmp_path / "look")
    layer = recording.layers["layer"]
    assert_holds(layer, trace)
    assert np.array_equal(bits(recording.array("output")[...]), bits(y.detach()))
    means = np.asarray(layer.array("states")[...])
    if keys != STEPS:  # a step has no key of its own: what it attends to counts
        for name in ("key", "value"):
            table, column = getattr(trace, name), layer.column(name, 0)
            heard = torch.stack([table[b, h][trace.index[b, h]] for b in range(2) for h in range(2)])
            mean = (trace.weights.flatten(0, 1).unsqueeze(-1) * heard).sum(2).unflatten(0, (2, 2))
            got = means[..., column : column + 8]
            np.testing.assert_allclose(got, mean.detach().transpose(1, 2).numpy(), atol=1e-5)


@pytest.mark.slow
def test_layers_are_recorded_by_name_and_by_call(tmp_path):
    model, (x, time) = Two(), sequences()
    model.eval()
    padding = padded()
    given = {"time": time, "key_padding_mask": padding, "return_trace": True}
    with torch.no_grad():
        a, first = model.first(x, **given)
        b, second = model.second(a + 1, **given)
        c, again = model.first(b, **given)
    recording = record(model, x, time, padding, out=tmp_path / "look")
    assert list(recording.layers) == ["first", "second", "first#2"]
    for name, trace in zip(recording.layers, (first, second, again), strict=True):
        assert recording.layers[name].name == name
        assert_holds(recording.layers[name], trace)
    assert np.array_equal(bits(recording.array("output")[...]), bits(c))


@pytest.mark.slow
def test_a_stack_has_its_layers_by_name(tmp_path):
    model, (x, time) = nacre.NACEncoder(nacre.NACConfig(d_model=WIDTH, num_heads=2), 2).eval(), sequences()
    with torch.no_grad():
        plain = model(x, time=time, key_padding_mask=padded())
    traces = {}
    with watching(model, lambda name, layer: traces.setdefault(name, TraceBuilder())), torch.no_grad():
        model(x, time=time, key_padding_mask=padded())
    recording = record(model, x, time, padded(), out=tmp_path / "look")
    assert set(recording.layers) == set(layers_of(model))
    assert len(recording.layers) == 2
    for name, layer in recording.layers.items():
        assert_holds(layer, traces[name].trace())
    assert np.array_equal(bits(recording.array("output")[...]), bits(plain))


# What is kept


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    torch.manual_seed(0)
    model, (x, time) = nacre.NAC(WIDTH, 2, match="content").eval(), sequences()
    return model, x, time, padded(), record(model, x, time, padded(), out=tmp_path_factory.mktemp("one") / "look")


def test_means_are_those_of_the_pairs_by_attention_weight(one):
    layer = one[-1].layers["nac"]
    weights = np.asarray(layer.array("weights")[...], np.float64)
    states = np.asarray(layer.array("states")[...])
    column = 0
    for name in SENSORY:
        want = np.where(padded().numpy()[:, :, None, None], 0, np.asarray(layer.array(name)[...]))
        assert np.array_equal(states[..., column : column + 8], want)
        column += 8
    for name in BACKBONE:
        pairs = np.asarray(layer.array(name)[...], np.float64)
        assert layer.neurons[column] == (name, 0)
        want = (weights[..., None] * pairs).sum(3)
        np.testing.assert_allclose(states[..., column : column + pairs.shape[-1]], want, atol=1e-5)
        column += pairs.shape[-1]
    assert column == states.shape[-1] == len(layer.neurons) == sum(layer.sizes.values())


def test_gates_are_means_over_keys_and_how_many_keys_count(one):
    layer = one[-1].layers["nac"]
    assert layer.gates == ("phi", "omega", "t", "match", "logits", "keys")
    weights = np.asarray(layer.array("weights")[...], np.float64)
    gates = np.asarray(layer.array("gates")[...])
    for column, name in enumerate(layer.gates[:-1]):
        want = (weights * np.asarray(layer.array(name)[...])).sum(3)
        np.testing.assert_allclose(gates[..., column], want, atol=1e-5)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    on = np.asarray(layer.array("valid")[...]).any(3)
    want = np.where(on, np.exp(-(weights * logs).sum(3)), 0)
    np.testing.assert_allclose(gates[..., -1], want, rtol=1e-5)
    assert (gates[on][..., -1] >= 1 - 1e-6).all()
    assert not gates[~on].any()


def test_gate_names_are_those_that_the_layer_has(tmp_path):
    x, time = sequences(1)
    plain = record(nacre.NAC(WIDTH, 2), x, time, out=tmp_path / "a").layers["nac"]
    steady = record(nacre.NAC(WIDTH, 2, mode="steady", integrate=False), x, time, out=tmp_path / "b").layers["nac"]
    assert plain.gates == ("phi", "omega", "t", "logits", "keys")
    assert steady.gates == ("phi", "omega", "logits", "keys")
    assert plain.array("gates").shape[-1] == 5
    assert not steady.has("t")


def test_less_detail_keeps_the_same_means_and_gates(one, tmp_path):
    model, x, time, padding, full = one
    less = record(model, x, time, padding, out=tmp_path / "less", detail="means").layers["nac"]
    _, trace = model(x, time=time, key_padding_mask=padding, return_trace=True)
    assert_holds(less, trace, detail="means")
    for name in ("states", "gates"):
        assert np.array_equal(bits(less.array(name)[...]), bits(full.layers["nac"].array(name)[...]))


def test_half_precision_is_the_rounding_of_single(one, tmp_path):
    model, x, time, padding, full = one
    half = record(model, x, time, padding, out=tmp_path / "half", dtype="float16")
    _, trace = model(x, time=time, key_padding_mask=padding, return_trace=True)
    assert_holds(half.layers["nac"], trace, "float16")
    for name in ("states", "gates", "phi", "inter", "query"):
        array = half.layers["nac"].array(name)
        assert array.dtype == np.float16
        single = np.asarray(full.layers["nac"].array(name)[...])
        assert np.array_equal(np.asarray(array[...]), single.astype(np.float16))
    assert half.layers["nac"].array("time").dtype == np.float64
    assert half.layers["nac"].array("index").dtype == np.int32
    assert half.array("output").dtype == np.float32


def test_what_a_recording_says_of_itself(one):
    model, x, _, _, recording = one
    about, layer = recording.about, recording.layers["nac"]
    assert about.name == "NAC"
    assert about.samples == ("sample 0", "sample 1", "sample 2")
    assert recording.samples == 3
    assert about.features == tuple(f"x{i}" for i in range(WIDTH))
    assert about.outputs == tuple(f"y{i}" for i in range(WIDTH))
    assert layer.heads == 2
    assert layer.wiring.to_dict() == model.backbone.wiring.to_dict()
    assert list(layer.sizes.values())[3:] == [0, *(len(layer.wiring.group(g)) for g in BACKBONE)]
    assert not layer.shared
    assert (recording.length("x", 1), recording.length("output", 1)) == (STEPS, STEPS)
    assert np.array_equal(recording.curve("x", 1, 5, 9, 100)[1][:, 2], x[1, 5:9].numpy())
    assert np.array_equal(recording.curve("x", 1, 35, 99, 100)[0], [35, 36])
    with pytest.raises(ValueError, match="'psi'; there are .*phi"):
        layer.array("psi")


def test_a_model_may_answer_once_for_a_sequence(tmp_path):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nacre.NAC(WIDTH, 2)

        def forward(self, x):
            return self.layer(x)[:, -1, :3]

    model, (x, _) = Last(), sequences()
    recording = record(model, x, torch.arange(STEPS).expand(3, -1), out=tmp_path / "look")
    assert np.array_equal(np.asarray(recording.array("output")[:, 0]), model(x).detach().numpy())
    assert recording.length("output", 0) == 1


def test_long_recordings_have_levels_and_curves(tmp_path):
    model, (x, time) = nacre.NAC(8, 2), sequences(1, 2100, 8)
    recording = record(model, x, time, out=tmp_path / "look", detail="means")
    layer = recording.layers["nac"]
    for name in ("states", "gates"):
        rows = np.asarray(layer.array(name)[0])
        level = np.asarray(layer.array(f"{name}.8")[0])
        assert np.array_equal(level[:, 0], np.minimum.reduceat(rows, np.arange(0, 2100, 8)))
        assert np.array_equal(level[:, 1], np.maximum.reduceat(rows, np.arange(0, 2100, 8)))
        first, got = layer.curve(name, 0, 1, 0, 2100, 250)
        assert np.array_equal(first, np.arange(0, 2100, 8))
        assert np.array_equal(got, level[:, :, 1])
    assert np.array_equal(recording.curve("output", 0, 0, 2100, 250)[0], np.arange(0, 2100, 8))
    for name in ("x", "output"):
        rows = np.asarray(recording.array(name)[0])
        level = np.asarray(recording.array(f"{name}.8")[0])
        assert np.array_equal(level[:, 0], np.minimum.reduceat(rows, np.arange(0, 2100, 8)))
        assert np.array_equal(level[:, 1], np.maximum.reduceat(rows, np.arange(0, 2100, 8)))
