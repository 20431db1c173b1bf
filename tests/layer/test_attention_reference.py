"""parity: the layer equals the slow reference written from the paper, in outputs and gradients.

The reference runs once a case, and the layer twice: by the compiled kernels and by PyTorch.
"""

import ncps.wirings
import pytest
import torch

import nacre
from nacre.native import library
from reference.nac import reference_nac

# Every option differs from its default in one of these.
TOGETHER = {
    "defaults": {},
    "euler, exact and causal": {"mode": "euler", "euler_steps": 3, "selection": "exact", "causal": True},
    "stiff Euler, random": {
        "mode": "euler",
        "euler_steps": 1,
        "omega_min": 4.5,
        "wiring": "random",
        "sparsity": 0.8,
        "bias": False,
    },
    "steady, no gate, match": {
        "mode": "steady",
        "integrate": False,
        "phi": "linear",
        "match": "both",
        "share_backbone": True,
    },
    "all pairs, dense": {"top_k": None, "causal": True, "wiring": "dense", "phi": "tanh", "backbone_units": 9},
    "match, causal, blocks": {
        "match": "both",
        "gain": 0.5,
        "time_scale": 0.7,
        "causal": True,
        "block_size": 2,
        "top_k": 2,
        "reach": 4,
    },
    "sparse, deep, softsign": {"sparsity": 0.9, "settle_steps": 7, "activation": "softsign", "integrate": False},
    "mlp, match by content": {"wiring": "mlp", "match": "content", "selection": "exact", "bias": False},
    "ncps wiring, steady": {"wiring": ncps.wirings.AutoNCP(12, 2), "mode": "steady", "time_scale": 3.0},
    "start, near, clock": {
        "match": "start",
        "near": 2,
        "top_k": 4,
        "clock": 3,
        "phi": "linear",
        "sensory_activation": "identity",
        "integrate": False,
        "inhibition": True,
        "backbone_units": 12,
    },
    "start by Euler, near, clock, causal": {
        "match": "start",
        "mode": "euler",
        "near": 2,
        "top_k": 3,
        "clock": 2,
        "time_scale": 0.7,
        "causal": True,
        "block_size": 2,
    },
}
ALONE = {
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
    "start": {"match": "start"},
    "start-stiff": {"match": "start", "mode": "euler", "euler_steps": 1, "omega_min": 4.5},
    "near": {"near": 1},
    "near-exact": {"near": 2, "selection": "exact"},
    "near-exact-causal": {"near": 2, "selection": "exact", "causal": True},
    "near-only": {"near": 3},
    "near-only-causal": {"near": 3, "causal": True},
    "near-all": {"near": 9, "top_k": 12},
    "near-reach": {"near": 1, "block_size": 2, "reach": 4, "match": "both"},
    "near-all-pairs": {"near": 2, "top_k": None},
    "clock": {"clock": 1},
    "clock-12": {"clock": 12, "mode": "steady", "integrate": False},
    "clock-shared": {"clock": 2, "share_backbone": True, "bias": False},
    "clock-all-pairs": {"clock": 2, "top_k": None, "causal": True},
    "clock-random": {"clock": 2, "wiring": "random", "sparsity": 0.8},
    "clock-wiring": {"clock": 2, "wiring": ncps.wirings.AutoNCP(12, 2)},
    "sensory": {"sensory_activation": "softsign"},
    "inhibition": {"inhibition": True},
    "inhibition-shared": {"inhibition": True, "share_backbone": True, "bias": False, "mode": "steady"},
    "inhibition-wiring": {"inhibition": True, "wiring": ncps.wirings.AutoNCP(12, 3), "integrate": False},
    "inhibition-mlp": {"inhibition": True, "wiring": "mlp"},
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


def deep(cases):
    return [pytest.param(case, marks=pytest.mark.deep) for case in cases]


def make(options, d_input=3):
    layer = nacre.NAC(4, 2, d_input=d_input, dtype=torch.float64, **{"top_k": 3, **options})
    for p in layer.parameters():  # biases too: zeros would hide mistakes
        torch.nn.init.normal_(p, std=0.7)
    return layer


@pytest.fixture
def compare(monkeypatch):
    def run(layer, *args, padding=None, **times):
        parameters = [*layer.parameters(), *args]

        def with_gradients(y):
            return y, torch.autograd.grad((y * weight).sum(), parameters, materialize_grads=True)

        slow = reference_nac(layer, *args, padding=padding, **times)
        weight = torch.randn_like(slow)
        slow, want = with_gradients(slow)
        assert library.library() is not None
        for path in ("kernels", "torch"):
            with monkeypatch.context() as patch:
                if path == "torch":
                    patch.setattr(library, "runs", lambda *tensors: False)
                fast, got = with_gradients(layer(*args, key_padding_mask=padding, **times))
            for a, b in zip((fast, *got), (slow, *want), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda text, p=path: f"{p}: {text}")

    return run


def sequences(length):
    x = torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True)
    time = torch.rand(2, length, dtype=torch.float64).cumsum(1) * 3
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[1, length // 2 + 1 :] = padding[0, 0] = True
    return x, time, padding


@pytest.mark.parametrize("case", [*TOGETHER, *deep(ALONE)])
def test_parity_self_attention_with_time_and_padding(case, compare):
    x, time, padding = sequences(7 if case in ALONE else 6)
    compare(make((TOGETHER | ALONE)[case]), x, time=time, padding=padding)


def test_the_cases_cover_every_option():
    covered = {name for options in TOGETHER.values() for name in options}
    assert covered == set(nacre.NACConfig.__dataclass_fields__) - {
        "d_model",
        "num_heads",
        "d_input",
        "dropout",
        "seed",
    }


NEAR = ["near-exact", "near-exact-causal", "near-only", "near-only-causal", "near-all", "near-reach", "clock-12"]


@pytest.mark.parametrize(
    "case",
    [
        "match, causal, blocks",
        "start, near, clock",
        *deep(["defaults", "euler", "steady", "all-pairs", "exact-selection", "random", "match-both", *NEAR]),
    ],
)
def test_parity_cross_attention(case, compare):
    """With stamps in no order."""
    layer = make((TOGETHER | ALONE)[case] | {"causal": False})
    q, k, v = (torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 6, 6))
    time, key_time = torch.rand(2, 4, dtype=torch.float64), torch.rand(2, 6, dtype=torch.float64)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 2:] = True
    compare(layer, q, k, v, time=time, key_time=key_time, padding=padding)


@pytest.mark.parametrize("case", ["start, near, clock", *deep(NEAR)])
@pytest.mark.parametrize("length", [6, pytest.param(11, marks=pytest.mark.deep)])
def test_parity_unsorted_and_equal_stamps(case, length, compare):
    x, _, padding = sequences(length)
    time = torch.randint(-2, 3, (2, length)).double()
    compare(make((TOGETHER | ALONE)[case]), x, time=time, padding=padding)


@pytest.mark.parametrize("case", ["start, near, clock", *deep(["start by Euler, near, clock, causal", *NEAR])])
def test_parity_by_rank_where_there_is_no_time(case, compare):
    layer = make((TOGETHER | ALONE)[case])
    x, _, padding = sequences(6)
    compare(layer, x, padding=padding)
    if not layer.config.causal:
        q = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
        compare(layer, q, x, x, padding=padding)


@pytest.mark.parametrize(
    "case",
    [
        "defaults",
        "match, causal, blocks",
        "start by Euler, near, clock, causal",
        *deep(["all-pairs", "exact-selection", *NEAR]),
    ],
)
def test_parity_causal_cross_attention_by_stamp(case, compare):
    layer = make((TOGETHER | ALONE)[case] | {"causal": True})
    q, k, v = (torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 6, 6))
    key_time = torch.rand(2, 6, dtype=torch.float64).cumsum(1)
    time = torch.tensor([[-1.0, 0.5, 1.5, 9.0], [9.0, 0.0, 1.0, 2.0]], dtype=torch.float64)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, :2] = padding[0, 3] = True
    compare(layer, q, k, v, time=time, key_time=key_time, padding=padding)


@pytest.mark.parametrize(("causal", "match"), [(False, "both"), (True, "none")])
def test_parity_without_time_or_padding(causal, match, compare):
    layer = make({"causal": causal, "match": match})
    compare(layer, torch.randn(1, 6, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("length", [1, 2, pytest.param(3, marks=pytest.mark.deep), 10])
def test_parity_at_odd_lengths(length, compare):
    layer = make({"top_k": 5})
    rows = 1 if length == 10 else 2
    compare(layer, torch.randn(rows, length, 3, dtype=torch.float64, requires_grad=True))
