"""S4 against a dense recurrence, its two ways of computing against each other, and the scan."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models import _s4_kernel as s4_kernel
from nacre.models import s4 as layer
from nacre.models._s4_kernel import linear_scan
from nacre.native import library
from reference import s4 as reference
from reference.memory import LargestTensor
from support.hypothesis import examples

pytestmark = pytest.mark.usefixtures("either_path")


def make(d_state=6, **options):
    torch.manual_seed(3)
    model = nacre.create("s4", d_input=3, d_model=4, num_heads=1, d_state=d_state, **options).double()
    with torch.no_grad():
        model.log_step += 2  # faster states, so that 8 steps show what the parameters do
        model.norm.weight.normal_()
        model.norm.bias.normal_()
    return model


def irregular(rows, length):
    time = torch.rand(rows, length, dtype=torch.float64).mul(3).cumsum(1)
    time[:, 3] = time[:, 2]  # equal stamps
    return time


def regular(rows, length, interval, dtype=torch.float64):
    start = torch.arange(rows, dtype=dtype)[:, None] * 7
    return start + torch.arange(length, dtype=dtype) * interval


def by_scan(model, monkeypatch):
    """A call of the model that never takes the convolution."""

    def call(*args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(layer, "_interval", lambda steps: None)
            return model(*args, **kwargs)

    return call


def gradients(model, y, weight):
    model.zero_grad()
    (y * weight).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_all_close(got, want, tolerance=1e-9):
    assert got.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("interval", [None, 1.0, 0.3, 0.0])
def test_parity_s4_is_the_dense_recurrence(interval, monkeypatch):
    model = make(time_scale=2.0)
    x = torch.randn(2, 8, 3, dtype=torch.float64)
    time = irregular(2, 8) if interval is None else regular(2, 8, interval)
    weight = torch.randn(2, 8, 4, dtype=torch.float64)
    want = reference.s4(model, x, time)
    want_grads = gradients(model, want, weight)
    for call in (model, by_scan(model, monkeypatch)):
        y = call(x, time=time * 2)
        torch.testing.assert_close(y, want, rtol=1e-9, atol=1e-9)
        grads = gradients(model, y, weight)
        assert_all_close(grads, want_grads)
        if interval != 0:
            assert all((g != 0).all() for g in grads.values())


def test_parity_s4_is_the_normal_part_of_hippo(monkeypatch):
    """With eigenvalues and readout as they come from it, a channel is the real system of the dense matrix."""
    size, length = 8, 12
    n = np.arange(size)
    outer = np.sqrt(np.outer(2 * n + 1, 2 * n + 1))
    hippo = np.where(n[:, None] > n, -outer, 0) - np.diag(n + 1)
    low_rank, inlet = np.sqrt(n + 0.5), np.sqrt(2 * n + 1)
    normal = hippo + np.outer(low_rank, low_rank)
    eigenvalues, vectors = np.linalg.eig(normal)
    upper = np.argsort(eigenvalues.imag)[size // 2 :]

    frequency, gain = s4_kernel.legs_spectrum(size)
    np.testing.assert_allclose(eigenvalues[upper], -0.5 + 1j * frequency.numpy(), rtol=1e-12)
    parts = np.linalg.solve(vectors, inlet)  # the inlet in the base of eigenvectors, which have length 1
    np.testing.assert_allclose(np.abs(parts[upper]), gain.numpy(), rtol=1e-12)

    model = make(size)
    torch.testing.assert_close(model.frequency[2].detach(), frequency, rtol=1e-6, atol=0)
    assert model.log_decay.exp().allclose(torch.tensor(0.5, dtype=torch.float64))
    outlet = np.random.default_rng(0).normal(size=size)
    weight = torch.from_numpy((outlet @ vectors * parts)[upper])
    step = model.log_step.exp()[:1, None]
    rates = torch.complex(torch.full_like(frequency, -0.5), frequency) * step
    u = torch.randn(1, length, 1, dtype=torch.float64)
    matrix = torch.from_numpy(normal)
    for time in (irregular(1, length), regular(1, length, 0.7)):
        elapsed = torch.cat([torch.ones(1, 1), time.diff(dim=1)], 1).unsqueeze(-1)
        want = reference.state_space(
            u[0, :, 0], time[0], matrix * step[0], torch.from_numpy(inlet) * step[0], torch.from_numpy(outlet)
        )
        y = s4_kernel.recur(u, rates, weight / (rates / step), elapsed)
        torch.testing.assert_close(y[0, :, 0], want, rtol=1e-9, atol=1e-9)
    y = s4_kernel.convolve(u, rates, weight / (rates / step), 0.7)
    torch.testing.assert_close(y[0, :, 0], want, rtol=1e-9, atol=1e-9)


def test_the_start_has_the_published_distribution():
    torch.manual_seed(0)
    model = nacre.create("s4", d_input=3, d_model=400, num_heads=1)
    _, gain = s4_kernel.legs_spectrum(64)
    assert gain.square().sum().item() == pytest.approx(64**2 / 2)  # half of |B|², the other half is conjugate
    torch.testing.assert_close(model.readout.square().sum(-1).mean(0).double().detach(), gain**2, rtol=0.3, atol=0)
    steps = model.log_step.exp()
    assert 0.001 <= steps.min() < 0.0012
    assert 0.08 < steps.max() <= 0.1
    assert steps.log().mean().exp().item() == pytest.approx(0.01, rel=0.15)
    assert model.skip.std().item() == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("path", ["convolution", "scan"])
def test_single_precision_is_enough_at_length_512(path):
    """Phases frequency * step * time carry the rounding of both parameters, so 1e-6 becomes 1e-5 or so."""
    model = nacre.create("s4", d_input=3, d_model=16, num_heads=1)
    x = torch.randn(2, 512, 3)
    time = regular(2, 512, 0.5) if path == "convolution" else irregular(2, 512)
    want = copy.deepcopy(model).double()(x.double(), time=time)
    torch.testing.assert_close(model(x, time=time).double(), want, rtol=1e-4, atol=1e-4)


@examples(25)
@given(st.integers(1, 40), st.sampled_from([0.0, 1e-3, 0.25, 1.0, 3.7]), st.integers(1, 3), st.integers(1, 4))
def test_both_ways_agree(length, interval, rows, pairs):
    model = make(2 * pairs)
    x = torch.randn(rows, length, 3, dtype=torch.float64)
    time = regular(rows, length, interval)
    with pytest.MonkeyPatch.context() as patch:
        torch.testing.assert_close(model(x, time=time), by_scan(model, patch)(x, time=time), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("where", ["convolve", "recur"])
def test_which_way_is_taken(where, monkeypatch):
    taken = []
    for name in ("convolve", "recur"):
        function = getattr(layer, name)
        monkeypatch.setattr(
            layer, name, lambda *a, name=name, function=function: taken.append(name) or function(*a)
        )
    model = make()
    x = torch.randn(2, 8, 3, dtype=torch.float64)
    time = regular(2, 8, 0.1)
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[1, 5:] = True
    if where == "recur":
        time[1, 4] += 0.01
    model(x, time=time)
    model(x, time=time, key_padding_mask=padding)
    if where == "convolve":
        model(x)
        model(x, time=time + 1000)
    assert set(taken) == {where}
    if where == "convolve":
        stamps = time.requires_grad_()
        model(x, time=stamps).sum().backward()
        assert taken[-1] == "recur"
        assert (stamps.grad != 0).any()


def test_a_common_interval():
    def interval(*rows, valid=None, dtype=torch.float32):
        time = torch.tensor(rows, dtype=torch.float64)
        valid = torch.ones_like(time) if valid is None else torch.tensor(valid)
        return s4_kernel.common_interval(time, valid.bool(), dtype)

    assert interval([0, 2, 4], [1, 3, 5]) == 2
    assert interval([0, 2, 4], [1, 3, 4]) is None
    assert interval([0, 2, 4], [0, 3, 6]) is None
    assert interval([0, 2, 4], [0, 2, 2], valid=[[1, 1, 1], [1, 1, 0]]) == 2
    assert interval([0, 0, 0], [0, 2, 4], valid=[[0, 0, 0], [1, 1, 1]]) == 2
    assert interval([0, 0, 0], [0, 1, 2], valid=[[1, 0, 0], [1, 1, 0]]) == 1
    assert interval([5, 5, 5]) == 0
    assert interval([5, 5, 5.1]) is None
    assert interval([5], [8]) == 0
    assert interval([0.0, 0.0], valid=[[0, 0]]) == 0
    assert interval(*(regular(2, 1000, 0.1) + 1e4).tolist()) == pytest.approx(0.1, rel=1e-9)
    assert interval([0, 1, 2 + 5e-6]) is None
    assert interval([0, 1, 2 + 5e-7]) == pytest.approx(1)
    assert interval([0, 1, 2 + 5e-10], dtype=torch.float64) is None
    assert interval(*(regular(2, 1000, 0.1) + 1e4).tolist(), dtype=torch.float64) is not None


@examples(15)
@given(st.integers(1, 12), st.integers(1, 5), st.booleans())
def test_steps_that_follow_change_nothing_before(length, more, same_interval):
    model = make()
    x = torch.randn(2, length + more, 3, dtype=torch.float64)
    time = regular(2, length + more, 0.4)
    if not same_interval:
        time[:, length:] += 0.1
    whole = model(x, time=time)[:, :length]
    torch.testing.assert_close(model(x[:, :length], time=time[:, :length]), whole, rtol=1e-9, atol=1e-9)


@examples(15)
@given(st.lists(st.floats(0.05, 0.95), min_size=6, max_size=6), st.integers(1, 6))
def test_an_input_held_over_two_steps_is_one_step(shares, at):
    """The state is exact, so it does not matter into how many steps the time of an input is cut."""
    model = make()
    x = torch.randn(1, 7, 3, dtype=torch.float64)
    time = torch.tensor([[0.0, *np.cumsum(shares)]], dtype=torch.float64)
    middle = time[:, at - 1 : at] + shares[0] * (time[:, at : at + 1] - time[:, at - 1 : at])
    cut_x = torch.cat([x[:, :at], x[:, at : at + 1], x[:, at:]], 1)
    cut_time = torch.cat([time[:, :at], middle, time[:, at:]], 1)
    want = model(x, time=time)
    got = model(cut_x, time=cut_time)
    keep = [i for i in range(8) if i != at]
    torch.testing.assert_close(got[:, keep], want, rtol=1e-9, atol=1e-9)


def test_groups_of_channels_bound_memory_and_change_nothing(monkeypatch):
    monkeypatch.setattr(library, "runs", lambda *tensors: False)
    model = make(16)
    x = torch.randn(2, 64, 3, dtype=torch.float64)
    time = irregular(2, 64)
    weight = torch.randn(2, 64, 4, dtype=torch.float64)
    y = model(x, time=time)
    grads = gradients(model, y, weight)
    limit = 2 * 64 * 8 * 3 // 2  # room for one channel at a time
    monkeypatch.setattr(s4_kernel, "_STATES_AT_ONCE", limit)
    with LargestTensor() as largest:
        in_groups = model(x, time=time)
        group_grads = gradients(model, in_groups, weight)
    assert largest.elements == 2 * 2 * 64 * 8  # the states of one channel, seen as pairs of real numbers
    torch.testing.assert_close(in_groups, y, rtol=1e-12, atol=1e-12)
    assert_all_close(group_grads, grads, 1e-12)


def test_the_convolution_makes_no_tensor_of_states():
    model = nacre.create("s4", d_input=3, d_model=8, num_heads=1)
    with LargestTensor() as largest:
        model(torch.randn(1, 1000, 3)).sum().backward()
    assert largest.elements < 8 * 32 * 1000 / 4


@examples(30)
@given(st.integers(1, 33), st.booleans())
def test_the_scan_is_its_loop(length, is_complex):
    dtype = torch.complex128 if is_complex else torch.float64
    a = torch.randn(2, length, 3, dtype=dtype, requires_grad=True)
    b = torch.randn(2, length, 3, dtype=dtype, requires_grad=True)
    y, want = torch.zeros(2, 3, dtype=dtype), []
    for i in range(length):
        y = a[:, i] * y + b[:, i]
        want.append(y)
    want, got = torch.stack(want, 1), linear_scan(a, b)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(got)
    for g, w in zip(*(torch.autograd.grad(t, (a, b), weight) for t in (got, want)), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-9)


def test_the_scan_has_second_derivatives():
    a, b = (torch.randn(1, 5, 2, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradgradcheck(linear_scan, (a, b))


def test_s4_refuses_bad_options():
    with pytest.raises(ValueError, match="d_state must be even, for states come in conjugate pairs, got 5"):
        make(5)
    with pytest.raises(ValueError, match="d_state must be at least 2, got 0"):
        make(0)
    with pytest.raises(ValueError, match="time_scale must lie in"):
        make(time_scale=0.0)
    assert make(10).readout.shape == (4, 5, 2)
