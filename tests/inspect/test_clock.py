"""Clock neurons in recordings and under lesions."""

import copy

import numpy as np
import pytest
import torch
import zarr
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.inspect import Lesion, Recording, lesion_study, lesioned, record
from nacre.inspect.analysis.lesion import size_of
from nacre.inspect.analysis.strengths import head_weights, strengths
from nacre.inspect.recording.writer import STORE
from nacre.native import library
from support.hypothesis import examples
from support.inspect_lesions import (
    EACH,
    HEADS,
    assert_like_the_slow_way,
    clock_of,
    inputs,
    layer_of,
    reference,
    run,
    same_trace,
)
from support.inspect_recordings import STEPS, WIDTH, assert_holds, padded, sequences

CLOCK = 3
PLUS = {"clock": CLOCK, "match": "start", "near": 4, "phi": "linear", "sensory_activation": "identity"}

# Lesions


def test_the_slow_way_is_the_layer_itself_where_nothing_is_silent():
    for options in ({"clock": CLOCK, "time_scale": 0.3}, PLUS, {**PLUS, "integrate": False, "mode": "euler"}):
        layer = layer_of(**options)
        y, trace = run(layer)
        phi, omega, out = reference(layer, trace, [()] * HEADS)
        for got, want in ((trace.phi, phi), (trace.omega, omega), (y, out)):
            torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@examples(30)
@given(data=st.data(), seed=st.integers(0, 3), kernels=st.booleans(), shared=st.booleans())
def test_a_silent_clock_neuron_is_one_whose_state_is_zero(data, seed, kernels, shared):
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr(library, "library", lambda: None)
        layer = layer_of(seed, share_backbone=shared, **data.draw(st.sampled_from([{"clock": CLOCK}, PLUS])))
        group = data.draw(st.sampled_from(["clock", "clock", "inter", "command"]))
        index = data.draw(st.none() | st.integers(0, size_of(layer, group) - 1))
        head = data.draw(st.none() | st.integers(0, HEADS - 1))
        before, plain, y, trace = assert_like_the_slow_way(layer, Lesion(group, index, head))
        assert not torch.equal(before, y)
        if head is not None and not shared:
            assert same_trace(plain, trace, slice(1 - head, 2 - head))


def test_silent_clocks_leave_all_else_as_it_was():
    layer = layer_of(**PLUS)
    quiet = lesioned(layer, [Lesion("clock")])
    changed = [n for n, v in quiet.state_dict().items() if not torch.equal(v, layer.state_dict()[n])]
    assert changed == ["backbone.weights.input_scale.weight"]
    scale, old = (x.backbone.weights.input_scale for x in (quiet, layer))
    assert not scale.dense()[:, 2 * EACH :].any()
    assert torch.equal(scale.dense()[:, : 2 * EACH], old.dense()[:, : 2 * EACH])
    (_, plain), (_, trace) = run(layer), run(quiet)
    for name in ("query", "key", "value", "index", "valid", "t", "match", "clock"):
        assert torch.equal(getattr(plain, name), getattr(trace, name)), name
    assert not torch.equal(plain.inter, trace.inter)


def test_without_clocks_the_circuit_does_not_know_the_time():
    layer = layer_of(clock=CLOCK, mode="steady", integrate=False, top_k=None)
    x, time = inputs()
    quiet = lesioned(layer, [Lesion("clock", i) for i in range(2 * CLOCK)])
    with torch.no_grad():
        torch.testing.assert_close(quiet(x, time=time), quiet(x, time=3 * time), rtol=0, atol=1e-12)
        assert (layer(x, time=time) - layer(x, time=3 * time)).abs().max() > 1e-3


def test_a_synapse_of_a_clock_neuron_can_be_cut():
    layer = layer_of(**PLUS)
    weights, wiring = layer.backbone.weights, layer.backbone.wiring
    row = 2 * EACH + 4
    targets = np.flatnonzero(wiring.input_adjacency[row])
    assert len(targets)
    for to in targets:
        name = (wiring.groups[to], wiring.group(wiring.groups[to]).index(to))
        cut = lesioned(layer, [Lesion("clock", 4, 1, target=name)])
        want, there = copy.deepcopy(layer), weights.input_weight.index == row * wiring.num_neurons + to
        with torch.no_grad():
            want.backbone.weights.input_weight.weight[1, there] = 0
        for (key, a), (_, b) in zip(cut.state_dict().items(), want.state_dict().items(), strict=True):
            assert torch.equal(a, b), key
    assert str(Lesion("clock", 4, 1, ("inter", 2))) == "the synapse from clock 4 to inter 2 of head 1"
    with pytest.raises(ValueError, match="there is no synapse from clock 4 to motor 0"):
        lesioned(layer, [Lesion("clock", 4, 1, ("motor", 0))])


def test_clock_neurons_that_are_not_there_are_refused():
    for lesion in (Lesion("clock"), Lesion("clock", 0), Lesion("clock", 0, target=("inter", 0))):
        with pytest.raises(ValueError, match="the layer has no clock neurons"):
            lesioned(layer_of(), [lesion])
    with pytest.raises(ValueError, match="index must be from 0 to 5 among the clock neurons, got 6"):
        lesioned(layer_of(clock=CLOCK), [Lesion("clock", 2 * CLOCK)])


@pytest.mark.parametrize("activation", ["identity", "sigmoid"])
def test_values_fall_silent_whatever_their_activation(activation):
    layer = layer_of(**{**PLUS, "sensory_activation": activation})
    _, plain = run(layer)
    y, trace = run(lesioned(layer, [Lesion("value")]))
    shift = layer.value_gate.weights.output_shift.detach().view(HEADS, 1, EACH)
    assert torch.equal(trace.value, shift.expand_as(trace.value))
    assert torch.equal(plain.weights, trace.weights)
    share = (plain.weights * plain.t).sum(-1).transpose(1, 2)  # [B, T, H]
    with torch.no_grad():
        want = layer.out_proj((share.unsqueeze(-1) * shift.squeeze(1)).flatten(2))
    torch.testing.assert_close(y, want, atol=1e-9, rtol=0)


def test_a_study_knows_the_clock(tmp_path):
    layer = layer_of(dtype=torch.float32, **PLUS)
    x, time = inputs(torch.float32)
    recording = record(layer, x, time, out=tmp_path / "look")
    lesions = [Lesion("clock"), Lesion("clock", head=1), Lesion("clock", 2, head=0), Lesion("value", head=0)]
    study = lesion_study(recording, lesions)
    before = layer(x, time=time).detach()
    spread = before.flatten(0, 1).std(0, correction=0)
    for lesion, row in zip(lesions, study.rows, strict=True):
        after = lesioned(layer, [lesion])(x, time=time).detach()
        assert row.change == pytest.approx(((after - before).abs() / spread).mean().item(), rel=1e-4)
        assert row.change > 1e-4


# Strengths


def test_strengths_name_clock_neurons(tmp_path):
    layer = layer_of(**PLUS)
    with torch.no_grad():
        table = layer.backbone.weights.input_weight
        table.weight[0, (table.index // table.shape[1] == 2 * EACH + 5).nonzero()[0]] = 99.0
    found = strengths(layer)
    first = found.strongest(0, 1)[0]
    assert (first.source_group, first.source) == ("clock", 5)
    assert found.sources[EACH + 1] == ("key", 1)
    recording = record(layer.float(), *(x.float() for x in inputs()), out=tmp_path / "look")
    seen = recording.layers["nac"]
    assert tuple(seen.inputs) == found.sources
    np.testing.assert_allclose(head_weights(recording, seen, 1)[0], found.inputs[1], rtol=1e-5)


# Recordings


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("detail", ["pairs", "means"])
def test_a_recording_holds_the_clock_bit_by_bit(detail, kernels, tmp_path, monkeypatch):
    if not kernels:
        monkeypatch.setattr(library, "library", lambda: None)
    layer = nacre.NAC(WIDTH, 2, causal=True, **PLUS).eval()  # first steps have fewer keys
    x, time = sequences()
    with torch.no_grad():
        _, trace = layer(x, time=time, key_padding_mask=padded(), return_trace=True)
    seen = record(layer, x, time, padded(), out=tmp_path / "look", detail=detail).layers["nac"]
    assert_holds(seen, trace, detail=detail)
    assert seen.sizes["clock"] == 2 * CLOCK
    assert seen.clock_scales == [0.25, 1, 4]
    columns = [seen.column("clock", i) for i in range(2 * CLOCK)]
    assert columns == list(range(3 * WIDTH // 2, 3 * WIDTH // 2 + 2 * CLOCK))
    states, weights = np.asarray(seen.array("states")[...]), trace.weights.transpose(1, 2).unsqueeze(-1)
    want = (weights * trace.clock.transpose(1, 2)).sum(3)
    np.testing.assert_allclose(states[..., columns], want, rtol=1e-5, atol=1e-6)
    inter = [seen.column("inter", i) for i in range(seen.sizes["inter"])]
    np.testing.assert_allclose(states[..., inter], (weights * trace.inter.transpose(1, 2)).sum(3), atol=1e-6)


def test_the_recorded_clock_shows_the_time_from_key_to_query(tmp_path):
    layer = nacre.NAC(WIDTH, 2, clock=CLOCK, time_scale=0.5).eval()
    x, time = sequences()
    seen = record(layer, x, time, out=tmp_path / "look").layers["nac"]
    stamps, index = time.double().numpy(), np.asarray(seen.array("index")[...])  # [B, T, H, K]
    for sample in range(3):
        for head in range(2):
            want = clock_of(layer, stamps[sample][index[sample, :, head]], stamps[sample])
            got = np.asarray(seen.array("clock")[sample, :, head])
            np.testing.assert_allclose(got, want, atol=1e-5)
    assert seen.clock_scales == [0.125, 0.5, 2]
    counted = record(layer, x, out=tmp_path / "steps").layers["nac"]
    assert counted.clock_scales == [0.25, 1, 4]  # in steps
    step, index = np.arange(STEPS), np.asarray(counted.array("index")[0, :, 0])
    got = np.asarray(counted.array("clock")[0, :, 0, :, CLOCK + 1])
    np.testing.assert_allclose(got, np.sin(step[:, None] - index), atol=1e-5)


def test_recordings_from_before_there_were_clocks_still_open(tmp_path):
    x, time = sequences()
    new = record(nacre.NAC(WIDTH, 2), x, time, out=tmp_path / "look").layers["nac"]
    group = zarr.open_group(tmp_path / "look" / STORE, mode="r+")["layers/0-nac"]
    for name in ("clock", "time_scale", "starts"):
        del group.attrs[name]
    old = Recording(tmp_path / "look").layers["nac"]
    assert old.sizes == new.sizes
    assert old.sizes["clock"] == 0
    assert old.neurons == new.neurons
    assert (old.clock_scales, old.inputs, old.starts) == ([], new.inputs, False)
