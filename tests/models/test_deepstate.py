"""DeepState against a textbook filter and against the joint Gaussian."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models._base import prepare
from nacre.models._kalman import kalman_filter, transition
from reference import deepstate as reference
from support.hypothesis import examples


def make(**options):
    torch.manual_seed(5)
    options = {"hidden": 6, "channels": 2, "latent": 3, **options}
    model = nacre.create("deepstate", d_input=3, d_model=4, num_heads=1, **options).double()
    with torch.no_grad():
        model.prior_mean.normal_()
        model.prior_std.normal_()
        model.emit.weight.mul_(3)  # parameters that differ from step to step
    return model


def batch(rows=2, length=7):
    time = torch.rand(rows, length, dtype=torch.float64).mul(2).cumsum(1)
    time[:, 3] = time[:, 2]  # equal stamps
    return torch.randn(rows, length, 3, dtype=torch.float64), time


def filtered(model, x, time):
    steps = prepare(x, time, None, model.time_scale)
    return model.filter(steps, model.lstm(x)[0], model.start(x)[2:])[0]


def close(got, want, tolerance=1e-9):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def by_textbook(model, x, time):
    """Means, covariances and log densities of every row and channel: [B, T, c, ...]."""
    rows = [[reference.kalman(model, *row, c) for c in range(model.channels)] for row in zip(x, time, strict=True)]
    return [torch.stack([torch.stack([c[part] for c in row], 1) for row in rows]) for part in range(3)]


def test_parity_deepstate_is_a_textbook_kalman_filter():
    model = make()
    x, time = batch()
    got = filtered(model, x, time)
    for ours, want in zip((got.mean, got.covariance, got.log_density()), by_textbook(model, x, time), strict=True):
        assert ours.shape == want.shape
        close(ours, want)


def test_parity_deepstate_is_its_parts():
    """Output, loss and gradients, from the textbook filter; the time scale on the way."""
    model = make(time_scale=3.0)
    x, time = batch()
    weight = torch.randn(2, 7, 4, dtype=torch.float64)

    def gradients(y, loss):
        model.zero_grad()
        ((y * weight).sum() + loss).backward()
        return [p.grad.clone() for p in model.parameters()]

    mean, _, density = by_textbook(model, x, time)
    parts = torch.cat([mean.flatten(2), model.lstm(x)[0]], -1)
    want, want_loss = parts @ model.out_proj.weight.T + model.out_proj.bias, -density.mean()
    got = model(x, time=time * 3)
    close(got, want)
    close(model.aux_loss, want_loss)
    for g, w in zip(gradients(got, model.aux_loss), gradients(want, want_loss), strict=True):
        close(g, w)


@torch.no_grad()
def test_parity_deepstate_is_the_joint_gaussian():
    model = make()
    x, time = batch()
    got = filtered(model, x, time)
    for row in range(2):
        for channel in range(2):
            density, mean, covariance = reference.joint(model, x[row], time[row], channel)
            assert got.log_density()[row, :, channel].sum().item() == pytest.approx(density, abs=1e-9)
            close(got.mean[row, -1, channel], mean)
            close(got.covariance[row, -1, channel], covariance)


positive = st.floats(0.01, 5.0)


@examples(20)
@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=4), positive, positive)
def test_two_moves_are_one(parts, first, second):
    rate, drive = torch.tensor(parts, dtype=torch.float64).T
    (f1, q1), (f2, q2), (f, q) = (
        transition(rate, drive, torch.tensor([t], dtype=torch.float64)) for t in (first, second, first + second)
    )
    close(f1 * f2, f)
    close(f2[:, None] * q1 * f2 + q2, q)
    for got, want in zip((torch.diag(f), q), reference.move(rate, drive, first + second), strict=True):
        close(got, want, 1e-8)


def test_short_moves_add_the_published_innovation_for_each_unit_of_time():
    rate, drive = torch.tensor([0.5, 2.0], dtype=torch.float64), torch.tensor([0.3, 0.7], dtype=torch.float64)
    factor, added = transition(rate, drive, torch.tensor([1e-6], dtype=torch.float64))
    torch.testing.assert_close(added / 1e-6, torch.outer(drive, drive), rtol=1e-5, atol=0)
    torch.testing.assert_close((1 - factor) / 1e-6, rate, rtol=1e-5, atol=0)
    factor, added = transition(rate, drive, torch.zeros(1, dtype=torch.float64))
    assert factor.tolist() == [1, 1]
    assert (added == 0).all()


@examples(15)
@given(st.integers(1, 12), st.integers(1, 4))
def test_covariances_are_symmetric_and_observing_lowers_them(length, latent):
    model = make(latent=latent)
    x, time = torch.randn(2, length, 3, dtype=torch.float64), torch.zeros(2, length, dtype=torch.float64)
    s = filtered(model, x, time).covariance
    assert torch.equal(s, s.mT)
    assert torch.linalg.eigvalsh(s).min() > 0
    # No time passes, so that nothing but observation acts.
    falls = torch.cat([reference.prior(model, 0)[1].expand(2, 1, -1, -1), s[:, :, 0]], 1).diff(dim=1)
    assert torch.linalg.eigvalsh(falls).max() < 1e-12


def at_one_moment(z, loading, noise):
    """Filter observations [T] with loadings [T, l] between which no time passes."""
    length, latent = loading.shape
    return kalman_filter(
        z[None, :, None],
        loading[None, :, None],
        torch.full((1, length, 1), noise, dtype=torch.float64),
        torch.ones(1, length, 1, latent, dtype=torch.float64),
        torch.zeros(1, length, 1, latent, latent, dtype=torch.float64),
        torch.eye(latent + 1, dtype=torch.float64)[None, None, 1:],  # [0 | I]
    )


@pytest.mark.parametrize(("size", "tolerance"), [(30, 1e-6), (1e4, 1e-3)])
def test_many_exact_observations_at_one_moment_are_a_linear_regression(size, tolerance):
    loading = torch.randn(2000, 4, dtype=torch.float64) * size
    z = torch.randn(2000, dtype=torch.float64)
    got = at_one_moment(z, loading, 1e-4)
    want = torch.linalg.inv(torch.eye(4, dtype=torch.float64) + loading.T @ loading / 1e-4)
    assert (got.variance >= 1e-4).all()
    torch.testing.assert_close(got.covariance[0, -1, 0], want, rtol=0, atol=want.max() * tolerance)
    mean = want @ loading.T @ z / 1e-4
    torch.testing.assert_close(got.mean[0, -1, 0], mean, rtol=0, atol=mean.abs().max() * tolerance)


def test_exact_observations_in_quick_succession_are_sound_in_single_precision():
    """Innovations over short times have nearly rank one, and observations are exact: the worst for rounding."""
    model = make()
    with torch.no_grad():
        emit = model.emit.weight.view(2, -1, 6)
        emit[:, :3] *= 100  # loadings
        model.emit.bias.view(2, -1)[:, -1] = -10  # the least noise
    x = torch.randn(2, 300, 3)
    time = torch.arange(300).expand(2, 300) * 1e-3
    want = filtered(model, x.double(), time)
    got = filtered(model.float(), x, time)
    assert torch.linalg.eigvalsh(got.covariance).min() > -1e-12
    torch.testing.assert_close(got.mean, want.mean, rtol=0, atol=1e-3)


def test_the_loss_leaves_padding_out():
    model = make()
    x, time = batch(3, 8)
    padding = torch.arange(8) >= torch.tensor([8, 3, 0])[:, None]
    model(x, time=time, key_padding_mask=padding)
    loss = model.aux_loss
    parts = []
    for row, length in ((0, 8), (1, 3)):
        model(x[row : row + 1, :length], time=time[row : row + 1, :length])
        parts.append(model.aux_loss * length)
    close(loss, sum(parts) / 11)
    model(x[:1], time=time[:1], key_padding_mask=torch.ones_like(padding[:1]))
    assert model.aux_loss.item() == 0


def test_the_loss_is_bounded_below():
    """Observations that are all zero, and expected with as little noise as there can be."""
    model = make()
    with torch.no_grad():
        model.observe.weight.zero_()
        model.emit.weight.zero_()
        model.emit.bias.zero_()
        model.emit.bias.view(2, -1)[:, -1] = -1e3
    model(*batch())
    assert model.aux_loss.item() == pytest.approx(math.log(0.01) + math.log(2 * math.pi) / 2)


def test_the_future_changes_nothing_before():
    model = make()
    x, time = batch(2, 9)
    want = model(x[:, :5], time=time[:, :5])
    time[:, 5:] += 4
    close(model(x, time=time)[:, :5], want, 1e-12)


def test_options_act_and_are_checked():
    x, time = batch()
    default = make()(x, time=time)
    for option, size in {"hidden": 5, "layers": 1, "channels": 1, "latent": 2}.items():
        assert not torch.allclose(make(**{option: size})(x, time=time), default), option
        with pytest.raises(ValueError, match=f"{option} must be at least 1, got 0"):
            make(**{option: 0})
        with pytest.raises(TypeError, match=f"{option} must be an integer"):
            make(**{option: 1.5})
