"""parity: the layer equals the slow reference written from the paper, in outputs and gradients."""

import ncps.wirings
import pytest
import torch

import nacre
from reference.nac import reference_nac

pytestmark = pytest.mark.usefixtures("either_path")

CASES = {
    "defaults": {},
    "euler": {"mode": "euler", "euler_steps": 3},
    "euler-stiff": {"mode": "euler", "euler_steps": 1, "omega_min": 4.5},
    "steady": {"mode": "steady"},
    "steady-no-gate": {"mode": "steady", "integrate": False},
    "no-integral": {"integrate": False},
    "phi-linear": {"phi": "linear"},
    "phi-tanh": {"phi": "tanh"},
    "all-pairs": {"top_k": None},
    "all-pairs-causal": {"top_k": None, "causal": True},
    "exact-selection": {"selection": "exact", "top_k": 3},
    "exact-causal": {"selection": "exact", "top_k": 3, "causal": True},
    "causal": {"causal": True, "top_k": 3},
    "block-size": {"block_size": 2, "top_k": 3},
    "causal-block": {"causal": True, "top_k": 3, "block_size": 2},
    "reach": {"block_size": 2, "top_k": 2, "reach": 3},
    "reach-causal": {"block_size": 2, "top_k": 2, "reach": 4, "causal": True},
    "match-content": {"match": "content"},
    "match-both": {"match": "both"},
    "match-gain": {"match": "both", "gain": 0.5, "time_scale": 0.7},
    "match-steady": {"match": "both", "mode": "steady", "integrate": False, "phi": "linear"},
    "match-causal": {"match": "both", "causal": True, "block_size": 2, "top_k": 2},
    "match-exact": {"match": "both", "selection": "exact", "bias": False},
    "match-all-pairs": {"match": "both", "top_k": None, "mode": "euler"},
    "shared": {"share_backbone": True},
    "no-bias": {"bias": False},
    "random": {"wiring": "random", "sparsity": 0.8},
    "random-no-bias": {"wiring": "random", "sparsity": 0.8, "bias": False},
    "dense": {"wiring": "dense"},
    "mlp": {"wiring": "mlp"},
    "sparse": {"sparsity": 0.9},
    "full": {"sparsity": 0.0},
    "settle-3": {"settle_steps": 3},
    "settle-7": {"settle_steps": 7},
    "softsign": {"activation": "softsign"},
    "time-scale": {"time_scale": 3.0},
    "units": {"backbone_units": 9},
    "ncps-wiring": {"wiring": ncps.wirings.AutoNCP(12, 2)},
}


def make(options, d_input=3):
    layer = nacre.NAC(4, 2, d_input=d_input, dtype=torch.float64, **{"top_k": 3, **options})
    for p in layer.parameters():  # biases too: zeros would hide mistakes
        torch.nn.init.normal_(p, std=0.7)
    return layer


def compare(layer, *args, padding=None, **times):
    fast = layer(*args, key_padding_mask=padding, **times)
    slow = reference_nac(layer, *args, padding=padding, **times)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(fast)
    parameters = [*layer.parameters(), *args]
    got = torch.autograd.grad((fast * weight).sum(), parameters, materialize_grads=True)
    want = torch.autograd.grad((slow * weight).sum(), parameters, materialize_grads=True)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_parity_self_attention_with_time_and_padding(case):
    layer = make(CASES[case])
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    time = torch.rand(2, 7, dtype=torch.float64).cumsum(1) * 3
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[1, 4:] = True
    padding[0, 0] = True
    compare(layer, x, time=time, padding=padding)


@pytest.mark.parametrize(
    "case", ["defaults", "euler", "steady", "all-pairs", "exact-selection", "random", "match-both"]
)
def test_parity_cross_attention(case):
    layer = make(CASES[case])
    q, k, v = (torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 6, 6))
    time, key_time = torch.rand(2, 4, dtype=torch.float64), torch.rand(2, 6, dtype=torch.float64)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 2:] = True
    compare(layer, q, k, v, time=time, key_time=key_time, padding=padding)


@pytest.mark.parametrize("match", ["none", "both"])
@pytest.mark.parametrize("causal", [False, True])
def test_parity_without_time_or_padding(causal, match):
    layer = make({"causal": causal, "match": match})
    compare(layer, torch.randn(1, 11, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("length", [1, 2, 3, 13])
def test_parity_at_odd_lengths(length):
    layer = make({"top_k": 5})
    compare(layer, torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True))
