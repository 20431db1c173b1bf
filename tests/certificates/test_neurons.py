"""Certificates of neurons: what is dead or saturated is named, and nothing else."""

import pytest
import torch

import nacre
from nacre.certificates.bounds import certify
from reference.killing import batch, deafen, named, wipe
from support.cases import combinations

ALIVE = [
    {},
    {"wiring": "dense"},
    {"wiring": "mlp"},
    {"share_backbone": True},
    {"activation": "elu"},
    {"bias": False},
    {"clock": 3, "match": "start", "sensory_activation": "identity"},
]


def test_a_fresh_layer_has_no_dead_and_no_saturated_neuron():
    for options in ALIVE:
        found = certify(nacre.NAC(16, 2, **options), *batch())
        assert found.ok, options
        assert found.dead == found.saturated == (), options
        assert found.left_out == 0, options
        assert "none dead, none saturated" in str(found), options


@pytest.mark.parametrize("wiring", ["ncp", "dense"])
@pytest.mark.parametrize("group", ["inter", "command", "motor"])
def test_backbone_neurons_killed_either_way_are_named(group, wiring):
    for silence in (False, True):
        layer = nacre.NAC(16, 2, wiring=wiring)
        net, ids = layer.backbone.weights, layer.backbone.wiring.group(group)
        if not ids:
            assert (wiring, group) == ("dense", "command")
            return
        neuron = ids[1]
        if silence:
            wipe(net.recurrent_weight, neuron, 1)
            if group == "motor":
                with torch.no_grad():
                    net.output_scale[1, 1] = 0
        else:
            deafen(net, neuron, 1)
        found = certify(layer, *batch())
        dead = [f for f in found.dead if (f.head, f.group, f.index) == (1, group, 1)]
        others = {f.wiring_index for f in found.dead} - {neuron}
        # Who was heard by that neuron alone goes with it.
        links = layer.backbone.wiring.adjacency != 0
        heard_by = {i: set(links[i].nonzero()[0]) - {i} for i in range(len(links))}
        assert others == {i for i, by in heard_by.items() if by == {neuron} and not silence}
        assert len(dead) == 1
        assert dead[0].wiring_index == neuron
        reason = "nothing hears it: all its outgoing weights are 0" if silence else "its state never changes"
        assert dead[0].reason == reason
        assert not found.ok
        assert f"dead: head 1 {group} neuron 1 (wiring index {neuron}): {reason}" in str(found).splitlines()


def test_a_neuron_that_hears_only_itself_is_not_heard():
    layer = nacre.NAC(16, 2, wiring="dense")
    neuron = layer.backbone.wiring.group("inter")[4]
    others = [i for i in range(layer.backbone.wiring.num_neurons) if i != neuron]
    assert layer.backbone.weights.recurrent()[0, neuron, neuron] != 0
    wipe(layer.backbone.weights.recurrent_weight, (neuron, others), 0)
    assert named(certify(layer, *batch()).dead) == {(0, "inter", 4)}


def test_a_motor_neuron_without_scale_is_alive_while_other_neurons_hear_it():
    layer = nacre.NAC(16, 2, wiring="dense")
    with torch.no_grad():
        layer.backbone.weights.output_scale[0, 0] = 0
    found = certify(layer, *batch())
    assert found.dead == ()
    assert found.heads[0].phi[0] == found.heads[0].phi[1]  # but the table shows it


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_sensory_neurons_that_hear_nothing_are_named(name):
    layer = nacre.NAC(16, 2)
    gate = getattr(layer, f"{name}_gate")
    with torch.no_grad():
        gate.weights.output_scale.uniform_(0.1, 2)
        gate.weights.output_shift.uniform_(-5, 5)
    deafen(gate.weights, gate.outputs[8 + 3])
    found = certify(layer, *batch())
    assert named(found.dead) == {(1, name, 3)}
    assert (found.dead[0].wiring_index, found.dead[0].reason) == (gate.outputs[11], "its state never changes")


@pytest.mark.parametrize(
    ("name", "how", "share"),
    combinations(
        ["query", "key", "value"],
        ["by the readers", "by its own output map", "but the time gate", "but the circuit"],
        [False, True],
    ),
)
def test_sensory_neurons_that_nothing_hears_are_named(name, how, share):
    layer = nacre.NAC(16, 2, share_backbone=share)
    row = {"query": 2, "key": 8 + 2, "value": None}[name]
    with torch.no_grad():
        if how == "by its own output map":
            getattr(layer, f"{name}_gate").weights.output_scale[0, 8 + 2] = 0
        elif row is None:
            layer.out_proj.weight[:, 8 + 2] = 0
        else:
            if how != "but the circuit":
                wipe(layer.backbone.weights.input_scale, row, 0 if share else 1)
            if how != "but the time gate":
                layer.time_gate.weight[1, row] = 0
    found = certify(layer, *batch())
    if how.startswith("but") and name != "value":
        assert found.ok
        return
    assert named(found.dead) == {(1, name, 2)}
    reason = found.dead[0].reason
    assert "all its outgoing weights are 0" in reason
    assert "never changes" not in reason
    assert ("selection of keys" in reason) == (name != "value")


def test_without_time_gate_and_selection_a_query_neuron_has_only_the_circuit_to_be_heard_by():
    layer = nacre.NAC(16, 2, mode="steady", integrate=False, top_k=None)
    wipe(layer.backbone.weights.input_scale, 5, 0)
    found = certify(layer, *batch())
    assert named(found.dead) == {(0, "query", 5)}
    assert found.dead[0].reason == "nothing hears it: all its outgoing weights are 0"


def test_a_shared_circuit_is_judged_in_every_head():
    layer = nacre.NAC(16, 4, share_backbone=True)
    wipe(layer.backbone.weights.recurrent_weight, layer.backbone.wiring.group("inter")[6], 0)
    assert named(certify(layer, *batch()).dead) == {(h, "inter", 6) for h in range(4)}


def test_both_reasons_are_given():
    layer = nacre.NAC(16, 2)
    neuron = layer.backbone.wiring.group("command")[0]
    deafen(layer.backbone.weights, neuron)
    wipe(layer.backbone.weights.recurrent_weight, neuron, 0)
    (finding,) = certify(layer, *batch()).dead
    assert finding.reason == "its state never changes; nothing hears it: all its outgoing weights are 0"


@pytest.mark.parametrize("bias", [0.7, -0.7])
def test_padding_does_not_count_as_change(bias):
    layer = nacre.NAC(16, 2)
    net, neuron = layer.backbone.weights, layer.backbone.wiring.group("command")[3]
    deafen(net, neuron)
    with torch.no_grad():
        net.bias.weight[0, net.bias.index == neuron] = bias  # a constant that is not the trace's 0 at padding
    padding = torch.zeros(6, 14, dtype=torch.bool)
    padding[:3, 4:] = True
    assert named(certify(layer, *batch(), padding).dead) == {(0, "command", 3)}


def test_neurons_that_reach_no_motor_neuron_are_left_out_and_not_dead():
    wiring = nacre.wiring.builders.backbone_wiring("mlp", 16, 12, 0.0, 1)
    adjacency = wiring.adjacency.copy()
    adjacency[[4, 9]] = 0
    lame = nacre.Wiring(adjacency, wiring.input_adjacency, wiring.groups)
    found = certify(nacre.NAC(16, 2, wiring=lame), *batch())
    assert found.ok
    assert found.left_out == 2
    assert "left out: 2 of the wiring's neurons" in str(found)


def test_one_step_says_nothing_about_change():
    layer = nacre.NAC(16, 2)
    assert certify(layer, torch.randn(1, 1, 16)).ok
    assert not certify(layer, torch.randn(1, 1, 16).expand(1, 2, 16)).ok


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softsign", "elu"])
@pytest.mark.parametrize("group", ["query", "value", "inter", "motor"])
def test_saturated_neurons_are_named(activation, group):
    layer = nacre.NAC(16, 2, activation=activation)
    sensory = group in ("query", "value")
    net = getattr(layer, f"{group}_gate").weights if sensory else layer.backbone.weights
    if sensory:
        with torch.no_grad():  # an output map must not hide saturation, nor look like it
            net.output_scale.uniform_(-3, -1)
            net.output_shift.uniform_(-1, 1)
    neuron = getattr(layer, f"{group}_gate").outputs[1] if sensory else layer.backbone.wiring.group(group)[1]
    # Near a bound, but not so near that rounding makes the state a constant.
    push = {"tanh": 6.0, "sigmoid": 9.0, "softsign": 200.0, "elu": -9.0}[activation]
    with torch.no_grad():
        net.bias.weight[0, net.bias.index == neuron] = push
    found = certify(layer, *batch(20))
    assert named(found.saturated) == {(0, group, 1)}
    bound = -1 if push < 0 else 1
    assert f"within 1 % of {bound}, a bound of {activation}" in found.saturated[0].reason
    assert found.dead == ()
    assert found.ok  # a warning
    assert f"saturated: head 0 {group} neuron 1 (wiring index {neuron}): its state is within" in str(found)


def test_a_fully_saturated_neuron_is_dead_too():
    layer = nacre.NAC(16, 2)
    neuron = layer.backbone.wiring.group("command")[2]
    bias = layer.backbone.weights.bias
    with torch.no_grad():
        bias.weight[1, bias.index == neuron] = -1e4
    found = certify(layer, *batch())
    assert named(found.saturated) == named(found.dead) == {(1, "command", 2)}
    assert "within 1 % of -1, a bound of tanh, in 100 % of the pairs" in found.saturated[0].reason


def test_a_neuron_that_jumps_between_both_bounds_is_saturated():
    layer = nacre.NAC(16, 2)
    with torch.no_grad():
        layer.value_gate.weights.input_weight.weight.mul_(1e4)
    found = certify(layer, *batch())
    assert named(found.saturated) == {(h, "value", i) for h in range(2) for i in range(8)}
    assert "-1 or 1, a bound of tanh" in found.saturated[0].reason
    assert found.ok


@pytest.mark.parametrize(("share", "listed"), [(0.97, False), (0.995, True)])
def test_saturation_means_nearly_always(share, listed):
    layer = nacre.NAC(2, 1, d_input=1)
    net = layer.value_gate.weights
    net.input_weight.fill(torch.ones(net.input_weight.shape))
    x = torch.linspace(-1, 1, 1000)
    x[: round(1000 * share)] = 9.0
    assert bool(certify(layer, x.view(1, 1000, 1)).saturated) is listed


@pytest.mark.parametrize("push", [9.0, -9.0])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_padding_does_not_count_as_saturated(activation, push):
    layer = nacre.NAC(16, 2, activation=activation, wiring="dense")
    for gate in (layer.query_gate, layer.key_gate, layer.value_gate):
        gate.weights.input_weight.fill(torch.ones(gate.weights.input_weight.shape))
        torch.nn.init.constant_(gate.weights.bias.weight, push)
    x, _ = batch(2, 300)
    padding = torch.ones(2, 300, dtype=torch.bool)
    padding[:, :10] = False  # at padding, neurons hear their bias alone and are at a bound
    found = certify(layer, x - push / 16, None, padding)
    assert found.saturated == ()
    assert found.dead == ()


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_unbounded_activations_do_not_saturate(activation):
    layer = nacre.NAC(16, 2, activation=activation)
    with torch.no_grad():
        layer.backbone.weights.bias.weight[0, 5] = 1e3
    assert certify(layer, *batch()).saturated == ()


def test_a_relu_neuron_that_never_fires_is_dead():
    layer = nacre.NAC(16, 2, activation="relu")
    neuron = layer.value_gate.outputs[0]
    with torch.no_grad():
        layer.value_gate.weights.bias.weight[0, layer.value_gate.weights.bias.index == neuron] = -1e3
    assert named(certify(layer, *batch()).dead) == {(0, "value", 0)}


# --- clock neurons, and sensory neurons of another kind ---------------------------------------------------------


@pytest.mark.parametrize("share", [False, True])
def test_clock_neurons_that_nothing_hears_are_named(share):
    layer = nacre.NAC(16, 2, clock=2, share_backbone=share)
    wipe(layer.backbone.weights.input_scale, 16 + 3, 0 if share else 1)
    found = certify(layer, *batch())
    assert named(found.dead) == {(h, "clock", 3) for h in ((0, 1) if share else (1,))}
    reason = "nothing hears it: all its outgoing weights are 0"
    assert (found.dead[0].wiring_index, found.dead[0].reason) == (19, reason)


def test_a_clock_keeps_no_unheard_key_neuron_alive():
    layer = nacre.NAC(16, 2, clock=2, mode="steady", integrate=False)
    wipe(layer.backbone.weights.input_scale, 8 + 1, 0)
    assert named(certify(layer, *batch()).dead) == {(0, "key", 1)}


def test_clocks_that_stand_still_are_dead_and_their_extremes_no_saturation():
    layer, (x, time) = nacre.NAC(16, 2, clock=2), batch()
    found = certify(layer, x, 1e-9 * time)
    assert named(found.dead) == {(h, "clock", i) for h in (0, 1) for i in range(4)}
    assert {f.reason for f in found.dead} == {"its state never changes"}
    assert found.saturated == ()  # though cosines are 1
    assert certify(layer, x, time).ok
    assert certify(layer, x).ok  # it counts steps


def test_padding_does_not_move_the_clock():
    padding = torch.ones(6, 14, dtype=torch.bool)
    padding[:, 4] = False  # one step, which attends to itself: all clocks show 0
    found = certify(nacre.NAC(16, 2, clock=2), *batch(), padding)
    assert {(h, "clock", i) for h in (0, 1) for i in range(4)} <= named(found.dead)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_sensory_neurons_are_judged_by_their_own_activation(name):
    layer = nacre.NAC(16, 2, sensory_activation="sigmoid")
    gate, neuron = getattr(layer, f"{name}_gate"), layer.backbone.wiring.group("inter")[2]
    for net, one, push in ((gate.weights, gate.outputs[1], -9.0), (layer.backbone.weights, neuron, -6.0)):
        with torch.no_grad():
            net.bias.weight[0, net.bias.index == one] = push
    found = certify(layer, *batch(20))
    assert named(found.saturated) == {(0, name, 1), (0, "inter", 2)}
    bounds = {f.group: f.reason.partition(",")[0] + f.reason.split(",")[1] for f in found.saturated}
    assert bounds[name] == "its state is within 1 % of 0 a bound of sigmoid"
    assert bounds["inter"] == "its state is within 1 % of -1 a bound of tanh"
    straight = nacre.NAC(16, 2, sensory_activation="identity")
    with torch.no_grad():
        getattr(straight, f"{name}_gate").weights.bias.weight += 1.0
    assert certify(straight, *batch(20)).saturated == ()  # states at 1 and beyond are at no bound
