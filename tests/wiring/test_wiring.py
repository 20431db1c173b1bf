"""Wirings: the paper's sizes, immutability, exchange, reachability."""

import itertools
import json
from dataclasses import FrozenInstanceError

import ncps.wirings
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre import Wiring
from nacre.wiring.builders import WiringKind, backbone_wiring, default_backbone_units, sensory_wiring
from support.hypothesis import examples
from support.refused import refused

KINDS = [str(k) for k in WiringKind]


def test_sensory_gate_has_exactly_d_model_neurons():
    for kind, d_model in itertools.product(KINDS, [2, 3, 5, 8, 16, 33, 64, 100, 128]):
        wiring = sensory_wiring(kind, 7, d_model, 0.5, 1)
        assert len(wiring.group("sensory")) == d_model, (kind, d_model)
        assert wiring.num_inputs == 7
        assert wiring.steps_to(wiring.group("sensory")) == 1


def test_backbone_has_the_papers_sizes():
    wiring = backbone_wiring("ncp", 32, default_backbone_units(64), 0.5, 1)
    assert [len(wiring.group(g)) for g in ("inter", "command", "motor")] == [101, 67, 2]
    # signal needs three steps, inputs feed inter neurons only, inter neurons have no recurrent input
    assert wiring.steps_to(wiring.group("motor")) == 3
    assert not wiring.input_adjacency[:, wiring.group("command") + wiring.group("motor")].any()
    assert not wiring.adjacency[:, wiring.group("inter")].any()


@pytest.mark.parametrize("kind", KINDS)
def test_no_sparsity_leaves_a_dead_input_or_output(kind):
    for sparsity, d_model in itertools.product([0.0, 0.05, 0.1, 0.5, 0.9, 0.95], [2, 4, 16]):
        for inputs in (1, 2, 9):
            sensory = sensory_wiring(kind, inputs, d_model, sparsity, 5)
            live = sensory.liveness(sensory.group("sensory"), 1)
            assert live.input_synapses.any(1).all(), (sparsity, d_model, inputs)
            assert live.input_synapses.any(0)[list(sensory.group("sensory"))].all(), (sparsity, d_model, inputs)
        backbone = backbone_wiring(kind, 4, default_backbone_units(d_model), sparsity, 5)
        motor = backbone.group("motor")
        steps = max(4, backbone.steps_to(motor))
        assert backbone.liveness(motor, steps).input_synapses.any(1).all(), (sparsity, d_model)


def test_sparsity_sets_the_density_and_is_reported():
    densities = []
    for sparsity in (0.0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9):
        wiring = backbone_wiring("ncp", 32, default_backbone_units(64), sparsity, 1)
        densities.append(wiring.density()["input->inter"])
        assert densities[-1] == pytest.approx(1 - sparsity, abs=0.05)
    assert densities == sorted(densities, reverse=True)
    full = backbone_wiring("ncp", 32, default_backbone_units(64), 0.0, 1).density()
    assert full["input->inter"] == full["inter->command"] == full["command->motor"] == 1.0


def test_degrees_count_synapses():
    wiring = Wiring(
        adjacency=[[0, 1, 0], [0, 0, -1], [0, 0, 0]],
        input_adjacency=[[1, 0, 0], [1, 0, 0]],
        groups=("inter", "command", "motor"),
    )
    assert wiring.degrees() == {
        "inter": {"in": 2.0, "out": 1.0},
        "command": {"in": 1.0, "out": 1.0},
        "motor": {"in": 1.0, "out": 0.0},
    }
    assert wiring.density() == {"input->inter": 1.0, "inter->command": 1.0, "command->motor": 1.0}
    assert repr(wiring) == "Wiring(custom: 2 inputs, inter 1, command 1, motor 1, 4 synapses)"


def test_seed_decides_the_wiring():
    draw = backbone_wiring.__wrapped__  # without its cache
    for kind in KINDS:
        assert draw(kind, 6, 20, 0.5, 1) == draw(kind, 6, 20, 0.5, 1), kind
        assert draw(kind, 6, 20, 0.5, 1) != draw(kind, 6, 20, 0.5, 2), kind


def test_wiring_is_immutable_and_compared_by_content():
    wiring = backbone_wiring("ncp", 6, 20, 0.5, 1)
    with pytest.raises(ValueError, match="read-only"):
        wiring.adjacency[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        wiring.name = "x"
    twin = Wiring(wiring.adjacency.copy(), wiring.input_adjacency.copy(), wiring.groups, "other name")
    assert twin == wiring
    assert hash(twin) == hash(wiring)
    assert wiring != "wiring"
    source = np.zeros((2, 2), np.int8)
    own = Wiring(source, np.ones((1, 2)), ("inter", "motor"))
    source[0, 1] = 1
    assert not own.adjacency.any()


def test_json_round_trip():
    for kind in KINDS:
        wiring = backbone_wiring(kind, 6, 20, 0.5, 1)
        again = Wiring.from_json(wiring.to_json())
        assert again == wiring, kind
        assert again.name == wiring.name


def test_bad_json_is_refused():
    good = {"name": "x", "groups": ["inter", "motor"], "input_adjacency": ["+."], "adjacency": [".+", ".."]}
    for text, message in (
        ("{", "not a wiring in JSON"),
        ("[]", "needs exactly the keys"),
        ('{"name": "x"}', "needs exactly the keys"),
        ({"adjacency": ["+?", ".."]}, "adjacency must be rows"),
        ({"adjacency": ["+", ".."]}, "adjacency must be rows"),
        ({"adjacency": 3}, "adjacency must be rows"),
        ({"input_adjacency": ["+.+"]}, "input_adjacency must have shape"),
        ({"input_adjacency": []}, "must be a table"),
        ({"groups": ["inter", "brain"]}, "unknown: \\['brain'\\]"),
        ({"groups": ["inter"]}, "got 1 names"),
    ):
        with refused(message, case=str(text)):
            Wiring.from_json(text if isinstance(text, str) else json.dumps(good | text))


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match="table of -1, 0 and 1"):
        Wiring([[2]], [[1]], ("motor",))
    with pytest.raises(ValueError, match="square"):
        Wiring([[1, 0]], [[1, 0]], ("motor",))
    with pytest.raises(ValueError, match="unknown neuron group 'brain'"):
        backbone_wiring("ncp", 6, 20, 0.5, 1).group("brain")


def test_ncps_wirings_are_read_without_being_changed():
    source = ncps.wirings.AutoNCP(20, 2)
    first = Wiring.from_ncps(source, 6)
    assert not source.is_built()
    assert Wiring.from_ncps(source, 6) == first
    source.build(6)
    assert Wiring.from_ncps(source, 6) == first
    with pytest.raises(ValueError, match="built for 6 inputs, but 8"):
        Wiring.from_ncps(source, 8)


def test_unreachable_outputs_are_named():
    wiring = Wiring(np.zeros((3, 3)), [[1, 0, 0]], ("motor", "motor", "inter"))
    with pytest.raises(ValueError, match=r"output neurons \[1\] cannot be reached"):
        wiring.steps_to(wiring.group("motor"))
    with pytest.raises(ValueError, match="no output neurons"):
        wiring.steps_to(wiring.group("command"))


@examples(60)
@given(st.integers(0, 10_000), st.integers(1, 6), st.booleans())
def test_liveness_finds_exactly_what_can_act(seed, steps, bias):
    """Compared with trying: change a synapse, see whether an output of the settled network moves."""
    rng = np.random.default_rng(seed)
    n, inputs = 6, 2
    adjacency = rng.choice([-1, 0, 0, 0, 1], size=(n, n))
    feeds = rng.choice([0, 0, 1], size=(inputs, n))
    live = Wiring(adjacency, feeds, ("motor",) * 2 + ("inter",) * 4).liveness((0, 1), steps, bias=bias)
    weight, weight_in = rng.normal(size=(n, n)) * adjacency, rng.normal(size=(inputs, n)) * feeds
    b, u = rng.normal(size=n) * bias, rng.normal(size=inputs)

    def settle(weight, weight_in, b):
        x = np.zeros(n)
        for _ in range(steps):
            x = np.tanh(x @ weight + u @ weight_in + b)
        return x[:2]

    def acts(**change):
        return not np.array_equal(
            settle(**({"weight": weight, "weight_in": weight_in, "b": b} | change)), settle(weight, weight_in, b)
        )

    for i, j in zip(*np.nonzero(adjacency), strict=True):
        other = weight.copy()
        other[i, j] += 0.5
        assert acts(weight=other) == live.synapses[i, j]
    for i, j in zip(*np.nonzero(feeds), strict=True):
        other = weight_in.copy()
        other[i, j] += 0.5
        assert acts(weight_in=other) == live.input_synapses[i, j]
    if bias:
        for i in range(n):
            other = b.copy()
            other[i] += 0.5
            assert acts(b=other) == live.neurons[i]
