"""Half precision, autocast, determinism, chunks, memory."""

from dataclasses import replace

import pytest
import torch

import nacre
from nacre.layer import pairs
from nacre.layer.dynamics import LONGEST
from nacre.layer.selection import blocks
from reference.memory import LargestTensor
from support.cases import KINDS, PLUS, combinations, kind

MODES = ["exact", "euler", "steady"]

pytestmark = pytest.mark.usefixtures("either_path")


@pytest.mark.parametrize(
    ("mode", "dtype", "name"), combinations(MODES, [torch.bfloat16, torch.float16], list(KINDS))
)
def test_half_precision_layers_follow_float32(mode, dtype, name):
    layer = nacre.NAC(16, 2, **kind(name, mode=mode, selection="exact", top_k=None))
    x, time = torch.randn(2, 20, 16), torch.rand(2, 20).cumsum(1)
    want = layer(x, time=time)
    got = layer.to(dtype)(x.to(dtype), time=time)
    assert got.dtype == dtype
    assert (got.float() - want).abs().max() < 0.03 * want.abs().max() + 0.02
    got.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.bfloat16, "match"), (torch.float16, "paper"), (torch.bfloat16, "plus")]
)
def test_autocast(dtype, name):
    layer = nacre.NAC(16, 2, **kind(name, top_k=None))
    x, time = torch.randn(2, 20, 16), torch.rand(2, 20).cumsum(1)
    padding = torch.zeros(2, 20, dtype=torch.bool)
    padding[1, 9:] = True
    want = layer(x, time=time, key_padding_mask=padding)
    with torch.autocast("cpu", dtype=dtype):
        got = layer(x, time=time, key_padding_mask=padding)
    assert (got.float() - want).abs().max() < 0.03 * want.abs().max() + 0.02
    got.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_float64_all_the_way():
    layer = nacre.NAC(16, 2, dtype=torch.float64)
    y, trace = layer(torch.randn(1, 9, 16, dtype=torch.float64), return_trace=True)
    assert y.dtype == trace.logits.dtype == trace.inter.dtype == torch.float64


def test_same_seed_same_everything():
    def run():
        torch.manual_seed(11)
        layer = nacre.NAC(16, 4, dropout=0.3)
        x = torch.randn(3, 25, 16)
        y = layer(x)
        y.square().sum().backward()
        return [y, *(p.grad for p in layer.parameters())]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


@pytest.mark.parametrize("options", [{"top_k": 3, "causal": True}, {"top_k": None}, PLUS], ids=str)
def test_chunks_change_neither_output_nor_gradient(monkeypatch, options):
    layer = nacre.NAC(8, 2, dtype=torch.float64, **options)
    x = torch.randn(2, 23, 8, dtype=torch.float64, requires_grad=True)
    time = torch.rand(2, 23).cumsum(1)

    def run():
        y = layer(x, time=time)
        return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]

    whole = run()
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 2000)
    chunked = run()
    for a, b in zip(whole, chunked, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, time=time), whole[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["paper", "plus"])
def test_dropout_is_recomputed_as_it_was(monkeypatch, name):
    """With recomputation in backward, the gradient must belong to the dropout that was drawn in forward."""
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 1000)
    layer = nacre.NAC(8, 2, dropout=0.5, dtype=torch.float64, **kind(name))
    x = torch.randn(1, 20, 8, dtype=torch.float64)
    weight = layer.out_proj.weight

    def loss():
        torch.manual_seed(7)
        return layer(x).square().sum()

    for p in (weight, layer.value_gate.weights.bias.weight):
        (grad,) = torch.autograd.grad(loss(), p)
        step = torch.zeros_like(p)
        step.view(-1)[3] = 1e-6
        with torch.no_grad():
            p += step
            high = loss()
            p -= 2 * step
            low = loss()
            p += step
        assert grad.view(-1)[3].item() == pytest.approx(((high - low) / 2e-6).item(), rel=1e-5)


def test_dropout_acts_in_training_only():
    layer = nacre.NAC(8, 2, dropout=0.5)
    x = torch.randn(1, 20, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("name", ["paper", "plus"])
def test_no_tensor_of_all_pairs_times_neurons_is_made(monkeypatch, name):
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 2**17)
    monkeypatch.setattr(blocks, "CHUNK_ELEMENTS", 2**17)
    layer = nacre.NAC(16, 2, **kind(name, top_k=8, backbone_units=None))
    length, neurons = 2000, layer.backbone.wiring.num_neurons
    x = torch.randn(1, length, 16)
    with torch.no_grad(), LargestTensor() as peak:
        layer(x)
    all_pairs = length * 8 * 2 * neurons
    assert peak.elements <= max(2 * pairs.CHUNK_NUMBERS, length * 8 * 16) < all_pairs / 2


def test_module_protocol():
    layer = nacre.NAC(16, 4, causal=True, top_k=5)
    assert "top_k=5" in repr(layer)
    assert {p.dtype for p in layer.double().parameters()} == {torch.float64}
    meta = nacre.NAC(16, 4, device="meta")
    assert all(p.is_meta for p in meta.parameters())


def test_elapsed_time_of_half_precision_layers_is_float32():
    config = nacre.NACConfig(d_model=4, num_heads=2)
    stamps = torch.tensor([1000.0, 3.14159], dtype=torch.float64)
    elapsed = pairs.elapsed_time(stamps[:1], stamps[1:], config, torch.bfloat16)
    torch.testing.assert_close(elapsed, torch.tensor([996.85841]), rtol=1e-6, atol=0)


FAR = [([0.0, 1e39, 2e39], 1.0), ([1.7e9, 1.7e9, 1.8e9], 1e-300), ([-1e308, 1e308, 1e308], 1.0)]


@pytest.mark.parametrize("name", KINDS)
def test_any_time_between_steps_has_finite_gradients(name):
    for stamps, scale in FAR:
        layer = nacre.NAC(8, 2, **kind(name, time_scale=scale))
        x, time = torch.randn(1, 4, 8, requires_grad=True), torch.tensor([[*stamps, 0]], dtype=torch.float64)
        y = layer(x, time=time, key_padding_mask=torch.tensor([[False, False, False, True]]))
        assert y.isfinite().all()
        gradients = torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("name", KINDS)
def test_streams_bear_any_time_between_steps(name):
    layer = nacre.NAC(8, 2, causal=True, **kind(name)).eval()
    for stamps, scale in FAR:
        layer.config = replace(layer.config, time_scale=scale)
        x, time = torch.randn(1, 3, 8), torch.tensor([stamps], dtype=torch.float64)
        state = layer.init_state(1)
        for i, want in enumerate(layer(x, time=time)[0]):
            y, state = layer.step(x[:, i], state, time=time[:, i])
            assert want.isfinite().all()
            torch.testing.assert_close(y[0], want)


def test_elapsed_time_is_finite_and_not_too_large_to_multiply():
    stamps = torch.tensor([0.0, 1e11, 1e39, 1e308, -1e308], dtype=torch.float64)
    for scale, want in ((1.0, [0.0, 1e11, LONGEST, LONGEST, LONGEST]), (1e-300, [0.0, *[LONGEST] * 4])):
        config = nacre.NACConfig(d_model=4, num_heads=2, time_scale=scale)
        assert pairs.elapsed_time(stamps[:1], stamps, config, torch.float64).tolist() == want
        assert pairs.elapsed_time(stamps[-1:], stamps[-2:-1], config, torch.float32).item() == LONGEST
