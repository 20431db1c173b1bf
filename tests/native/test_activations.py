"""What the record of an activation says of it."""

import math

import pytest
import torch

from nacre.native.activations import ACTIVATIONS

X = torch.cat([torch.linspace(-60, 60, 200_001, dtype=torch.float64), torch.tensor([-1e9, 1e9]).double()])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_bounds_hold_and_are_tight(name):
    one = ACTIVATIONS[name]
    y = one.function(X)
    assert one.low <= y.min()
    assert y.max() <= one.high
    for bound, end in ((one.low, y.min()), (one.high, y.max())):
        assert abs(end - bound) < 1e-3 if math.isfinite(bound) else end.abs() > 1e8, name
    assert one.limit == max(-one.low, one.high)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_what_can_saturate_is_flat_at_a_bound(name):
    one = ACTIVATIONS[name]
    ends = one.function(torch.tensor([-1e9, -1e8, 1e8, 1e9]).double())
    flat = [bool((ends[i] - ends[i + 1]).abs() < 1e-6) for i in (0, 2)]
    if one.span:
        assert any(flat)
        assert one.span == (one.high if math.isfinite(one.high) else 0) - one.low
