"""The memory planner against the operating system's account."""

import json
import subprocess
import sys

import pytest
import torch

import nacre
from nacre.native import library

# A process of its own for each: what one run leaves in the heap would hide a part of the next one's need.
MEASURE = """
import json, sys, torch, nacre
from nacre.bench.memory import peak_of
action, batch, length, options, valid = json.loads(sys.argv[1])
torch.set_num_threads(1)
layer = nacre.NAC(**options)
def run(length):
    x = torch.randn(batch, length, layer.config.width)
    padding = torch.arange(length).expand(batch, -1) >= valid * length if valid < 1 else None
    def act():
        if action == "forward":
            with torch.inference_mode():
                layer(x, key_padding_mask=padding)
        else:
            layer(x, key_padding_mask=padding).sum().backward()
    return act
run(64)()
layer.zero_grad()
peak = peak_of(run(length))
plan = nacre.plan(batch, length, layer, valid=valid)
print(json.dumps([peak.added_bytes, getattr(plan, action), plan.kernels]))
"""
LAYER = {"d_model": 64, "num_heads": 4}
SIZES = {
    "long": (1, 40_000, LAYER, 1.0),
    "batch": (32, 600, LAYER, 1.0),
    "more keys": (1, 12_000, {**LAYER, "top_k": 32}, 1.0),
    "wide": (1, 12_000, {"d_model": 128, "num_heads": 8, "causal": True}, 1.0),
    "narrow": (1, 60_000, {"d_model": 32, "num_heads": 2}, 1.0),
    "cluster": (1, 20_000, {**LAYER, "selection": "cluster"}, 1.0),
    "padding": (32, 2000, LAYER, 0.25),
    "match": (1, 40_000, {**LAYER, "match": "both", "reach": 256}, 1.0),
}


def compare(action, size, **environment):
    """Bytes measured and predicted, whether kernels ran; run again if holes in the heap made it look large."""
    command = [sys.executable, "-c", MEASURE, json.dumps([action, *size])]
    results = []
    for _ in range(2):
        done = subprocess.run(
            command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **environment}
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
        if results[-1][0] < 1.3 * results[-1][1]:
            break
    return min(results)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["forward", "training"])
@pytest.mark.parametrize("name", SIZES)
def test_the_prediction_is_within_30_percent(name, action):
    measured, predicted, kernels = compare(action, SIZES[name])
    assert kernels
    assert 0.7 < predicted / measured < 1.3, f"{predicted:,} predicted, {measured:,} measured"


@pytest.mark.slow
@pytest.mark.parametrize("action", ["forward", "training"])
def test_so_it_is_without_kernels(action):
    measured, predicted, kernels = compare(action, (1, 20_000, LAYER, 1.0), NACRE_NATIVE="0")
    assert not kernels
    assert 0.7 < predicted / measured < 1.3, f"{predicted:,} predicted, {measured:,} measured"


@pytest.mark.slow
@pytest.mark.parametrize("action", ["forward", "training"])
@pytest.mark.parametrize("options", [{"top_k": None}, {"selection": "exact"}], ids=str)
def test_elsewhere_it_is_the_least_that_is_needed(action, options):
    measured, predicted, _ = compare(action, (1, 1000 if "top_k" in options else 8000, LAYER | options, 1.0))
    assert 0.2 < predicted / measured < 1.3, f"{predicted:,} predicted, {measured:,} measured"


def test_memory_grows_with_length_and_not_with_its_square():
    layer = nacre.NAC(**LAYER)
    small, large = nacre.plan(1, 50_000, layer), nacre.plan(1, 100_000, layer)
    assert small.chunk == large.chunk
    for action in ("forward", "training"):
        assert 1.7 < getattr(large, action) / getattr(small, action) < 2.1
    assert large.forward < large.training


def test_what_it_says(monkeypatch):
    layer = nacre.NAC(**LAYER)
    assert str(nacre.plan(1, 1_000_000, layer)).startswith(
        "4,096 queries at a time by compiled kernels: forward 5."
    )
    assert nacre.plan(2, 10, layer).chunk == 20
    assert nacre.plan(4, 1000, layer, valid=0.5).forward < nacre.plan(4, 1000, layer).forward
    for other in (nacre.NAC(**LAYER, activation="gelu"), nacre.NAC(**LAYER, dtype=torch.bfloat16)):
        assert "by PyTorch alone" in str(nacre.plan(1, 10, other))
    monkeypatch.setattr(sys.modules["nacre.plan"], "library", lambda: None)
    assert not nacre.plan(1, 10, layer).kernels
    assert library.library() is not None


def test_what_is_no_layer_is_refused():
    stack = nacre.NACEncoder(nacre.NACConfig(**LAYER), num_layers=1)
    with pytest.raises(TypeError, match="layer must be a nacre.NAC, got NACEncoder"):
        nacre.plan(1, 10, stack)


@pytest.mark.parametrize(
    ("arguments", "message"), [((0, 5), "batch must be"), ((1, 0), "length must be"), ((1, 2.5), "length must be")]
)
def test_bad_sizes(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        nacre.plan(*arguments, nacre.NAC(**LAYER))
