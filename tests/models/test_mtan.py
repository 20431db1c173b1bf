"""mTAN against its equations, one number at a time."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from reference.compare import assert_rows_same
from support.hypothesis import examples

SMALL = {"d_time": 6, "references": 5}


def make(**options):
    torch.manual_seed(3)
    return nacre.create("mtan", **{"d_input": 3, "d_model": 4, "num_heads": 2, **SMALL, **options}).double()


def embed(attention, t):
    """[w0 t + b0, sin(w_i t + b_i)]."""
    w, b = attention.frequency, attention.phase
    return torch.stack([w[0] * t + b[0], *(torch.sin(w[i] * t + b[i]) for i in range(1, len(w)))])


def attend(attention, query_times, key_times, values):
    """Means of values [K][V] for each query, heads side by side, with a loop over everything."""
    width = len(attention.frequency) // attention.num_heads
    rows = []
    for t in query_times:
        q = attention.query_proj.weight @ embed(attention, t) + attention.query_proj.bias
        heads = []
        for h in range(attention.num_heads):
            part = slice(h * width, (h + 1) * width)
            keys = [attention.key_proj.weight @ embed(attention, s) for s in key_times]
            weights = [torch.exp(q[part] @ k[part] / math.sqrt(width)) for k in keys]
            heads.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
        rows.append(torch.cat(heads))
    return rows


def both_ways(gru, inputs):
    """The published GRU equations, forwards and backwards."""
    outputs = []
    for suffix, sequence in (("", inputs), ("_reverse", inputs[::-1])):
        w, u, b, c = (getattr(gru, f"{n}_l0{suffix}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h, states = torch.zeros(gru.hidden_size, dtype=w.dtype), []
        for x in sequence:
            (r, z, n), (hr, hz, hn) = (w @ x + b).chunk(3), (u @ h + c).chunk(3)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            h = (1 - z) * torch.tanh(n + r * hn) + z * h
            states.append(h)
        outputs.append(states if suffix == "" else states[::-1])
    return [torch.cat(pair) for pair in zip(*outputs, strict=True)]


def oracle(model, x, time):
    """One sequence x [T, F] at times [T]."""
    references = [r / (model.references - 1) for r in range(model.references)]
    stamps = [t / model.time_scale for t in time.tolist()]
    u = [model.encoder_proj(row) for row in attend(model.encoder, references, stamps, list(x))]
    return torch.stack(
        [model.out_proj(y) for y in attend(model.decoder, stamps, references, both_ways(model.gru, u))]
    )


@pytest.mark.parametrize(("heads", "time_scale"), [(1, 7.0), (2, 1.0), (3, 7.0)])
def test_parity_mtan_is_its_equations(heads, time_scale):
    model = make(num_heads=heads, time_scale=time_scale)
    x = torch.randn(3, 6, 3, dtype=torch.float64)
    time = torch.rand(3, 6, dtype=torch.float64).cumsum(1) - 0.4
    assert_rows_same(model, partial(oracle, model), x, time, [6, 4, 1])


def test_mtan_in_single_precision():
    model = make()
    x, time = torch.randn(2, 6, 3, dtype=torch.float64), torch.rand(2, 6, dtype=torch.float64).cumsum(1)
    want = model(x, time=time)
    torch.testing.assert_close(model.float()(x.float(), time=time).double(), want, rtol=1e-5, atol=1e-5)


def test_weights_in_single_precision_survive_stamps_of_today():
    attention = make().encoder.float()
    time = torch.rand(2, 6, dtype=torch.float64).cumsum(1) + 1.7e9
    references = torch.linspace(0, 1, 5, dtype=torch.float64).expand(2, -1)
    x = torch.randn(2, 6, 3)
    y = attention(references, time, x, None)
    want = attention.double()(references, time, x.double(), None)
    torch.testing.assert_close(y.double(), want, rtol=1e-4, atol=1e-4)


@given(st.lists(st.floats(-3, 30), min_size=1, max_size=6), st.integers(0, 5))
@examples(20)
def test_of_a_constant_input_only_the_own_time_matters(stamps, pick):
    """Whatever the weights, the mean of equal values is that value."""
    model = make()
    time = torch.tensor([sorted(stamps)], dtype=torch.float64)
    x = torch.tensor([0.3, -1.2, 0.8], dtype=torch.float64).expand(1, len(stamps), 3)
    i = pick % len(stamps)
    alone = model(x[:, :1], time=time[:, i : i + 1])
    torch.testing.assert_close(model(x, time=time)[:, i], alone[:, 0], rtol=1e-9, atol=1e-9)


def test_steps_at_one_time_are_read_alike():
    model = make()
    x = torch.randn(1, 5, 3, dtype=torch.float64)
    time = torch.tensor([[0.0, 0.4, 0.4, 0.4, 1.1]], dtype=torch.float64)
    y = model(x, time=time)
    torch.testing.assert_close(y[:, 1], y[:, 3], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model(x[:, [0, 3, 2, 1, 4]], time=time), y, rtol=1e-12, atol=1e-12)


def test_mtan_refuses_bad_options():
    with pytest.raises(ValueError, match="d_time must be a multiple of num_heads, got d_time=6, num_heads=4"):
        make(num_heads=4)
    with pytest.raises(ValueError, match="references must be at least 2, got 1"):
        make(references=1)
    with pytest.raises(ValueError, match="d_time must be at least 2, got 1"):
        make(d_time=1)


def test_the_number_of_references_matters():
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    more = make(references=9)
    more.load_state_dict(make().state_dict())
    assert not torch.allclose(more(x), make()(x))


def test_scores_stay_within_what_fused_attention_can_differentiate():
    """Its backward pass recomputes scores; in large ones, rounding differs by more than an exponential bears."""
    for width in (6, 14, 22):
        model = nacre.create(
            "mtan", d_input=width, d_model=width // 2, num_heads=2, d_time=2 * width, references=100
        )
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p), alpha=0.3)
        x = torch.randn(2, 150, width)
        model(x, time=torch.rand(2, 150).cumsum(1) * 1e9).square().sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
