"""Match synapses: bounded, differentiable, blind to a shift of time, and what lets the choice of keys learn."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.layer.match import MatchSynapse
from nacre.models.nac import PLUS


def synapse(kind="both", **options):
    made = MatchSynapse(2, 4, kind, dtype=torch.float64, **options)
    for p in made.parameters():
        torch.nn.init.normal_(p)
    return made


def rows(count):
    return torch.randn(count, 2, 4, dtype=torch.float64), torch.rand(count, dtype=torch.float64) * 50


@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([1e-6, 1.0, 1e4]),
    kind=st.sampled_from(["start", "content", "both"]),
)
def test_no_match_is_larger_than_the_gains(seed, size, kind):
    torch.manual_seed(seed)
    made = synapse(kind)
    (q, t), (k, s) = rows(5), rows(7)
    match = torch.einsum("rhe,she->hrs", made.asked(q * size, t), made.offered(k * size, s))
    assert (match.abs() <= made.gain.sum(0)[:, None, None] * (1 + 1e-12)).all()
    assert made.gain.shape == (2 if kind == "both" else 1, 2)


def test_gradcheck():
    made = synapse()
    (q, t), (k, s) = rows(2), rows(3)
    inputs = (q.requires_grad_(), k.requires_grad_(), *made.parameters())

    def match(q, k, *_):
        return torch.einsum("rhe,she->hrs", made.asked(q, t), made.offered(k, s))

    assert torch.autograd.gradcheck(match, inputs)
    assert torch.autograd.gradgradcheck(match, inputs, fast_mode=True)


def test_only_the_difference_of_stamps_counts_and_none_means_one_unit():
    made = synapse()
    (q, t), (k, s) = rows(5), rows(5)
    pairs = (made.asked(q, t) * made.offered(k, s)).sum(-1)
    torch.testing.assert_close(pairs, (made.asked(q, t + 1000) * made.offered(k, s + 1000)).sum(-1))
    assert not torch.allclose(pairs, (made.asked(q, t + 1) * made.offered(k, s)).sum(-1))
    timeless = (made.asked(q, None) * made.offered(k, None)).sum(-1)
    torch.testing.assert_close(timeless, (made.asked(q, s + 1) * made.offered(k, s)).sum(-1))


def test_a_new_synapse_prefers_what_is_alike_and_near():
    made = MatchSynapse(1, 4, gain=3.0, bias=False)
    q = torch.randn(1, 1, 4)
    with torch.no_grad():
        made.rhythm_weight.zero_()
        stamps = torch.arange(-100, 101, dtype=torch.float64)
        offered = made.offered(q.expand(201, -1, -1), stamps)
        match = (made.asked(q, torch.zeros(1, dtype=torch.float64)) * offered).sum(-1).squeeze(1)
    assert match.argmax() == 100  # the one at time 0
    torch.testing.assert_close(match.max(), torch.tensor(6.0), rtol=1e-3, atol=0)
    assert (match[:97].max(), match[104:].max()) < (match[98].item(), match[102].item())


def test_a_vector_of_zeros_gives_no_match_and_finite_gradients():
    layer = nacre.NAC(8, 2, match="both", bias=False)
    x = torch.zeros(1, 6, 8, requires_grad=True)
    _, trace = layer(x, return_trace=True)
    gain = layer.match.gain[1]
    assert (trace.match.abs() <= gain[:, None, None]).all()  # nothing from content
    y = layer(x)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("match", ["start", "content", "both"])
def test_the_trace_shows_the_match_and_where_it_acts(match):
    layer = nacre.NAC(16, 2, d_input=5, match=match)
    x, time = torch.randn(2, 30, 5), torch.rand(2, 30).cumsum(1)
    _, trace = layer(x, time=time, return_trace=True)
    weights = layer.backbone.weights
    motor = trace.motor[..., 0] * weights.output_scale[:, 0, None, None] + weights.output_shift[:, 0, None, None]
    start, added = (trace.match, 0) if match == "start" else (None, trace.match)
    torch.testing.assert_close(trace.phi, (motor.sigmoid() + added).where(trace.valid, 0))
    logits = nacre.functional.solve_logits(trace.phi, trace.omega, trace.t, a0=start)
    torch.testing.assert_close(trace.logits[trace.valid], logits[trace.valid])
    assert trace.match[trace.valid].std() > 1
    assert nacre.NAC(16, 2, d_input=5)(x, return_trace=True)[1].match is None


@pytest.mark.parametrize("match", ["start", "both"])
def test_the_chosen_keys_are_those_of_the_largest_match(match):
    layer = nacre.NAC(8, 2, match=match, selection="exact", top_k=5).double()
    everything = nacre.NAC(8, 2, match=match, top_k=None).double()
    everything.load_state_dict(layer.state_dict())
    x, time = torch.randn(2, 40, 8).double(), torch.rand(2, 40).cumsum(1)
    _, trace = layer(x, time=time, return_trace=True)
    _, whole = everything(x, time=time, return_trace=True)
    best = whole.match.topk(5, -1)
    torch.testing.assert_close(trace.match.sort(-1, descending=True).values, best.values)
    assert torch.equal(trace.index, best.indices.sort(-1).values)


@pytest.mark.parametrize(
    ("mode", "phi"), [("exact", "sigmoid"), ("euler", "tanh"), ("steady", "sigmoid"), ("exact", "linear")]
)
def test_bounds_hold_and_the_limit_names_the_gain(mode, phi):
    layer = nacre.NAC(16, 2, match="both", mode=mode, phi=phi, gain=20.0, top_k=None)
    for p in layer.backbone.parameters():
        torch.nn.init.normal_(p)
    certificate = nacre.certify(layer, torch.randn(3, 30, 16) * 3, torch.rand(3, 30).cumsum(1))
    for head in certificate.heads:
        assert head.bounds_hold
        assert max(map(abs, head.logits)) <= head.limit
        assert head.match[0] < -1 < 1 < head.match[1]
        assert max(map(abs, head.match)) <= 40
    scale = 1 if mode != "steady" else 1000
    if phi != "linear":
        assert certificate.heads[0].limit == pytest.approx(41 * scale)
    assert "match" in str(certificate)


def test_the_limit_of_the_papers_layer_is_one_and_without_bounds_infinite():
    x = torch.randn(2, 20, 8)
    assert nacre.certify(nacre.NAC(8, 2), x).heads[0].limit == 1
    assert nacre.certify(nacre.NAC(8, 2), x).heads[0].match is None
    unbounded = nacre.certify(nacre.NAC(8, 2, phi="linear", activation="relu"), x)
    assert unbounded.heads[0].limit == math.inf
    assert unbounded.to_dict()["heads"][0]["limit"] == "inf"


def test_query_and_key_neurons_are_heard_by_the_match_alone():
    layer = nacre.NAC(8, 2, match="content")
    with torch.no_grad():
        layer.backbone.weights.input_weight.weight.zero_()
        layer.time_gate.weight.zero_()
    dead = nacre.certify(layer, torch.randn(4, 20, 8)).dead
    assert not [f for f in dead if f.group in ("query", "key")]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("match", "dot", "none.*content.*both"), ("gain", 0, "gain"), ("reach", 0, "reach")],
)
def test_bad_options_are_refused(option, value, message):
    with pytest.raises(ValueError, match=message):
        nacre.NAC(8, 2, **{option: value})


def test_a_state_of_a_layer_without_match_is_refused():
    plain, plus = nacre.NAC(8, 2, causal=True), nacre.NAC(8, 2, causal=True, match="content")
    plus.load_state_dict(plain.state_dict(), strict=False)
    with pytest.raises(ValueError, match="another layer"):
        plus.step(torch.randn(1, 8), plain.init_state(1))


def test_nac_plus_is_named_options_of_nac():
    x = torch.randn(2, 30, 8)
    for others, options in (
        ({}, {}),
        ({"match": "none"}, {"match": "none"}),
        ({"near": 0, "clock": 0}, {"near": 0, "clock": 0}),
        ({"top_k": 7}, {"top_k": 7, "near": 3}),
    ):
        torch.manual_seed(1)
        plus = nacre.create("nac-plus", d_input=8, d_model=8, num_heads=2, **others)
        torch.manual_seed(1)
        same = nacre.NAC(8, 2, d_input=8, **PLUS | options)
        assert plus.config == same.config
        assert torch.equal(plus(x), same(x))
