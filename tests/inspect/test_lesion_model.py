"""Synapses that are cut, neurons that nobody hears, copies of the model, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nacre
from nacre.inspect import Lesion, lesioned
from nacre.layer.trace import BACKBONE
from nacre.native import library
from support.hypothesis import examples
from support.inspect_lesions import (
    EACH,
    LONELY,
    WIDTH,
    assert_like_the_slow_way,
    layer_of,
    odd_wiring,
    run,
    same_trace,
    state_of,
)

# Synapses


def synapses_of(layer):
    """All synapses that exist: group, number, target, and the table and place of the weight."""
    weights, wiring = layer.backbone.weights, layer.backbone.wiring
    who = {n: (g, i) for g in BACKBONE for i, n in enumerate(wiring.group(g))}
    found = []
    for place, flat in enumerate(weights.recurrent_weight.index.tolist()):
        source, target = divmod(flat, wiring.num_neurons)
        found.append((*who[source], who[target], "recurrent_weight", place))
    for place, flat in enumerate(weights.input_weight.index.tolist()):
        source, target = divmod(flat, wiring.num_neurons)
        found.append((("query", "key")[source // EACH], source % EACH, who[target], "input_weight", place))
    return found


@examples(40)
@given(data=st.data(), shared=st.booleans())
def test_a_cut_synapse_is_a_weight_of_zero(data, shared):
    layer = layer_of(share_backbone=shared, dtype=torch.float32)
    group, index, target, table, place = data.draw(st.sampled_from(synapses_of(layer)))
    head = data.draw(st.sampled_from([None, 0, 1]))
    cut = lesioned(layer, [Lesion(group, index, head, target)])
    want = copy.deepcopy(layer)
    with torch.no_grad():
        weight = getattr(want.backbone.weights, table).weight
        weight[slice(None) if head is None or shared else head, place] = 0
    for (name, a), (_, b) in zip(cut.state_dict().items(), want.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert not torch.equal(getattr(layer.backbone.weights, table).weight, weight)


def test_cutting_all_that_a_neuron_says_changes_the_gates_like_silencing_it():
    layer = layer_of()
    said = [s for s in synapses_of(layer) if s[:2] == ("command", 0)]
    assert said
    cut = run(lesioned(layer, [Lesion("command", 0, 1, s[2]) for s in said]))
    silent = run(lesioned(layer, [Lesion("command", 0, 1)]))
    torch.testing.assert_close(cut[0], silent[0], atol=1e-12, rtol=0)
    assert cut[1].command[..., 0].any()  # it goes on, unheard


# What nobody hears


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_a_neuron_that_is_heard_with_weight_zero_changes_nothing_when_silenced(activation, kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer = layer_of(dtype=torch.float32, activation=activation)
    layer = lesioned(layer, [Lesion("inter", 2, None, s[2]) for s in synapses_of(layer) if s[:2] == ("inter", 2)])
    before, plain = run(layer)
    y, trace = run(lesioned(layer, [Lesion("inter", 2)]))
    assert torch.equal(before, y)
    assert torch.equal(plain.phi, trace.phi)
    assert torch.equal(plain.omega, trace.omega)
    assert not torch.equal(plain.inter, trace.inter)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_a_neuron_that_the_layer_leaves_out_changes_nothing_when_silenced(activation):
    layer = layer_of(wiring=odd_wiring(), dtype=torch.float32, activation=activation)
    index = layer.backbone.wiring.group("inter").index(LONELY)
    assert LONELY not in layer.backbone.last_rows
    before, plain = run(layer)
    y, trace = run(lesioned(layer, [Lesion("inter", index)]))
    assert torch.equal(before, y)
    assert same_trace(plain, trace)


# The model, copies, order


def many(layer):
    return [
        Lesion("inter", 1, 0),
        Lesion("command", 2),
        Lesion("motor", 1, 1),
        Lesion("query", 4, 1),
        Lesion(*synapses_of(layer)[0][:2], 0, synapses_of(layer)[0][2]),
        Lesion("value", None, 0),
    ]


def test_the_model_itself_is_left_alone():
    layer = layer_of().train()
    before = state_of(layer)
    quiet = lesioned(layer, many(layer))
    assert quiet is not layer
    assert quiet.training
    assert {p.data_ptr() for p in layer.parameters()}.isdisjoint(p.data_ptr() for p in quiet.parameters())
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.requires_grad for p in quiet.parameters())
    assert any(not torch.equal(v, before[name]) for name, v in quiet.state_dict().items())


@examples(15)
@given(order=st.permutations(range(6)))
def test_the_order_of_lesions_and_how_often_they_come_do_not_matter(order):
    layer = layer_of()
    want = lesioned(layer, many(layer)).state_dict()
    lesions = [many(layer)[i] for i in order]
    step_by_step = layer
    for lesion in lesions:
        step_by_step = lesioned(step_by_step, [lesion])
    for got in (lesioned(layer, iter([*lesions, lesions[0]])), step_by_step):
        for name, value in got.state_dict().items():
            assert torch.equal(value, want[name]), name


def test_no_lesion_changes_nothing():
    layer = layer_of()
    a, b = run(layer), run(lesioned(layer, []))
    assert torch.equal(a[0], b[0])
    assert same_trace(a[1], b[1])


def test_a_shared_circuit_is_silenced_for_all_heads_and_sensory_neurons_are_not():
    layer = layer_of(share_backbone=True)
    for group in BACKBONE:
        _, trace = run(lesioned(layer, [Lesion(group, 0, head=1)]))
        assert not getattr(trace, group)[..., 0].any()
    _, plain = run(layer)
    _, trace = run(lesioned(layer, [Lesion("value", 0, head=1)]))
    assert torch.equal(plain.value[:, 0], trace.value[:, 0])
    assert not torch.equal(plain.value[:, 1], trace.value[:, 1])


def test_one_layer_of_several_is_lesioned_by_its_name():
    model = nacre.NACEncoder(nacre.NACConfig(d_model=WIDTH, num_heads=2), 2)
    names = [n for n, m in model.named_modules() if isinstance(m, nacre.NAC)]
    quiet = lesioned(model, [Lesion("command", 0, layer=names[1])])
    changed = [n for n, v in quiet.state_dict().items() if not torch.equal(v, model.state_dict()[n])]
    assert changed
    assert all(n.startswith(names[1]) for n in changed)


# Words, and what is refused


def test_a_lesion_in_words():
    assert str(Lesion("inter", 3, 1)) == "inter 3 of head 1"
    assert str(Lesion("inter", 0, 0)) == "inter 0 of head 0"
    assert str(Lesion("motor")) == "all motor neurons of all heads"
    words = "the synapse from query 2 to inter 5 of all heads"
    assert str(Lesion("query", 2, None, ("inter", 5))) == words


def test_what_the_model_does_not_have_is_refused_by_name():
    wrong = [
        (Lesion("comand", 0), "group must be one of .* got 'comand'; did you mean 'command'"),
        (Lesion("inter", 10**6), "index must be from 0 to .* among the inter neurons, got 1000000"),
        (Lesion("inter", -1), "index must be from 0 to .* got -1"),
        (Lesion("motor", 2), "index must be from 0 to 1 among the motor neurons, got 2"),
        (Lesion("value", EACH), "index must be from 0 to 7 among the value neurons, got 8"),
        (Lesion("inter", 0, head=2), "head must be from 0 to 1, got 2"),
        (Lesion("inter", 0, head=-1), "head must be from 0 to 1, got -1"),
        (Lesion("inter", 0, target=("query", 0)), "target must be one of 'inter', .*, got 'query'"),
        (Lesion("inter", 0, target=("command", 99)), "index must be from 0 to .* the command neurons, got 99"),
        (Lesion("inter", None, target=("command", 0)), "a synapse leads from one neuron to another"),
        (Lesion("value", 0, target=("inter", 0)), "value neurons have no synapses in the circuit"),
        (Lesion("motor", 0, target=("inter", 0)), "there is no synapse from motor 0 to inter 0"),
        (Lesion("query", 0, target=("motor", 0)), "there is no synapse from query 0 to motor 0"),
        (Lesion("inter", 0, layer="layer"), "layer must name a NAC layer, got 'layer'; there are nac"),
        (Lesion("inter", 0, layer="nac#2"), "layer must name a NAC layer, got 'nac#2'; did you mean 'nac'"),
    ]
    layer = layer_of()
    before = state_of(layer)
    for lesion, message in wrong:
        with pytest.raises(ValueError, match=message):
            lesioned(layer, [Lesion("inter", 0), lesion])
    assert all(torch.equal(v, before[n]) for n, v in layer.state_dict().items())


def test_one_of_several_layers_has_to_be_named():
    model = nacre.NACEncoder(nacre.NACConfig(d_model=WIDTH, num_heads=2), 2)
    with pytest.raises(ValueError, match="layer must name a NAC layer, got None; .*attention"):
        lesioned(model, [Lesion("inter", 0)])
    with pytest.raises(ValueError, match="model must have a nacre.NAC layer"):
        lesioned(nn.Linear(2, 2), [Lesion("inter", 0)])


def test_a_wiring_without_synapses_between_neurons_has_none_to_cut():
    feeds = np.ones((2 * EACH, 3), np.int8)
    wiring = nacre.Wiring(np.zeros((3, 3), np.int8), feeds, ("motor", "inter", "motor"))
    layer = layer_of(wiring=wiring)
    assert layer.backbone.weights.recurrent_weight is None
    with pytest.raises(ValueError, match="there is no synapse from inter 0 to motor 1"):
        lesioned(layer, [Lesion("inter", 0, target=("motor", 1))])
    for index in (0, 1):
        assert_like_the_slow_way(layer, Lesion("motor", index, head=0))
    assert torch.equal(run(layer)[0], run(lesioned(layer, [Lesion("inter", 0)]))[0])
