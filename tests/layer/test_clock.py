"""Clock neurons: a circuit knows how long ago a key was, on which side of the query, and nothing else of time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.layer.clock import clock_scales, clock_stamps, clock_states, since_first
from nacre.layer.inputs import Inputs

pytestmark = pytest.mark.usefixtures("either_path")


@given(st.floats(-1e12, 1e12), st.integers(1, 12), st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_states_are_cosines_then_sines_at_each_scale(elapsed, count, dtype):
    states = clock_states(torch.tensor([elapsed], dtype=torch.float64), count, dtype)
    assert states.shape == (1, 2 * count)
    assert states.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)  # never less
    angles = [elapsed / 4.0 ** (i - count // 2) for i in range(count)]
    want = torch.tensor([[*map(math.cos, angles), *map(math.sin, angles)]], dtype=torch.float64)
    near = max(abs(angles[0]) * 1e-15, 1e-12 if dtype == torch.float64 else 1e-6)  # stamps have 53 bits
    torch.testing.assert_close(states.double(), want, rtol=0, atol=near)


def test_one_unit_of_time_is_in_the_middle_of_the_scales():
    assert clock_scales(1) == [1.0]
    assert clock_scales(3) == [0.25, 1.0, 4.0]
    assert clock_scales(4) == [0.0625, 0.25, 1.0, 4.0]
    for count in range(1, 13):
        assert clock_scales(count)[count // 2] == 1.0


def test_no_time_is_too_far():
    far = torch.tensor([0.0, 1e31, -1e300, math.inf, -math.inf], dtype=torch.float64)
    assert torch.equal(clock_states(far, 3, torch.float32), torch.tensor([[1.0] * 3 + [0.0] * 3]).expand(5, -1))


def test_time_counts_from_the_first_key_that_is_no_padding():
    stamps = torch.tensor([[5.0, 7.0, 10.0], [1.0, 2.0, 4.0]], dtype=torch.float64)
    padding = torch.tensor([[True, False, False], [False, False, True]])
    query, key = since_first((stamps, stamps), padding, 2.0)
    assert query.tolist() == key.tolist() == [[-1.0, 0.0, 1.5], [0.0, 0.5, 1.5]]
    assert since_first((stamps, stamps), None, 1.0)[1][:, 0].tolist() == [0.0, 0.0]


def test_infinities_have_differences():
    far = torch.tensor([[-1e308, 1e308, 1.5e308]], dtype=torch.float64)
    query, key = since_first((far, far), None, 1.0)
    assert (query.unsqueeze(2) - key.unsqueeze(1)).isfinite().all()


def test_without_stamps_valid_steps_are_counted():
    x = torch.zeros(2, 4, 1)
    padding = torch.tensor([[True, False, True, False], [False, False, False, True]])
    query, key = clock_stamps(Inputs(x, x, x, None, padding, padding, padding), 5.0)
    assert query[~padding].tolist() == key[~padding].tolist() == [0.0, 1.0, 0.0, 1.0, 2.0]
    query, again = clock_stamps(Inputs(x[:, :3], x, x, None, padding, None, None), 5.0)  # of cross attention
    assert query.tolist() == [[0.0, 1.0, 2.0]] * 2
    assert torch.equal(again, key)


@pytest.mark.parametrize("clock", [0, 2])
def test_only_a_clock_tells_before_from_after(clock):
    layer = nacre.NAC(8, 2, clock=clock, top_k=None)
    x, time = torch.randn(1, 12, 8), torch.rand(1, 12).cumsum(1)
    assert torch.allclose(layer(x, time=time), layer(x, time=-time)) == (clock == 0)


@pytest.mark.parametrize("clock", [0, 2])
def test_only_a_clock_knows_the_order_of_steps_without_stamps(clock):
    layer = nacre.NAC(8, 2, clock=clock, top_k=None)
    x = torch.randn(1, 12, 8)
    assert torch.allclose(layer(x).flip(1), layer(x.flip(1)), atol=1e-6) == (clock == 0)


def by_the_clock():
    """A circuit that hears nothing but the clock: 4 + 4 inputs of query and key, 4 of two scales."""
    adjacency, inputs = np.zeros((5, 5)), np.zeros((12, 5))
    inputs[8:, 2:] = 1
    adjacency[2:, :2] = 1
    return nacre.Wiring(adjacency, inputs, ("motor", "motor", "command", "command", "command"))


def test_a_circuit_that_hears_only_the_clock_goes_by_elapsed_time_alone():
    layer = nacre.NAC(8, 2, clock=2, top_k=None, wiring=by_the_clock(), time_scale=2.0, dtype=torch.float64)
    time = torch.arange(9.0)[None]
    _, one = layer(torch.randn(1, 9, 8).double(), time=time, return_trace=True)
    _, other = layer(torch.randn(1, 9, 8).double(), time=time + 100, return_trace=True)
    for gate in ("phi", "omega"):
        torch.testing.assert_close(getattr(one, gate), getattr(other, gate))
        for lag in range(-8, 9):
            of_lag = getattr(one, gate)[0].diagonal(lag, dim1=1, dim2=2)
            torch.testing.assert_close(of_lag, of_lag[:, :1].expand_as(of_lag))
        first_row = getattr(one, gate)[0, :, 0]
        assert (first_row.diff(dim=-1).abs() > 1e-6).all()


def test_a_saved_layer_whose_wiring_lacks_the_clock_is_refused():
    data = nacre.NAC(8, 2).to_config()
    data["options"]["clock"] = 2
    with pytest.raises(ValueError, match=r"as the options say: \(8, 8, 12, 2\), got \(8, 8, 8, 2\)"):
        nacre.NAC.from_config(data)


@pytest.mark.parametrize("options", [{}, {"mode": "steady", "integrate": False}], ids=["time gate", "clock alone"])
def test_time_stamps_have_gradients_through_the_clock(options):
    layer = nacre.NAC(4, 2, clock=2, top_k=None, backbone_units=6, **options).double()
    x, time = torch.randn(1, 4, 4).double(), torch.rand(1, 4).double().cumsum(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: layer(x, time=t), time)
