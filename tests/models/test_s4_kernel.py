"""The compiled recurrence of S4 gives what the PyTorch scan gives, in values and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models._s4_kernel import recur
from nacre.native import library
from nacre.native import s4 as native_s4
from reference.memory import LargestTensor
from support.hypothesis import examples
from support.models import case

ATOL = {torch.float32: 2e-6, torch.float64: 1e-12}
B, T = 3, 9


def system(width, states, dtype=torch.float64, rows=B, length=T):
    """Inputs, rates and weights of random channels, and elapsed times."""
    decay, frequency = torch.rand(2, width, states, dtype=dtype)
    rates = torch.complex(-0.001 - 0.1 * decay, 30 * frequency)
    weights = torch.randn(width, states, dtype=dtype.to_complex())
    u = torch.randn(rows, length, width, dtype=dtype)
    elapsed = torch.rand(rows, length, 1, dtype=dtype)
    elapsed[0, 2] = 0
    return *(x.requires_grad_() for x in (u, rates, weights)), elapsed


def both(monkeypatch, *inputs, asks=None):
    """Outputs and gradients by the kernel, and the same by the scan."""
    assert library.runs(inputs[0], inputs[3])
    made = outputs(*inputs, asks=asks)
    with monkeypatch.context() as patch:
        patch.setattr(library, "runs", lambda *tensors: False)
        return made, outputs(*inputs, asks=asks)


def outputs(*inputs, asks=None):
    """Outputs and gradients by inputs, rates and weights."""
    y = recur(*inputs, asks)
    grad = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.mT.shape).mT  # in another order in memory
    return y, *torch.autograd.grad(y, inputs[:3], grad)


def same(got, want, tolerance):
    for a, b in zip(got, want, strict=True):
        size = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a / size, b / size, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("asking", [False, True])
def test_parity_of_kernel_and_scan(dtype, asking, monkeypatch):
    for states in (1, 8, 13, 16, 33):
        for span in (1e-3, 1.0, 100.0):
            *learned, elapsed = system(3, states, dtype)
            asks = torch.rand(B, T) < 0.4 if asking else None
            with case(states, "states", span):
                same(*both(monkeypatch, *learned, elapsed * span, asks=asks), ATOL[dtype])


@examples(30)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 5), st.integers(1, 20), st.booleans())
def test_sizes_of_every_kind(rows, length, width, states, asking):
    *learned, elapsed = system(width, states, rows=rows, length=max(3, length))
    asks = torch.rand(elapsed.shape[:2]) < 0.5 if asking else None
    with pytest.MonkeyPatch.context() as patch:
        same(*both(patch, *learned, elapsed, asks=asks), 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_settled_states_have_no_gradient_by_their_rates(dtype, monkeypatch):
    """However far apart steps are; phases of millions of turns are still those of sin and cos."""
    *learned, elapsed = system(3, 13, dtype)
    elapsed = elapsed.clamp(min=0.1) * 1e7
    got, want = both(monkeypatch, *learned, elapsed)
    assert got[2].abs().max() < 1e-10
    same((*got[:2], got[3]), (*want[:2], want[3]), ATOL[dtype])


@pytest.mark.parametrize("gap", [1e3, 1e5, 1e7])
def test_long_phases_of_states_that_hardly_decay(gap, monkeypatch):
    u, rates, weights, elapsed = system(2, 9, torch.float32)
    rates = torch.complex(-torch.rand(2, 9) / gap / T, rates.detach().imag).requires_grad_()
    got, want = both(monkeypatch, u, rates, weights, elapsed * gap)
    same(got, want, 2e-5)


def test_gradients_and_their_gradients():
    *learned, elapsed = system(2, 3, rows=2, length=4)
    for asks in (None, torch.rand(2, 4) < 0.5):
        assert torch.autograd.gradcheck(lambda *x, asks=asks: recur(*x, elapsed, asks), learned)
        assert torch.autograd.gradgradcheck(
            lambda *x, asks=asks: recur(*x, elapsed, asks), learned, fast_mode=True
        )


def test_threads_and_other_rows_change_no_bit(monkeypatch):
    *learned, elapsed = system(7, 13, torch.float32, rows=5)

    def on(threads):
        def call(*args):
            torch.set_num_threads(threads)
            library.call(*args)
            torch.set_num_threads(1)

        monkeypatch.setattr(native_s4, "call", call)
        return outputs(*learned, elapsed)

    alone = on(1)
    for threads in (2, 3):
        for a, b in zip(on(threads), alone, strict=True):
            assert torch.equal(a, b)
    assert torch.equal(recur(learned[0][1:3], *learned[1:], elapsed[1:3]), alone[0][1:3])


def test_no_tensor_of_states_is_made():
    model = nacre.create("s4", d_input=3, d_model=8, num_heads=1)
    time = torch.rand(2, 200).cumsum(1)
    for asks in (None, torch.rand(2, 200) < 0.5):
        with LargestTensor() as largest:
            model(torch.randn(2, 200, 3), time=time, query_only=asks).sum().backward()
        assert largest.elements <= 2 * 200 * 16
