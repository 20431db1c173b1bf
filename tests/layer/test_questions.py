"""Steps that only ask, in a NAC layer: the same as cross attention from all steps to those that tell something."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from support.hypothesis import examples
from support.refused import refused

pytestmark = pytest.mark.usefixtures("either_path")

OPTIONS = {
    "nac": {},
    "all pairs": {"top_k": None},
    "exact": {"selection": "exact", "top_k": 3},
    "steady": {"mode": "steady", "integrate": False},
    "nac-plus": {"clock": 2, "near": 2, "top_k": 4, "match": "content", "phi": "linear", "backbone_units": 12},
    "start": {"match": "start", "clock": 2, "near": 4, "top_k": 4},
    "rhythm": {"match": "both", "reach": 4},
}


def layer(**options):
    torch.manual_seed(2)
    return nacre.NAC(8, 2, d_input=5, **options).double()


def drawn(seed, length=11):
    torch.manual_seed(seed)
    time = torch.rand(1, length, dtype=torch.float64).mul(2).cumsum(1)
    asks = torch.rand(1, length) < 0.5
    asks[0, torch.randint(length, ())] = False
    return torch.randn(1, length, 5, dtype=torch.float64, requires_grad=True), time, asks


@pytest.mark.parametrize("name", OPTIONS)
@given(seed=st.integers(0, 1000))
@examples(5)
def test_equals_cross_attention(name, seed):
    net = layer(**OPTIONS[name])
    x, time, asks = drawn(seed)
    told = x[:, ~asks[0]]
    got = net(x, time=time, query_only=asks)
    want = net(x, told, told, time=time, key_time=time[:, ~asks[0]])
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(got)
    gradients = [torch.autograd.grad((y * weight).sum(), [x, *net.parameters()]) for y in (got, want)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@given(seed=st.integers(0, 1000))
@examples(5)
def test_a_causal_question_sees_what_was_told_before_it(seed):
    net = layer(causal=True, near=2, top_k=4, clock=2)
    x, time, asks = drawn(seed)
    y = net(x, time=time, query_only=asks)
    for step in range(x.shape[1]):
        kept = ~asks[0] & (torch.arange(x.shape[1]) <= step)
        told = x[:, kept]
        if not kept.any():
            assert not y[0, step].any()
            continue
        # All that is left is in its past; one query beside other numbers of keys is causal by its stamp.
        want = net(x[:, step : step + 1], told, told, time=time[:, step : step + 1], key_time=time[:, kept])
        torch.testing.assert_close(y[:, step : step + 1], want, rtol=1e-9, atol=1e-9)


def test_a_trace_shows_no_attention_to_questions():
    net = layer(**OPTIONS["nac-plus"])
    x, time, asks = drawn(3)
    _, trace = net(x, time=time, query_only=asks, return_trace=True)
    assert trace.valid.any(-1).all()
    assert not asks[0][trace.index[trace.valid]].any()


def test_an_encoder_keeps_questions_apart_in_every_layer():
    torch.manual_seed(0)
    encoder = nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2, d_input=5), num_layers=2).double()
    x, time, asks = drawn(4)
    y = encoder(x, time=time, query_only=asks)
    told = ~asks[0]
    torch.testing.assert_close(y[:, told], encoder(x[:, told], time=time[:, told]), rtol=1e-9, atol=1e-9)


def test_a_row_of_nothing_but_questions_gives_zeros():
    x, time, asks = drawn(5)
    assert not layer()(x, time=time, query_only=torch.ones_like(asks)).any()


def test_cross_attention_has_no_questions():
    x, time, asks = drawn(6)
    with refused("query_only belongs to self attention", ValueError):
        layer()(x, x, x, time=time, key_time=time, query_only=asks)
