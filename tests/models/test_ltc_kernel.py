"""The kernels of LTC give what its PyTorch code gives.

Apart from `test_ltc`, whose tests run twice: here kernels are on unless a test turns them off.
"""

import numpy as np
import pytest
import torch

import nacre
from nacre.models import _ltc_neurons
from nacre.models._ltc_neurons import LTCNeurons
from nacre.native import library
from nacre.native.ltc import synapse_sums, unfold
from support.ltc import NAMES, batch, make, same
from support.models import case


def in_torch(monkeypatch, action):
    """What something gives without kernels."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "runs", lambda *tensors: False)
        return action()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_gives_what_torch_gives(name, dtype, monkeypatch):
    model = make(name, dtype, d_model=12)
    for rows, threads in ((1, 1), (5, 1), (19, 2)):
        x, time = batch(rows, dtype=dtype)
        torch.set_num_threads(1)
        want = in_torch(monkeypatch, lambda x=x, time=time: model(x, time=time))
        torch.set_num_threads(threads)
        with case(rows, "rows", threads, "threads"):
            same(model(x, time=time), want, [x, time, *model.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_no_bit(name):
    model, (x, time) = make(name, torch.float32), batch(19, dtype=torch.float32)

    def run(threads):
        torch.set_num_threads(threads)
        y = model(x, time=time)
        return [y, *torch.autograd.grad(y.square().sum(), [x, time, *model.parameters()])]

    alone = run(1)
    names = ["y", "x", "time", *(name for name, _ in model.named_parameters())]
    for threads in (2, 3):
        changed = [n for n, a, b in zip(names, run(threads), alone, strict=True) if not torch.equal(a, b)]
        assert changed == []


def test_gradients_of_the_kernels_and_their_gradients():
    """On lines of synapses of different lengths: of two vectors, empty, and one that does not fill a vector."""
    feeds = np.ones((9, 3))
    feeds[:, 1] = 0
    feeds[4:, 2] = 0
    neurons = LTCNeurons(nacre.Wiring(feeds[:3], feeds, ("inter",) * 3), unfolds=2).double()
    sensory, recurrent = neurons.sensory, neurons.recurrent

    def sums(*floats):
        return synapse_sums(*floats, sensory.source, sensory.used, sensory._in_torch)

    def states(*floats):
        return unfold(*floats, recurrent.source, recurrent.used, 2, neurons._in_torch)

    x, drive, delta, capacity = (torch.rand(s).double() + 0.5 for s in ((4, 9), (2, 3, 2, 3), (2, 3), (3,)))
    of_sums = [t.detach().requires_grad_() for t in (x, sensory.coefficient())]
    of_states = [t.detach().requires_grad_() for t in (drive, delta, capacity, recurrent.coefficient())]
    for function, floats in ((sums, of_sums), (states, of_states)):
        assert torch.autograd.gradcheck(function, floats)
        assert torch.autograd.gradgradcheck(function, floats, fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_that_have_gradients_are_the_same_gradients(name):
    model, (x, time) = make(name), batch()
    for p in model.neurons.recurrent.parameters():  # those of some inputs only
        p.requires_grad_(False)
    leaves = [x, *(p for p in model.parameters() if p.requires_grad)]
    loss = model(x, time=time.detach()).square().sum()
    plain = torch.autograd.grad(loss, leaves, retain_graph=True)
    differentiable = torch.autograd.grad(loss, leaves, create_graph=True)
    torch.testing.assert_close(differentiable, plain, rtol=1e-9, atol=1e-9)
    (second,) = torch.autograd.grad(differentiable[0].square().sum(), x)
    assert second.abs().max() > 0


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_rows_change_nothing(name, monkeypatch):
    model, (x, time) = make(name), batch()
    want = in_torch(monkeypatch, lambda: model(x, time=time))
    monkeypatch.setattr(_ltc_neurons, "_CHUNK_NUMBERS", 1000)
    got = in_torch(monkeypatch, lambda: model(x, time=time))
    same(got, want, [x, *model.parameters()])
