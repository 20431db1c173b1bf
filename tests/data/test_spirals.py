"""Generated spirals follow the protocol and leak nothing; both functions give the same curves."""

import dataclasses
import math

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.spirals import END, HALF, OBSERVED, POINTS, load_spirals, make_spirals
from support.refused import refused

N = 12
LENGTH = OBSERVED + POINTS


# --- make_spirals -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def splits():
    return make_spirals()


def test_sizes(splits):
    train, test = splits
    assert (len(train), len(test)) == (200, 100)
    for part in splits:
        n = len(part)
        assert part.x.shape == (n, 50, 2)
        assert part.time.shape == (n, 50)
        assert part.target.shape == (n, 150, 2)
        assert part.target_time.shape == (n, 150)
        assert part.clockwise.float().mean() == pytest.approx(0.5)


def test_only_the_first_half_is_seen_at_irregular_times_of_its_own(splits):
    for part in splits:
        assert (part.time.diff(dim=1) > 0).all()
        assert (part.time <= part.target_time[:, HALF - 1 : HALF]).all()
        assert part.time.diff(dim=1).std() > 0.01
        assert not torch.equal(part.time[0], part.time[1])
        assert part.target_time[0, -1].item() == pytest.approx(END)


def test_observations_are_the_target_plus_noise(splits):
    for part in splits:
        where = torch.searchsorted(part.target_time, part.time - 1e-3)
        clean = part.target.take_along_dim(where.unsqueeze(-1), 1)
        noise = (part.x - clean).std((0, 1))
        assert ((noise > 0.001) & (noise < 0.01)).all()  # 0.05 before scaling


def test_leak_the_scale_comes_from_training_spirals_only(splits):
    train, _ = splits
    torch.testing.assert_close(train.target.amin((0, 1)), torch.zeros(2))
    torch.testing.assert_close(train.target.amax((0, 1)), torch.ones(2))
    # more test spirals at the end change no training spiral's scale: both bounds are reached in training
    assert (train.target >= 0).all()
    assert (train.target <= 1).all()


def test_seeded_without_touching_the_global_generator(splits):
    before = torch.get_rng_state()
    again = make_spirals()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a.x, b.x) for a, b in zip(splits, again, strict=True))
    assert not torch.equal(make_spirals(seed=1)[0].x, splits[0].x)


def test_spirals_differ_from_one_another(splits):
    train, _ = splits
    assert train.target[train.clockwise].std(0).mean() > 1e-3
    # the clockwise ones wind inwards, the others outwards
    step = train.target.diff(dim=1).norm(dim=-1)
    inwards = step[:, :HALF].sum(1) > step[:, HALF:].sum(1)
    assert torch.equal(inwards, train.clockwise)


def test_spread_makes_spirals_differ_more():
    narrow, wide = (make_spirals(spread=s)[0] for s in (0.02, 0.08))
    ratio = wide.target[wide.clockwise].std(0).mean() / narrow.target[narrow.clockwise].std(0).mean()
    assert ratio > 2.5


# --- load_spirals -------------------------------------------------------------------------------------------


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


def test_answers_and_observations_are_those_of_make_spirals_but_for_its_scale():
    for seed, spread in ((0, 0.02), (4, 0.1)):
        data = load_spirals(N, seed, spread)
        train, test = make_spirals(N, seed, spread)
        clean = curves(data).double()
        low, high = clean[: len(train)].amin((0, 1)), clean[: len(train)].amax((0, 1))
        values, time, _, _ = tables(data)
        seen = values[..., 2] == 1
        observed = values[seen][:, :2].view(N, OBSERVED, 2).double()
        both = {
            field.name: torch.cat([getattr(train, field.name), getattr(test, field.name)]).double()
            for field in dataclasses.fields(train)
        }
        torch.testing.assert_close((clean - low) / (high - low), both["target"], rtol=0, atol=1e-6)
        torch.testing.assert_close((observed - low) / (high - low), both["x"], rtol=0, atol=1e-6)
        torch.testing.assert_close(time[seen].view(N, OBSERVED), both["time"], rtol=0, atol=1e-5)


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
        for make in (make_spirals, load_spirals):
            with refused(message):
                make(**options)
