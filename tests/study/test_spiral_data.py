"""The spirals, the controls and the network of `nacre study spiral`."""

import pytest
import torch

from nacre.data.sets.spirals import END, curves, draw_shapes, load_spirals
from nacre.study.spiral.data import SPREAD, controls, draw_spirals, errors
from nacre.study.spiral.grid import DEFAULT, SpiralSetting
from nacre.study.spiral.run import build

SMALL = SpiralSetting(heads=2)


# The spirals


def test_a_third_of_the_points_is_seen_at_irregular_times_of_the_first_half():
    for length in (6, 151, 600):
        even = torch.linspace(0, END, length, dtype=torch.float64).float().tolist()
        first = set(even[: length // 2])
        for spirals, n in zip(draw_spirals(length, 1), (200, 100), strict=True):
            assert spirals.x.shape == (n, length // 3, 2)
            assert spirals.time.shape == (n, length // 3)
            assert all(set(row) <= first for row in spirals.time.tolist()), length
            assert (spirals.time.diff(dim=1) > 0).all(), length
            assert spirals.time.max() < END / 2, length
            if length > 6:
                assert len(spirals.time.unique(dim=0)) == n, length


def test_whatever_the_length_the_same_150_points_of_the_same_curves_are_asked_for():
    for short, long in zip(draw_spirals(150, 3), draw_spirals(900, 3), strict=True):
        assert torch.equal(short.target, long.target)
        assert torch.equal(short.target_time, long.target_time)
        assert torch.equal(short.clockwise, long.clockwise)
    assert not torch.equal(short.target, draw_spirals(150, 4)[1].target)


def test_parity_the_asked_points_are_those_of_the_task_but_for_the_scale():
    data = load_spirals(300, 2, SPREAD)
    clean = data.y[data.values[:, 2] == 0].view(300, 150, 2)
    low, high = clean[:200].amin((0, 1)), clean[:200].amax((0, 1))
    mine = torch.cat([spirals.target for spirals in draw_spirals(150, 2)])
    torch.testing.assert_close(mine, (clean - low) / (high - low), rtol=0, atol=1e-6)


def test_what_is_seen_is_the_curve_at_its_times_with_noise():
    train_set, _ = draw_spirals(1_500, 0)
    clean = torch.stack(  # the asked curve in between, at the times of the observations
        [
            torch.stack([_lerp(at, when, target[:, i]) for i in range(2)], -1)
            for at, when, target in zip(
                train_set.time, train_set.target_time, train_set.target.double(), strict=True
            )
        ]
    )
    # The wide outer ends of clockwise spirals are too curved for straight lines.
    late = (train_set.time > 3.0).unsqueeze(-1).expand_as(clean)
    noise = (train_set.x - clean)[late].double()
    shape = draw_shapes(300, SPREAD, torch.Generator().manual_seed(0))
    asked = train_set.target_time[0].double()
    extent = curves(asked, torch.arange(300) % 2 == 0, shape)[:200].flatten(0, 1)
    scale = extent.amax(0) - extent.amin(0)
    assert noise.mean().abs() < 2e-4
    assert noise.std().item() == pytest.approx((0.05 / scale).square().mean().sqrt().item(), rel=0.05)


def _lerp(at, x, y):
    right = torch.searchsorted(x, at).clamp(1, len(x) - 1)
    share = ((at - x[right - 1]) / (x[right] - x[right - 1])).double()
    return y[right - 1] + share * (y[right] - y[right - 1])


def test_leak_the_scale_comes_from_training_spirals_alone():
    train_set, test_set = draw_spirals(150, 0)
    torch.testing.assert_close(train_set.target.amin((0, 1)), torch.zeros(2), rtol=0, atol=1e-6)
    torch.testing.assert_close(train_set.target.amax((0, 1)), torch.ones(2), rtol=0, atol=1e-6)
    assert test_set.target.min() != 0
    assert test_set.target.max() != 1


def test_leak_no_test_spiral_is_a_training_spiral():
    train_set, test_set = draw_spirals(150, 0)
    apart = (test_set.target.flatten(1).unsqueeze(1) - train_set.target.flatten(1)).abs().amax(-1)
    assert apart.min() > 0


def test_curves_at_times_of_their_own_are_those_at_common_times():
    time = torch.linspace(0, END, 40, dtype=torch.float64)
    clockwise = torch.tensor([True, False, True])
    shape = draw_shapes(3, 0.05, torch.Generator().manual_seed(0))
    assert torch.equal(curves(time, clockwise, shape), curves(time.expand(3, -1), clockwise, shape))


def test_spirals_that_make_no_sense_are_refused():
    for length, seed, message in ((5, 0, "length must be at least 6"), (9, -1, "seed")):
        with pytest.raises(ValueError, match=message):
            draw_spirals(length, seed)


def test_errors_are_means_over_spirals_points_and_coordinates():
    guess, target = torch.rand(3, 150, 2), torch.rand(3, 150, 2)
    found = errors(guess, target)
    for part, points in (("interpolation", range(75)), ("extrapolation", range(75, 150))):
        off = [float(guess[i, p, c] - target[i, p, c]) for i in range(3) for p in points for c in range(2)]
        assert found["mse"][part] == pytest.approx(sum(d * d for d in off) / len(off))
        assert found["mae"][part] == pytest.approx(sum(map(abs, off)) / len(off))


def test_controls_against_loops():
    train_set, test_set = draw_spirals(30, 0)
    found = controls(train_set, test_set)
    means = {turn: train_set.target[train_set.clockwise == turn].double().mean(0) for turn in (False, True)}
    direction = torch.stack([means[bool(turn)] for turn in test_set.clockwise])
    overall = train_set.target.double().mean(0).expand(100, -1, -1)
    held = torch.empty(100, 150, 2)
    times, asked = test_set.time.tolist(), test_set.target_time.tolist()
    for i in range(100):
        for p, moment in enumerate(asked[i]):
            earlier = [j for j, seen in enumerate(times[i]) if seen <= moment]
            held[i, p] = test_set.x[i, earlier[-1] if earlier else 0]
    for name, guess in (("direction_mean", direction), ("overall_mean", overall), ("persistence", held)):
        expected = errors(guess, test_set.target)
        for metric in ("mse", "mae"):
            assert found[name][metric] == pytest.approx(expected[metric], rel=1e-4), name
    assert found["direction_mean"]["mse"]["interpolation"] < found["overall_mean"]["mse"]["interpolation"]


# The network


def test_leak_what_tells_spirals_apart_comes_through_the_layer_alone(monkeypatch):
    net = build(SMALL, 0).eval()
    spirals = draw_spirals(150, 0)[1]
    guess = net(spirals.x[:6], spirals.time[:6], spirals.target_time[:6])
    assert (guess[0] - guess[1]).abs().max() > 1e-4
    shape = guess.shape[:2]
    monkeypatch.setattr(net.layer, "forward", lambda *inputs, **times: torch.full((*shape, 64), 0.3))
    blind = net(spirals.x[:6], spirals.time[:6], spirals.target_time[:6])
    assert (blind == blind[:1]).all()
    assert (blind[0, 0] != blind[0, 1]).all()  # it does know the asked times


def test_the_network_asks_its_layer_for_asked_times_among_seen_ones(monkeypatch):
    net = build(SMALL, 0)
    calls = []
    forward = net.layer.forward

    def listen(query, key, value, *, time, key_time):
        calls.append((query.shape, key.shape, torch.equal(key, value), time, key_time))
        return forward(query, key, value, time=time, key_time=key_time)

    monkeypatch.setattr(net.layer, "forward", listen)
    x, seen, asked = torch.rand(2, 9, 2), torch.rand(2, 9).sort().values, torch.rand(2, 5)
    assert net(x, seen, asked).shape == (2, 5, 2)
    ((query, key, same, time, key_time),) = calls
    assert (query, key, same) == ((2, 5, 64), (2, 9, 64), True)
    assert torch.equal(time, asked)
    assert torch.equal(key_time, seen)


def test_each_answer_depends_on_its_own_question_only():
    net = build(SMALL, 0).eval()
    x, seen, asked = torch.rand(2, 30, 2), torch.rand(2, 30).sort().values * 9, torch.rand(2, 8) * 18
    order = torch.randperm(8)
    torch.testing.assert_close(net(x, seen, asked)[:, order], net(x, seen, asked[:, order]))


def test_a_setting_reaches_the_layer():
    layer = build(SpiralSetting(heads=8, sparsity=0.7, top_k=3), 5).layer
    config = layer.config
    assert (config.num_heads, config.sparsity, config.top_k, config.d_model) == (8, 0.7, 3, 64)
    assert (config.mode, config.seed, config.time_scale) == ("exact", 5, END)
    assert build(SpiralSetting(heads=32), 0).layer.config.d_head == 2


def test_heads_sparsity_and_keys_change_the_answer_and_the_body_starts_the_same():
    one = build(DEFAULT, 0)
    spirals = draw_spirals(150, 0)[1]
    seen = spirals.x[:3], spirals.time[:3], spirals.target_time[:3]
    for other in (SpiralSetting(heads=8), SpiralSetting(sparsity=0.9), SpiralSetting(top_k=2)):
        two = build(other, 0)
        same = {n: p for n, p in one.named_parameters() if not n.startswith("layer.")}
        for name, parameter in two.named_parameters():
            if not name.startswith("layer."):
                assert torch.equal(parameter, same.pop(name)), (other, name)
        assert not same
        assert (one(*seen) - two(*seen)).abs().max() > 1e-4, other


def test_every_weight_gets_a_gradient():
    net = build(SMALL, 0)
    spirals = draw_spirals(150, 0)[0]
    loss = (net(spirals.x[:8], spirals.time[:8], spirals.target_time[:8]) - spirals.target[:8]).square().mean()
    loss.backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name
