"""ContiFormer against loops over pairs, and against torchdiffeq."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline

import nacre
from nacre.models import contiformer as module
from nacre.models._base import Steps
from nacre.models._contiformer_curve import QueryCurve, gauss
from reference.compare import assert_rows_same
from reference.contiformer import contiformer, pair_by_quadrature, pair_by_solver
from support.hypothesis import examples


def make(**options):
    torch.manual_seed(3)
    model = nacre.create(
        "contiformer", **{"d_input": 3, "d_model": 4, "num_heads": 2, "d_feedforward": 6, **options}
    )
    # Time weights and norms of a trained size, and not all equal.
    with torch.no_grad():
        for field in (model.key_field, model.value_field):
            field.norm.weight.uniform_(0.5, 2)
            field.norm.bias.uniform_(-1, 1)
    return model.double()


def data(rows=2, length=5):
    x = torch.randn(rows, length, 3, dtype=torch.float64)
    return x, torch.rand(rows, length, dtype=torch.float64).add(0.05).cumsum(1)


def close(got, want, tolerance=1e-9):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def same_gradients(model, got, want, tolerance=1e-9):
    parameters = list(model.parameters())
    for a, b in zip(torch.autograd.grad(got, parameters), torch.autograd.grad(want, parameters), strict=True):
        close(a, b, tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("nodes", "unfolds"), [(1, 2), (2, 1), (3, 1)])
def test_parity_contiformer_is_a_loop_over_pairs(causal, nodes, unfolds):
    model = make(causal=causal, nodes=nodes, unfolds=unfolds, time_scale=0.7)
    x, time = data(3, 5)
    time[0, 1] = time[0, 2]  # no time passes, and the curve jumps
    time[1, 3:] += 4  # more than three times the interval before
    assert_rows_same(model, partial(contiformer, model, pair=pair_by_quadrature), x, time, [5, 5, 3])


@pytest.mark.parametrize("causal", [False, True])
def test_a_question_is_an_observation_that_is_no_key(causal):
    model = make(causal=causal, nodes=2, time_scale=0.7)
    x, time = data(1, 6)
    time[0, 4] = time[0, 3]
    asks = torch.tensor([[1, 0, 1, 1, 0, 1]]).bool() if not causal else torch.tensor([[0, 1, 1, 0, 1, 1]]).bool()
    y = model(x, time=time, query_only=asks)[0]
    for step in asks[0].nonzero().flatten().tolist():
        kept = ~asks[0]
        kept[step] = True
        place = int(kept[:step].sum())
        close(y[step], contiformer(model, x[0, kept], time[0, kept], pair_by_quadrature, asks=place)[place])


@pytest.mark.slow
def test_parity_contiformer_converges_to_dopri5():
    model = make(nodes=10, unfolds=30)
    x, time = data(1, 4)
    with torch.no_grad():
        want = contiformer(model, x[0], time[0], pair_by_solver)[None]
        fine = (model(x, time=time) - want).abs().max().item()
        default = (make()(x, time=time) - want).abs().max().item()
    assert fine < 1e-6
    assert fine < default < 0.02


def test_contiformer_in_single_precision():
    model = make()
    x, time = data()
    want = model(x, time=time)
    close(model.float()(x.float(), time=time).double(), want, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("kept", [0, 10**6])
def test_blocks_change_nothing(monkeypatch, causal, rows, kept):
    model = make(causal=causal)
    x, time = data(2, 7)
    padding = torch.arange(7) >= torch.tensor([7, 4])[:, None]
    whole = model(x, time=time, key_padding_mask=padding)
    monkeypatch.setattr(module, "_KEPT", kept)
    monkeypatch.setattr(module, "_BLOCK", rows * 7 * 4)
    blocks = model(x, time=time, key_padding_mask=padding)
    close(blocks, whole, 1e-12)
    same_gradients(model, blocks[..., 0].square().sum(), whole[..., 0].square().sum(), 1e-12)


def test_blocks_are_computed_again_with_the_weights_of_the_call(monkeypatch):
    """Even where those are no longer the module's when the backward pass comes."""
    model, other = make(), make()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter))
    x, time = data()
    weights = dict(other.named_parameters())
    monkeypatch.setattr(module, "_KEPT", 0)
    got = torch.func.functional_call(model, weights, (x,), {"time": time})
    same_gradients(other, got[..., 0].sum(), other(x, time=time)[..., 0].sum())


def test_queries_follow_the_spline_of_scipy():
    time = torch.tensor([[0.0, 0.5, 1.5, 2.0, 2.9]], dtype=torch.float64)  # no interval is over 3 times the last
    query = torch.randn(1, 5, 2, dtype=torch.float64)
    secants = np.diff(query[0].numpy(), axis=0) / np.diff(time[0].numpy())[:, None]
    spline = CubicHermiteSpline(time[0].numpy(), query[0].numpy(), np.concatenate([secants[:1], secants]))
    steps = Steps(query, time, None, None)
    for nodes in (3, 5):
        got, there = QueryCurve(query, steps, steps, None).at(gauss(nodes))
        close(got, torch.from_numpy(spline(there.numpy())), 1e-12)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6), st.integers(0, 5))
@examples(25)
def test_a_causal_step_is_the_last_of_its_past(gaps, pick):
    x = torch.randn(1, len(gaps), 3, dtype=torch.float64)
    time = torch.tensor([gaps], dtype=torch.float64).cumsum(1)
    last = pick % len(gaps) + 1
    past = make()(x[:, :last], time=time[:, :last])[:, -1]
    close(make(causal=True)(x, time=time)[:, last - 1], past)


@given(st.floats(-1e6, 1e6))
@examples(10)
def test_only_differences_of_stamps_matter(shift):
    model = make()
    x, time = data()
    time = (time * 2**10).round() / 2**10  # so that adding a shift loses nothing
    shift = round(shift * 16) / 16
    close(model(x, time=time + shift), model(x, time=time), 1e-12)


def test_points_between_stamps_of_today_are_not_rounded():
    """Microseconds since 1970: between two stamps there are only three more numbers in double precision."""
    unit = 2.0**-20
    model = make(time_scale=unit)
    x, _ = data(1, 5)
    time = torch.tensor([[0.0, 1.0, 3.0, 4.0, 6.0]], dtype=torch.float64) * unit
    close(model(x, time=time + 2.0**30), model(x, time=time), 1e-12)


def test_rounding_does_not_let_a_causal_step_see_the_next():
    """A point on the way from 1 to the next number there is rounds to one of both, where a later step is, too."""
    model = make(causal=True)
    x, _ = data(1, 4)
    later = x.clone()
    later[:, 3] += 1
    time = torch.tensor([[0.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    time[:, 2:] += torch.finfo(torch.float64).eps
    assert torch.equal(model(x, time=time)[:, :3], model(later, time=time)[:, :3])


def attention_at_one_time(model, x):
    """The block where no time passes, by torch's own softmax."""
    h = model.input_proj(x)
    q, k, v = (p(h).view(-1, 2, 2).transpose(0, 1) for p in (model.query_proj, model.key_proj, model.value_proj))
    mixed = ((q @ k.mT / math.sqrt(2)).softmax(-1) @ v).transpose(0, 1).flatten(1)
    z = model.attention_norm(h + model.out_proj(mixed))
    return model.ff_norm(z + model.ff(z))


def test_without_time_it_is_plain_attention():
    model = make()
    x, _ = data(1, 5)
    y = model(x, time=torch.full((1, 5), 2.5))
    close(y[0], attention_at_one_time(model, x[0]), 1e-12)
    y.square().sum().backward()
    used = [p for name, p in model.named_parameters() if "field" not in name]
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all((p.grad != 0).any() for p in used)
    close(model(x[:, :1])[0], attention_at_one_time(model, x[0, :1]), 1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_stamps_that_meet_are_the_limit_of_stamps_that_are_close(causal):
    """Weights stay finite, and nothing leaps, as two stamps come together."""
    model = make(causal=causal)
    x, _ = data(1, 5)
    model(x, time=torch.tensor([[0.0, 0.9, 0.9, 2.0, 2.2]]))[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    equal, near = (
        model(x, time=torch.tensor([[0.0, 0.9, 0.9 + apart, 2.0, 2.2]], dtype=torch.float64))
        for apart in (0.0, 1e-9)
    )
    close(near[:, [0, 3, 4]], equal[:, [0, 3, 4]], 1e-6)


def test_each_option_matters():
    x, time = data()
    default = make()(x, time=4 * time)
    for option in ({"nodes": 1}, {"unfolds": 2}, {"causal": True}, {"time_scale": 2.0}):
        assert not torch.allclose(make(**option)(x, time=4 * time), default, rtol=1e-7), option


def test_contiformer_refuses_bad_options():
    with pytest.raises(ValueError, match="multiple of num_heads, got d_model=4, num_heads=3"):
        make(num_heads=3)
    for name in ("nodes", "unfolds", "d_feedforward"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            make(**{name: 0})
    with pytest.raises(TypeError, match="causal must be True or False, got 'yes'"):
        make(causal="yes")
