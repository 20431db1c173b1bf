"""Lesions: what is silenced is silent, all else is as it was, and the model itself is left alone."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nacre.inspect import Lesion, lesioned
from nacre.inspect.analysis.lesion import size_of
from nacre.inspect.recording.recording import GROUPS
from nacre.layer.trace import BACKBONE
from nacre.native import library
from nacre.native.activations import ACTIVATIONS
from support.hypothesis import examples
from support.inspect_lesions import (
    EACH,
    HEADS,
    assert_like_the_slow_way,
    layer_of,
    odd_wiring,
    reference,
    run,
    same_trace,
)

# The neuron against the slow way


def test_the_slow_way_is_the_layer_itself_where_nothing_is_silent():
    layer = layer_of()
    y, trace = run(layer)
    phi, omega, out = reference(layer, trace, [()] * HEADS)
    torch.testing.assert_close(phi, trace.phi, atol=1e-9, rtol=0)
    torch.testing.assert_close(omega, trace.omega, atol=1e-9, rtol=0)
    torch.testing.assert_close(out, y, atol=1e-9, rtol=0)


def test_a_silent_neuron_is_one_whose_state_is_zero_at_every_settle_step():
    for number, activation in enumerate(ACTIVATIONS):
        layer = layer_of(activation=activation)
        for group in BACKBONE:
            index = 0 if number % 2 else size_of(layer, group) - 1
            assert_like_the_slow_way(layer, Lesion(group, index, head=1))


def test_options_make_no_difference_to_what_silent_means():
    for options in ({"bias": False}, {"share_backbone": True}, {"mode": "euler"}):
        for group, activation in zip(BACKBONE, ("tanh", "sigmoid", "sigmoid"), strict=True):
            assert_like_the_slow_way(layer_of(activation=activation, **options), Lesion(group, 1, head=0))


def test_wirings_make_no_difference_either():
    for wiring in ("random", "dense", "ncp", "mlp"):
        layer = layer_of(wiring=wiring, settle_steps=6)
        for group in BACKBONE:
            if size_of(layer, group):
                assert_like_the_slow_way(layer, Lesion(group, 0))


@pytest.mark.parametrize(
    "activation", [pytest.param(a, marks=() if a == "sigmoid" else pytest.mark.deep) for a in ACTIVATIONS]
)
def test_neurons_that_speak_back_are_silent_to_all(activation):
    layer = layer_of(wiring=odd_wiring(), activation=activation, settle_steps=7)
    for group in BACKBONE:
        for index in range(size_of(layer, group)):
            assert_like_the_slow_way(layer, Lesion(group, index, head=index % 2))
        assert_like_the_slow_way(layer, Lesion(group))


@examples(30)
@given(data=st.data(), seed=st.integers(0, 3), kernels=st.booleans())
def test_any_neuron_of_any_head_can_be_silenced(data, seed, kernels):
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr(library, "runs", lambda *tensors: False)
        layer = layer_of(seed, activation=data.draw(st.sampled_from(sorted(ACTIVATIONS))))
        group = data.draw(st.sampled_from(BACKBONE))
        index = data.draw(st.none() | st.integers(0, size_of(layer, group) - 1))
        head = data.draw(st.none() | st.integers(0, HEADS - 1))
        _, plain, _, trace = assert_like_the_slow_way(layer, Lesion(group, index, head))
        if head is not None:
            assert same_trace(plain, trace, slice(1 - head, 2 - head))


def test_a_silent_neuron_shows_state_zero_and_other_heads_change_no_bit():
    layer = layer_of(dtype=torch.float32)
    _, plain = run(layer)
    for group, head in itertools.product(BACKBONE, (0, 1, None)):
        case = f"{group}, head {head}"
        _, trace = run(lesioned(layer, [Lesion(group, 1, head)]))
        some = slice(None) if head is None else slice(head, head + 1)
        assert not getattr(trace, group)[:, some, ..., 1].any(), case
        assert getattr(plain, group)[:, some, ..., 1].abs().max() > 0.01, case
        if head is not None:
            assert same_trace(plain, trace, slice(1 - head, 2 - head)), case
        others = [i for i in range(size_of(layer, group)) if i != 1]
        if group in ("inter", "motor"):  # neurons of a layer do not hear each other
            assert torch.equal(getattr(plain, group)[..., others], getattr(trace, group)[..., others]), case


# Motor neurons and gates


def test_a_silent_motor_neuron_flattens_its_gate_and_leaves_the_other():
    for activation in ACTIVATIONS:
        layer = layer_of(activation=activation)
        _, plain = run(layer)
        for index, (gate, other) in enumerate((("phi", "omega"), ("omega", "phi"))):
            case = f"{gate}, {activation}"
            _, trace = run(lesioned(layer, [Lesion("motor", index, head=0)]))
            shift = layer.backbone.weights.output_shift[0, index].detach()
            flat = torch.sigmoid(shift)
            if gate == "omega":
                flat = nn.functional.softplus(shift) + layer.config.omega_min
            on = trace.valid[:, 0]
            assert torch.equal(getattr(trace, gate)[:, 0][on], flat.expand(int(on.sum()))), case
            assert getattr(plain, gate)[:, 0][on].std() > 1e-3, case
            assert torch.equal(getattr(trace, other), getattr(plain, other)), case


def test_a_silent_group_is_all_of_its_neurons():
    layer = layer_of(clock=2)
    for group in GROUPS:
        whole = lesioned(layer, [Lesion(group, head=1)])
        each = lesioned(layer, [Lesion(group, i, head=1) for i in range(size_of(layer, group))])
        a, b = run(whole), run(each)
        assert torch.equal(a[0], b[0])
        assert same_trace(a[1], b[1])
        assert not torch.equal(a[0], run(layer)[0])


# Sensory neurons


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "identity"])
def test_a_silent_sensory_neuron_keeps_the_shift_of_its_output_map(activation):
    layer = layer_of(activation=activation)
    _, plain = run(layer)
    for group, head in itertools.product(("query", "key", "value"), (0, 1, None)):
        case = f"{group}, head {head}"
        _, trace = run(lesioned(layer, [Lesion(group, 3, head)]))
        shift = getattr(layer, f"{group}_gate").weights.output_shift.detach().view(HEADS, EACH)
        for h in range(HEADS):
            got = getattr(trace, group)[:, h]
            if head in (None, h):
                assert torch.equal(got[..., 3], shift[h, 3].expand_as(got[..., 3])), case
                assert getattr(plain, group)[:, h, :, 3].std() > 1e-3, case
            rest = [i for i in range(EACH) if i != 3 or head not in (None, h)]
            assert torch.equal(got[..., rest], getattr(plain, group)[:, h][..., rest]), case
        for other in {"query", "key", "value"} - {group}:
            assert torch.equal(getattr(trace, other), getattr(plain, other)), case


def test_silent_values_leave_the_attention_as_it_was():
    layer = layer_of()
    before, plain = run(layer)
    y, trace = run(lesioned(layer, [Lesion("value", 2)]))
    assert torch.equal(plain.weights, trace.weights)
    assert not torch.equal(before, y)
