"""Bad input gets an error that names the argument, what came and what was wanted."""

import ncps.wirings
import numpy as np
import pytest
import torch

import nacre
from support.refused import refused

X = torch.randn(2, 6, 8)
MASK = torch.zeros(2, 6, dtype=torch.bool)
TIME = torch.rand(2, 6)


def bool_of(*shape):
    return torch.zeros(shape, dtype=torch.bool)


CALLS = {
    "unbatched": (lambda n: n(X[0]), ValueError, r"query must have shape \[batch, time, 8\], got \(6, 8\); use"),
    "rank 4": (lambda n: n(X[None]), ValueError, r"got \(1, 2, 6, 8\)"),
    "width": (lambda n: n(X[..., :5]), ValueError, r"8 numbers in its last dimension, got shape \(2, 6, 5\)"),
    "no tensor": (lambda n: n([1, 2]), TypeError, "query must be a torch.Tensor, got list"),
    "integers": (lambda n: n(X.long()), TypeError, r"query must be a floating-point tensor, got torch.int64; use"),
    "dtype": (lambda n: n(X.double()), TypeError, "query has dtype torch.float64 but the layer's weights are"),
    "empty batch": (lambda n: n(X[:0]), ValueError, r"at least one row and one step, got shape \(0, 6, 8\)"),
    "no steps": (lambda n: n(X[:, :0]), ValueError, r"at least one row and one step, got shape \(2, 0, 8\)"),
    "mask dtype": (
        lambda n: n(X, key_padding_mask=MASK.float()),
        TypeError,
        "bool tensor with True at padding, got",
    ),
    "mask type": (
        lambda n: n(X, key_padding_mask=[0]),
        TypeError,
        "key_padding_mask must be a bool tensor .* got list",
    ),
    "mask shape": (
        lambda n: n(X, key_padding_mask=MASK.T),
        ValueError,
        r"shape \(2, 6\) \(batch, time\), got \(6, 2\)",
    ),
    "time shape": (lambda n: n(X, time=TIME[0, :5]), ValueError, r"time must have shape \(2, 6\) .* got \(5,\)"),
    "time rank": (
        lambda n: n(X, time=TIME[..., None]),
        ValueError,
        r"all rows, got \(2, 6, 1\); use time.squ",
    ),
    "time dtype": (lambda n: n(X, time=MASK), TypeError, "real time stamps, got torch.bool"),
    "time type": (lambda n: n(X, time=3.0), TypeError, "real time stamps, got float"),
    "key_time alone": (lambda n: n(X, key_time=TIME), ValueError, "key_time belongs to cross attention"),
    "key without value": (lambda n: n(X, X), ValueError, "needs both key and value"),
    "value without key": (lambda n: n(X, value=X), ValueError, "needs both key and value"),
    "key batch": (
        lambda n: n(X, X[:1], X[:1]),
        ValueError,
        r"query's batch size, got query \(2, 6, 8\), key \(1, 6, 8\)",
    ),
    "value length": (lambda n: n(X, X, X[:, :3]), ValueError, r"key and value must have one shape"),
    "cross mask": (
        lambda n: n(X, X[:, :3], X[:, :3], key_padding_mask=MASK),
        ValueError,
        r"key_padding_mask must have shape \(2, 3\)",
    ),
    "time without key_time": (
        lambda n: n(X, X, X, time=TIME),
        ValueError,
        "cross attention with time needs key_time",
    ),
    "key_time without time": (lambda n: n(X, X, X, key_time=TIME), ValueError, "with key_time needs time"),
    "key_time shape": (
        lambda n: n(X, X[:, :3], X[:, :3], time=TIME, key_time=TIME),
        ValueError,
        r"key_time must have shape \(2, 3\)",
    ),
}


def test_bad_calls():
    layer = nacre.NAC(8, 2)
    for name, (call, error, message) in CALLS.items():
        with refused(message, error, name):
            call(layer)


def test_causal_cross_attention_of_unequal_lengths():
    layer = nacre.NAC(8, 2, causal=True)
    assert layer(X, X, X).shape == X.shape
    q, k, time = X, X[:, :3], torch.arange(6.0).expand(len(X), 6)
    with pytest.raises(
        ValueError, match="6 queries and 3 keys needs to know which keys are in the past.*give time"
    ):
        layer(q, k, k)
    assert layer(q, k, k, time=time, key_time=time[:, :3]).shape == q.shape
    with pytest.raises(ValueError, match="key_time must not go back within a row.*sort the steps"):
        layer(q, k, k, time=time, key_time=time[:, :3].flip(1))
    with pytest.raises(
        ValueError, match="time must be a number at every query of causal cross attention, got nan"
    ):
        layer(q, k, k, time=time * torch.nan, key_time=time[:, :3])


OPTIONS = [
    ({"d_model": 1, "num_heads": 1}, ValueError, "d_model must be at least 2, got 1"),
    ({"d_model": 8.0}, TypeError, r"d_model must be an integer, got 8.0 \(float\)"),
    ({"num_heads": 0}, ValueError, "num_heads must be at least 1, got 0"),
    ({"num_heads": 3}, ValueError, "multiple of num_heads, got d_model=8, num_heads=3"),
    ({"d_input": 0}, ValueError, "d_input must be at least 1, got 0"),
    ({"top_k": 0}, ValueError, "top_k must be at least 1, got 0"),
    ({"top_k": -3}, ValueError, "top_k must be at least 1, got -3"),
    ({"top_k": 2**20 + 1}, ValueError, "top_k must be at most 1048576, got 1048577"),
    ({"settle_steps": 1025}, ValueError, "settle_steps must be at most 1024, got 1025"),
    ({"top_k": True}, TypeError, "top_k must be an integer, got True"),
    (
        {"mode": "exakt"},
        ValueError,
        "mode must be one of 'exact', 'euler', 'steady', got 'exakt'; did you mean 'exact'",
    ),
    ({"sparsity": -0.1}, ValueError, r"sparsity must lie in \[0.0, 0.95\], got -0.1"),
    ({"sparsity": 0.96}, ValueError, r"sparsity must lie in \[0.0, 0.95\], got 0.96"),
    ({"sparsity": "half"}, TypeError, "sparsity must be a number, got 'half'"),
    ({"sparsity": float("nan")}, ValueError, "sparsity must lie in"),
    ({"wiring": "worm"}, ValueError, "wiring must be one of 'ncp', 'random', 'dense', 'mlp', got 'worm'"),
    ({"wiring": 3}, TypeError, "a nacre.Wiring or an ncps wiring, got int"),
    ({"causal": 1}, TypeError, "causal must be True or False, got 1"),
    ({"dropout": 1.5}, ValueError, r"dropout must lie in \[0.0, 1.0\], got 1.5"),
    ({"phi": "relu"}, ValueError, "phi must be one of 'sigmoid', 'tanh', 'linear'"),
    ({"selection": "best"}, ValueError, "selection must be one of 'sqrt', 'exact'"),
    ({"block_size": 0}, ValueError, "block_size must be at least 1"),
    ({"euler_steps": 0}, ValueError, "euler_steps must be at least 1"),
    ({"settle_steps": 2}, ValueError, "settle_steps must be at least 3"),
    ({"activation": "tan"}, ValueError, "activation must be one of .* did you mean 'tanh'"),
    ({"omega_min": 0.0}, ValueError, r"omega_min must lie in \(0.0, inf\), got 0.0"),
    ({"time_scale": -1.0}, ValueError, r"time_scale must lie in \(0.0, inf\), got -1.0"),
    ({"time_scale": float("inf")}, ValueError, r"time_scale must lie in \(0.0, inf\), got inf"),
    ({"backbone_units": 4}, ValueError, "backbone_units must be at least 5, got 4"),
    ({"seed": -1}, ValueError, "seed must be at least 0"),
    ({"near": -1}, ValueError, "near must be at least 0, got -1"),
    ({"near": 2.0}, TypeError, "near must be an integer, got 2.0"),
    ({"near": 9}, ValueError, "near must be at most top_k=8, of which it is a part, got 9"),
    ({"clock": -1}, ValueError, "clock must be at least 0, got -1"),
    ({"clock": 13}, ValueError, "clock must be at most 12, got 13"),
    ({"clock": True}, TypeError, "clock must be an integer, got True"),
    ({"match": "begin"}, ValueError, "match must be one of 'none', 'start', 'content', 'both', got 'begin'"),
    ({"match": "start", "mode": "steady"}, ValueError, "match='start' needs mode 'exact' or 'euler'"),
    ({"sensory_activation": "tan"}, ValueError, "sensory_activation must be one of .* did you mean 'tanh'"),
    ({"bias": None}, TypeError, "bias must be True or False"),
    ({"topk": 4}, TypeError, "NAC has no option 'topk'; did you mean 'top_k'"),
    ({"colour": 4}, TypeError, "NAC has no option 'colour'; further options are phi, selection"),
]


def test_bad_options():
    for options, error, message in OPTIONS:
        with refused(message, error, str(options)):
            nacre.NAC(**{"d_model": 8, "num_heads": 2, **options})


def test_wirings_that_do_not_fit():
    fits = nacre.Wiring.from_ncps(ncps.wirings.AutoNCP(12, 2), 8)
    assert nacre.NAC(8, 2, wiring=fits).backbone.wiring is fits
    with pytest.raises(
        ValueError, match=r"wiring must have 4 inputs .* and 2 motor neurons .* got Wiring\(AutoNCP: 8"
    ):
        nacre.NAC(8, 4, wiring=fits)
    with pytest.raises(ValueError, match=r"14 inputs \(query and key .* num_heads and 6 clock neurons\) and 2"):
        nacre.NAC(8, 2, wiring=fits, clock=3)
    with pytest.raises(ValueError, match="2 motor neurons"):
        nacre.NAC(8, 2, wiring=ncps.wirings.AutoNCP(12, 3))
    built = ncps.wirings.AutoNCP(12, 2)
    built.build(5)
    with pytest.raises(ValueError, match="built for 5 inputs, but 8 are needed"):
        nacre.NAC(8, 2, wiring=built)
    with pytest.raises(ValueError, match="backbone_units belongs to a generated wiring"):
        nacre.NAC(8, 2, wiring=fits, backbone_units=12)
    island = nacre.Wiring(np.zeros((3, 3)), [[0, 1, 1]] * 8, ("motor", "motor", "inter"))
    with pytest.raises(ValueError, match=r"output neurons \[0\] cannot be reached"):
        nacre.NAC(8, 2, wiring=island)


def test_near_keys_need_no_limit():
    assert nacre.NAC(8, 2, near=9, top_k=None)(X).shape == X.shape


def test_one_wiring_serves_many_layers():
    source = ncps.wirings.AutoNCP(12, 2)
    first, second = nacre.NAC(8, 2, wiring=source), nacre.NAC(8, 2, wiring=source)
    assert first.backbone.wiring == second.backbone.wiring
    assert not source.is_built()
