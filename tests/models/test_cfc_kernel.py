"""The compiled CfC recurrence gives what the PyTorch loop gives, in values and gradients."""

import functools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models._cfc_recurrence import mixed, run_steps
from nacre.native import cfc as native_cfc
from nacre.native import library
from support.hypothesis import examples
from support.models import case

ATOL = {torch.float32: 1e-5, torch.float64: 1e-11}


def layer(rows, length, units, hidden, dtype=torch.float64):
    """Drive, elapsed, recurrent, weight and bias of a random layer; hidden=0 for none."""
    wide = hidden or 4 * units
    shapes = [(rows, length, wide), (rows, length, 1), (units, wide), (hidden, 4 * units), (4 * units,)]
    made = [torch.randn(shape, dtype=dtype) for shape in shapes]
    made[1] = made[1].abs()
    made[2] /= units**0.5
    made[3] /= max(hidden, 1) ** 0.5
    for i in (0, 2, 3, 4):
        made[i].requires_grad_()
    return made if hidden else [*made[:3], None, None]


def loop(*inputs, gate):
    return run_steps(*inputs, update=functools.partial(mixed, gate=gate))


def run_layer(*inputs, gate):
    return native_cfc.run_layer(*inputs, gate=gate, loop=functools.partial(loop, gate=gate))


@pytest.fixture
def on_threads(monkeypatch):
    """Call to set the threads of the kernel only: torch's own products are rounded differently on more threads."""

    def use(threads):
        def call(*args):
            torch.set_num_threads(threads)
            library.call(*args)
            torch.set_num_threads(1)

        monkeypatch.setattr(native_cfc, "call", call)

    return use


def same(made, gate, dtype=torch.float64):
    assert library.runs(*(x for x in made if x is not None))
    leaves = [x for x in made if x is not None and x.requires_grad]
    fast, want = run_layer(*made, gate=gate), loop(*made, gate=gate)
    torch.testing.assert_close(fast, want, rtol=0, atol=ATOL[dtype])
    grad = torch.randn_like(want.mT.contiguous()).mT  # in another order in memory
    for a, b in zip(*(torch.autograd.grad(y, leaves, grad) for y in (fast, want)), strict=True):
        size = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a / size, b / size, rtol=0, atol=ATOL[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden", [0, 35])
def test_parity_of_kernel_and_loop(hidden, dtype, on_threads):
    for rows, threads in ((1, 1), (1, 2), (5, 1), (5, 2), (19, 2)):
        on_threads(threads)
        for gate in (True, False):
            with case(rows, "rows", threads, "threads", "gate" if gate else "no gate"):
                same(layer(rows, 6, 13, hidden, dtype), gate, dtype)


@examples(40)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 40), st.integers(0, 70), st.booleans())
def test_sizes_of_every_kind(rows, length, units, hidden, gate):
    same(layer(rows, length, units, hidden), gate)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("gate", [True, False])
def test_gradients_and_their_gradients(hidden, gate):
    made = layer(3, 3, 3, hidden)
    inputs = [x for x in made if x is not None]

    def run(*inputs):
        return run_layer(*inputs, *made[len(inputs) :], gate=gate)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("hidden", [0, 24])
def test_threads_and_other_rows_change_no_bit(hidden, on_threads):
    made = layer(21, 12, 13, hidden, torch.float32)
    grad = torch.randn(21, 12, 13)

    def run(threads):
        on_threads(threads)
        out = run_layer(*made, gate=True)
        return out, torch.autograd.grad(out, made[0], grad)[0]

    out, drive_grad = run(1)
    for threads in (2, 3):
        other_out, other_grad = run(threads)
        assert torch.equal(other_out, out)
        assert torch.equal(other_grad, drive_grad)
    for rows in (slice(0, 1), slice(20, 21), slice(4, 9)):
        assert torch.equal(run_layer(made[0][rows], made[1][rows], *made[2:], gate=True), out[rows])


@pytest.mark.parametrize("name", ["cfc-fc", "cfc-ncp"])
def test_models_are_the_same_either_way(name, monkeypatch):
    model = nacre.create(name, d_input=5, d_model=20, num_heads=1).double()
    x, time = torch.randn(5, 30, 5, dtype=torch.float64), torch.rand(5, 30).cumsum(1)
    weight = torch.randn(5, 30, 20, dtype=torch.float64)
    made = []
    for kernels in (True, False):
        if not kernels:
            monkeypatch.setattr(library, "runs", lambda *tensors: False)
        y = model(x, time=time)
        made.append([y, *torch.autograd.grad((y * weight).sum(), list(model.parameters()))])
    for a, b in zip(*made, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_only_wanted_gradients_are_asked_for():
    """A frozen layer passes gradients on, also those that have gradients."""
    made = [x.detach() for x in layer(2, 4, 3, 5)]
    drive = made[0].requires_grad_()
    (once,) = torch.autograd.grad(run_layer(*made, gate=True).square().sum(), drive, create_graph=True)
    (want,) = torch.autograd.grad(loop(*made, gate=True).square().sum(), drive, create_graph=True)
    torch.testing.assert_close(once, want, rtol=0, atol=1e-11)
    twice = [torch.autograd.grad(g.square().sum(), drive)[0] for g in (once, want)]
    torch.testing.assert_close(*twice, rtol=0, atol=1e-11)
