"""Generated spirals follow the protocol and leak nothing."""

import math

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.spirals import END, HALF, OBSERVED, POINTS, load_spirals
from support.refused import refused

N = 12
LENGTH = OBSERVED + POINTS


def tables(data):
    """Values [n, 200, 3], times [n, 200], answers [n, 200, 2] and parts [n, 200]."""
    n = len(data)
    return (
        data.values.view(n, LENGTH, 3),
        data.time.view(n, LENGTH),
        data.y.view(n, LENGTH, 2),
        data.part.view(n, LENGTH),
    )


def curves(data):
    """Clean points [n, 150, 2] that are asked for."""
    values, _, y, _ = tables(data)
    return y[values[..., 2] == 0].view(len(data), POINTS, 2)


def test_shapes_and_names():
    data = load_spirals(N, seed=3, spread=0.05)
    assert (data.name, data.kind, len(data)) == ("spiral", Kind.STEP_REGRESSION, N)
    assert (data.features, data.targets, data.time_unit) == (("x", "y", "seen"), ("x", "y"), "radians")
    assert data.form == "generated, seed 3, spread 0.05"
    assert (data.values.dtype, data.y.dtype, data.time.dtype) == (torch.float32, torch.float32, torch.float64)
    assert data.start.tolist() == [LENGTH * i for i in range(N)]
    assert data.length.tolist() == [LENGTH] * N
    assert data.test is None


def test_rows_are_in_order_of_time_and_observations_come_first():
    values, time, _, _ = tables(load_spirals(N))
    step = time.diff(dim=1)
    assert (step >= 0).all()
    together = step == 0
    assert together.sum() == N * OBSERVED  # every observation is at a moment that is asked for
    seen = values[..., 2] == 1
    assert seen[:, :-1][together].all()
    assert not seen[:, 1:][together].any()


def test_fifty_points_of_the_first_half_are_seen():
    values, time, y, part = tables(load_spirals(N))
    seen = values[..., 2] == 1
    assert (seen.sum(1) == OBSERVED).all()
    assert OBSERVED == 50
    assert (part[seen] == 0).all()
    assert (time[seen] < END / 2).all()
    assert y[seen].isnan().all()
    moments = time[seen].view(N, OBSERVED)
    assert (moments.diff(dim=1) > 0).all()
    assert len(moments.unique(dim=0)) == N  # each spiral has its own


def test_questions_carry_zeros_and_cover_all_times():
    values, time, y, _ = tables(load_spirals(N))
    asked = values[..., 2] == 0
    assert (values[asked] == 0).all()
    assert y[asked].isfinite().all()
    expected = torch.linspace(0, 6 * math.pi, 150, dtype=torch.float64).expand(N, -1)
    torch.testing.assert_close(time[asked].view(N, POINTS), expected)


def test_without_spread_the_curves_are_the_formulas():
    points = curves(load_spirals(N, spread=0.0))
    for place, moment in enumerate(torch.linspace(0, 6 * math.pi, 150, dtype=torch.float64).tolist()):
        inwards, outwards = moment + 1, 0.3 * moment
        clockwise = (15 / inwards * math.cos(inwards) - 5, 15 / inwards * math.sin(inwards))
        other = (outwards * math.cos(moment) + 5, outwards * math.sin(moment))
        for i in (0, 1, N - 2, N - 1):
            assert points[i, place].tolist() == pytest.approx(other if i % 2 else clockwise, abs=1e-5)


def test_observations_are_the_answers_with_noise():
    values, time, y, _ = tables(load_spirals(60))
    together = time.diff(dim=1) == 0
    noise = values[:, :-1, :2][together] - y[:, 1:][together]  # an observation and the question behind it
    assert noise.numel() == 60 * OBSERVED * 2
    assert abs(noise.mean().item()) < 0.003
    assert 0.047 < noise.std().item() < 0.053


def test_parts_are_the_two_halves():
    data = load_spirals(N)
    values, time, _, part = tables(data)
    asked = values[..., 2] == 0
    assert data.parts == ("interpolation", "extrapolation")
    assert part[asked].view(N, POINTS).tolist() == [[0] * HALF + [1] * (POINTS - HALF)] * N
    assert HALF * 2 == POINTS
    assert torch.equal(part == 1, time > END / 2)


def test_each_spiral_is_a_group():
    data = load_spirals(N)
    assert data.group.tolist() == list(range(N))
    assert data.groups == tuple(f"spiral {i}" for i in range(N))


def test_the_seed_and_the_spread_act_and_nothing_else_does():
    before = torch.get_rng_state()
    data = load_spirals(N)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert load_spirals(N).digest == data.digest
    assert load_spirals(N, seed=1).digest != data.digest
    wide = load_spirals(N, spread=0.08)
    assert wide.digest != data.digest
    assert curves(wide).std(0).mean() > curves(data).std(0).mean()
    narrow = curves(load_spirals(N, spread=0.0))
    assert (narrow[::2].std(0) == 0).all()
    assert (curves(data)[::2].std(0).mean()) > 0


def test_what_makes_no_sense_is_refused():
    for options, message in (
        ({"n": 5}, "n must be at least 6, got 5"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"spread": 0.2}, r"spread must lie in \[0.0, 0.1\], got 0.2"),
    ):
        with refused(message):
            load_spirals(**options)
