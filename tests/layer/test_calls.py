"""Calls that people bring from other libraries: they work, or the message says what to write instead."""

import inspect

import pytest
import torch

import nacre
from support.refused import refused

X, K, V = torch.randn(2, 6, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8)
TIME = torch.rand(2, 6).cumsum(1)
PADDING = torch.arange(6) >= torch.tensor([[6], [4]])
CONFIG = nacre.NACConfig(d_model=8, num_heads=2, backbone_units=12)


def layer():
    torch.manual_seed(0)
    return nacre.NAC(8, 2, backbone_units=12)


# Names of other libraries

CALLS = {
    "need_weights": "NAC has no argument 'need_weights'; use return_trace=True, .* trace.weights",
    "average_attn_weights": "use return_trace=True, .* each head has keys of its own",
    "attn_mask": "a causal layer is made with causal=True; padding is key_padding_mask, .* no mask of single",
    "is_causal": "a causal layer is made with causal=True",
    "mask": "padding is key_padding_mask",
    "src_key_padding_mask": "it is called key_padding_mask here",
    "padding_mask": "it is called key_padding_mask here",
    "timespans": r"it is called time here and holds stamps, .* timespans.cumsum\(1\)",
    "times": "NAC has no argument 'times'; did you mean 'time'",
    "colour": "NAC has no argument 'colour'; it takes query, key, value, time, key_time, key_padding_mask",
}
OPTIONS = {
    "embed_dim": "NAC has no option 'embed_dim'; it is called d_model here",
    "hidden_size": "it is called d_model here",
    "input_size": "it is called d_input here",
    "nhead": "it is called num_heads here",
    "kdim": "query, key and value have one width, d_input; bring others to it with torch.nn.Linear",
    "vdim": "query, key and value have one width",
    "batch_first": r"leave it out: inputs are always \[batch, time, features\]",
    "add_bias_kv": "leave it out: no keys are added",
    "add_zero_attn": "leave it out: no keys are added",
}


@pytest.mark.parametrize("name", CALLS)
def test_names_of_other_calls(name):
    with refused(CALLS[name], TypeError):
        layer()(X, **{name: True})


@pytest.mark.parametrize("name", OPTIONS)
def test_names_of_other_constructors(name):
    with refused(OPTIONS[name], TypeError):  # even where what is called so here is missing
        nacre.NAC(**{name: 8})


def test_too_much_by_position():
    with refused("NAC takes 3 arguments by position, query, key, value, got 4; give time, key_time", TypeError):
        layer()(X, K, V, PADDING)
    with refused("NAC takes 2 options by position, d_model, num_heads, got 3; give d_input, top_k", TypeError):
        nacre.NAC(8, 2, 0.1)
    with refused("NACEncoder takes 3 arguments by position, x, time, .* got 4; give others by name", TypeError):
        nacre.NACEncoder(CONFIG, 1)(X, TIME, PADDING, True)


def test_twice():
    with refused("NAC was given 'query' by position and by name", TypeError):
        layer()(X, query=X)


def test_the_encoder_shows_the_line_to_write():
    line = r"nacre.NACEncoder\(nacre.NACConfig\(d_model=64, num_heads=4\), num_layers=2\)"
    for args, named in (
        ((64, 4), {}),
        ((64, 4), {"num_layers": 2}),
        ((), {"d_model": 64, "num_heads": 4, "num_layers": 2}),
        ((64,), {"nhead": 4, "num_layers": 2}),
        ((CONFIG, 2), {"causal": True}),
        ((layer(), 2), {}),
    ):
        with refused(line, TypeError, f"{args} {named}"):
            nacre.NACEncoder(*args, **named)
    with refused("NACEncoder has no option 'dim_feedforward'; it is called d_feedforward here", TypeError):
        nacre.NACEncoder(CONFIG, 2, dim_feedforward=64)
    with refused("NACEncoder has no argument 'src_key_padding_mask'; it is called key_padding_mask", TypeError):
        nacre.NACEncoder(CONFIG, 1)(X, src_key_padding_mask=PADDING)


def test_signatures_are_those_of_the_methods():
    assert list(inspect.signature(nacre.NAC).parameters)[:3] == ["d_model", "num_heads", "d_input"]
    forward = inspect.signature(nacre.NAC.forward).parameters
    assert " ".join(forward) == "self query key value time key_time key_padding_mask return_trace"
    assert forward["time"].kind is inspect.Parameter.KEYWORD_ONLY
