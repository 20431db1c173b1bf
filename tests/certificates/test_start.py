"""Logits that start at the match: their bounds, their limit, and when they arrive."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.certificates.bounds import certify, logit_bounds, rounding
from nacre.functional import solve_logits
from nacre.layer.config import NACConfig
from nacre.native import library
from reference.killing import batch
from support.hypothesis import examples

SIZES = st.floats(-1e3, 1e3) | st.floats(-1e-3, 1e-3)
PLUS = {"match": "start", "phi": "linear", "clock": 3, "near": 4, "sensory_activation": "identity"}


@examples(400)
@given(
    phi=SIZES,
    start=SIZES,
    omega=st.floats(1e-3, 200),
    t=st.floats(0, 1),
    mode=st.sampled_from(["exact", "euler"]),
    steps=st.integers(1, 64),
    near=st.sampled_from([None, 1e-7, 1e-3]),
    single=st.booleans(),
)
def test_a_logit_lies_between_its_start_and_its_rest(phi, start, omega, t, mode, steps, near, single):
    dtype = torch.float32 if single else torch.float64
    config = NACConfig(d_model=8, num_heads=2, match="start", mode=mode, euler_steps=steps)
    phi, omega, t = (torch.tensor(x, dtype=dtype) for x in (phi, omega, t))
    # Starts next to the rest, where rounding shows.
    start = torch.tensor(start, dtype=dtype) if near is None else phi / omega * (1 + near)
    a = solve_logits(phi, omega, t, mode, a0=start, euler_steps=steps)
    low, high = logit_bounds(phi, omega, start)
    slack = rounding(config, dtype) * max(low.abs(), high.abs()) + torch.finfo(dtype).tiny
    assert low - slack <= a <= high + slack
    # No narrower interval holds at all times: both ends are reached.
    ends = [solve_logits(phi, omega, x * torch.ones_like(t), mode, a0=start, euler_steps=steps) for x in (0, 1e6)]
    torch.testing.assert_close(torch.stack(ends), torch.stack([start, phi / omega]))


def test_small_steps_of_euler_round_often_and_no_more_is_allowed():
    """The power of many steps multiplies rounding; the same allowance does not hide what is wrong."""
    start, t = torch.full((20_000,), 5.0), torch.linspace(0, 0.4, 20_000)
    phi, omega = torch.full_like(start, 5.0), torch.ones_like(start)  # starts at its rest
    for steps in (6, 64, 1000):
        config = NACConfig(d_model=8, num_heads=2, match="start", mode="euler", euler_steps=steps)
        off = (solve_logits(phi, omega, t, "euler", a0=start, euler_steps=steps) - 5.0).abs().max() / 5.0
        assert off <= rounding(config, torch.float32)
        assert off > steps / 20 * torch.finfo(torch.float32).eps
    exact = NACConfig(d_model=8, num_heads=2, match="start", euler_steps=1000)
    assert rounding(exact, torch.float32) == 4 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("mode", ["exact", "euler"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bounds_hold_in_every_precision(mode, dtype):
    for omega_min in (1e-3, 50.0):
        layer = nacre.NAC(16, 2, mode=mode, omega_min=omega_min, **PLUS).to(dtype)
        x, time = batch(20, dtype=dtype)
        found = certify(layer, x, time)
        assert found.ok, str(found)


def test_a_start_outside_of_the_old_bounds_is_no_violation_and_a_wrong_one_is(monkeypatch):
    monkeypatch.setattr(library, "library", lambda: None)  # equations can be replaced in PyTorch only
    layer, given = nacre.NAC(16, 2, **PLUS, gain=30.0), batch()
    found = certify(layer, *given)
    assert found.ok
    with torch.no_grad():
        _, trace = layer(given[0], time=given[1], return_trace=True)
    rest = trace.phi / trace.omega.clamp(min=1e-3)
    beyond = trace.valid & ((trace.logits > rest.clamp(min=0)) | (trace.logits < rest.clamp(max=0)))
    assert beyond.any()  # from a start at 0 none could be there

    def forgets(phi, omega, t, mode, *, a0, euler_steps):
        return solve_logits(phi, omega, t, mode, a0=1.01 * a0, euler_steps=euler_steps)

    monkeypatch.setattr(nacre.layer.pairs, "solve_logits", forgets)
    assert any(head.violations for head in certify(layer, *given).heads)


def test_what_starts_at_its_rest_has_arrived():
    layer = nacre.NAC(16, 2, **PLUS)
    weights = layer.backbone.weights
    with torch.no_grad():
        weights.output_scale.zero_()  # phi is 0: all go to 0, from a match
        weights.output_shift[:, 0] = 0
        layer.match.log_gain[:, 0] = math.log(1e-3)
        layer.match.log_gain[:, 1] = math.log(30)
    near, far = certify(layer, *batch(), delta=0.01).heads
    assert near.time_to_delta == 0
    assert near.arrived == 1
    assert far.time_to_delta > 1
    assert far.arrived < 1


@examples(60)
@given(
    mode=st.sampled_from(["exact", "euler"]),
    omega_min=st.floats(1e-3, 40),
    steps=st.integers(1, 12),
    gain=st.floats(0.01, 20),
    scale=st.floats(-5, 5),
    shift=st.floats(-5, 5),
)
def test_no_logit_is_beyond_its_limit_and_some_gates_bring_it_there(mode, omega_min, steps, gain, scale, shift):
    layer = nacre.NAC(8, 2, mode=mode, omega_min=omega_min, euler_steps=steps, backbone_units=12, **PLUS)
    weights = layer.backbone.weights
    with torch.no_grad():
        weights.output_scale[:, 0], weights.output_shift[:, 0] = scale, shift
        layer.match.log_gain.fill_(math.log(gain))
    limits = {head.limit for head in certify(layer, *batch(1, 3, 8)).heads}
    # All gates that there can be: phi and match at their largest, omega and t on a grid.
    phi, start = (torch.tensor(x, dtype=torch.float64) for x in (abs(scale) + abs(shift), gain))
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    omega = omega_min * torch.logspace(0, 4, 400, dtype=torch.float64)[:, None]
    most = solve_logits(phi, omega, t, mode, a0=start, euler_steps=steps).max().item()
    enough = 1 if mode == "exact" or omega_min <= steps else 0.8  # with more steps r is a little above 0
    assert all(enough * limit * (1 - 1e-5) <= most <= limit * (1 + 1e-5) for limit in limits)


def test_without_bounded_neurons_there_is_no_limit():
    layer = nacre.NAC(16, 2, **PLUS, activation="relu")
    assert all(head.limit == math.inf for head in certify(layer, *batch()).heads)
    bounded = nacre.NAC(16, 2, **PLUS)  # sensory neurons have no bounds, but motor neurons and the match have
    assert all(head.limit < math.inf for head in certify(bounded, *batch()).heads)
