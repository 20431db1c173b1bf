"""CTA against loops over its quadrature nodes, and against torchdiffeq on the augmented state."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchdiffeq import odeint

import nacre
from reference.compare import assert_rows_same
from support.hypothesis import examples


def make(**options):
    torch.manual_seed(3)
    return nacre.create("cta", **{"d_input": 3, "d_model": 4, "num_heads": 2, "hidden": 5, **options}).double()


def data(rows=2, length=4):
    x = torch.randn(rows, length, 3, dtype=torch.float64)
    return x, torch.rand(rows, length, dtype=torch.float64).cumsum(1)


def heads(model, projection, z):
    return projection(z).view(model.num_heads, -1)


def oracle(model, x, time):
    """One sequence [T, F], with a loop over sub-steps, queries, heads and nodes."""
    z, nodes, after = torch.zeros(1, model.d_model, dtype=x.dtype), [], []
    for i in range(len(x)):
        h = ((time[i] - time[i - 1]) / model.time_scale / model.unfolds) if i else 0.0
        for _ in range(model.unfolds if h else 0):
            middle = z + h / 2 * model.flow(z)
            z = z + h * model.flow(middle)
            nodes.append((i, h, middle[0]))
        z = model.jump(x[i : i + 1], z)
        nodes.append((i, model.point_mass, z[0]))
        after.append(z[0])
    rows = []
    for i, z in enumerate(after):
        q, parts = heads(model, model.query_proj, z), []
        for h in range(model.num_heads):
            c, a = 0.0, 0.0
            for j, width, node in nodes:
                if model.causal and j > i:
                    continue
                k, v = heads(model, model.key_proj, node)[h], heads(model, model.value_proj, node)[h]
                weight = width * torch.exp(q[h] @ k / math.sqrt(len(k)))
                c, a = c + weight * v, a + weight
            parts.append(c / a)
        rows.append(model.out_proj(torch.cat(parts)))
    return torch.stack(rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("unfolds", [1, 3])
def test_parity_cta_is_a_sum_over_nodes(causal, unfolds):
    model = make(causal=causal, unfolds=unfolds, point_mass=0.3, time_scale=0.7)
    x, time = data(3, 6)
    time[0, 3] = time[0, 2]  # no time passes
    assert_rows_same(model, partial(oracle, model), x, time, [6, 4, 1])


def solved(model, x, time, tolerance=1e-9):
    """One sequence, with z, c and a of all queries and heads solved jointly as one ODE between jumps."""
    length, width = len(x), model.d_model // model.num_heads
    shape = (length, model.num_heads)

    def walk(queries):
        """Final c [T, H, D] and a [T, H] for given queries [T, H, D], and the states after the jumps."""

        def integrand(z):
            k, v = heads(model, model.key_proj, z), heads(model, model.value_proj, z)
            e = torch.exp(torch.einsum("ihd,hd->ih", queries, k) / math.sqrt(width))
            return e[..., None] * v, e

        def slope(_, state):
            z = state[: model.d_model]
            c, a = integrand(z)
            return torch.cat([model.flow(z), c.flatten(), a.flatten()])

        z, states = torch.zeros(model.d_model, dtype=x.dtype), []
        c, a = x.new_zeros(*shape, width), x.new_zeros(shape)
        for i in range(length):
            if i:
                start = torch.cat([z, c.flatten(), a.flatten()])
                end = odeint(slope, start, time[i - 1 : i + 1], rtol=tolerance, atol=tolerance)[-1]
                z, c, a = end.split([model.d_model, c.numel(), a.numel()])
                c, a = c.view(*shape, width), a.view(shape)
            z = model.jump(x[i : i + 1], z[None])[0]
            states.append(z)
            mass = integrand(z)
            c, a = c + model.point_mass * mass[0], a + model.point_mass * mass[1]
        return c / a[..., None], states

    _, states = walk(torch.zeros(*shape, width, dtype=x.dtype))
    queries = torch.stack([heads(model, model.query_proj, z) for z in states])
    return model.out_proj(walk(queries)[0].flatten(1))


def test_parity_cta_converges_to_the_augmented_ode():
    x, time = data(2, 4)
    model = make(unfolds=1)
    with torch.no_grad():
        # Weights of a trained size: those of a new model hardly move.
        for parameter in [*model.flow.parameters(), *model.query_proj.parameters()]:
            parameter.mul_(3)
        want = torch.stack([solved(model, x[b], time[b]) for b in range(2)])
        errors = {}
        for unfolds in (8, 16, 256):
            model.unfolds = unfolds
            errors[unfolds] = (model(x, time=time) - want).abs().max().item()
    assert errors[256] < 1e-6
    assert 3.5 < errors[8] / errors[16] < 4.5  # second order


def test_cta_in_single_precision():
    model = make()
    x, time = data()
    want = model(x, time=time)
    torch.testing.assert_close(model.float()(x.float(), time=time).double(), want, rtol=1e-5, atol=1e-5)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6), st.integers(0, 5), st.floats(0.01, 5))
@examples(20)
def test_a_causal_step_is_the_last_of_its_past(gaps, pick, point_mass):
    x = torch.randn(1, len(gaps), 3, dtype=torch.float64)
    time = torch.tensor([gaps], dtype=torch.float64).cumsum(1)
    last = pick % len(gaps) + 1
    past = make(point_mass=point_mass)(x[:, :last], time=time[:, :last])[:, -1]
    causal = make(point_mass=point_mass, causal=True)(x, time=time)[:, last - 1]
    torch.testing.assert_close(causal, past, rtol=1e-9, atol=1e-9)


def test_one_observation_is_its_own_mean():
    model = make()
    x, time = data(2, 1)
    z = model.jump(x[:, 0], torch.zeros(2, 4, dtype=torch.float64))
    torch.testing.assert_close(
        model(x, time=time)[:, 0], model.out_proj(model.value_proj(z)), rtol=1e-12, atol=1e-12
    )


def test_observations_at_one_time_are_attended_alike():
    """Where no time passes only the states after the jumps count: plain attention over them."""
    model = make(point_mass=0.2)
    x, _ = data(1, 5)
    z, states = torch.zeros(1, 4, dtype=torch.float64), []
    for i in range(5):
        z = model.jump(x[:, i], z)
        states.append(z[0])
    z = torch.stack(states)
    q, k, v = (p(z).view(5, 2, 2).transpose(0, 1) for p in (model.query_proj, model.key_proj, model.value_proj))
    want = model.out_proj(((q @ k.mT / math.sqrt(2)).softmax(-1) @ v).transpose(0, 1).flatten(1))
    y = model(x, time=torch.full((1, 5), 4.0))
    torch.testing.assert_close(y[0], want, rtol=1e-12, atol=1e-12)
    y.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_large_scores_stay_finite():
    model = make()
    with torch.no_grad():
        model.query_proj.weight.mul_(1e4)
        model.key_proj.weight.mul_(1e4)
    x, time = data()
    y = model(x, time=time)
    y.sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_each_option_matters():
    x, time = data()
    default = make()(x, time=time)
    for option in ({"unfolds": 3}, {"point_mass": 2.0}, {"causal": True}, {"time_scale": 2.0}):
        assert not torch.allclose(make(**option)(x, time=time), default, rtol=1e-6), option


def test_cta_refuses_bad_options():
    with pytest.raises(ValueError, match="multiple of num_heads, got d_model=4, num_heads=3"):
        make(num_heads=3)
    with pytest.raises(ValueError, match="unfolds must be at least 1, got 0"):
        make(unfolds=0)
    with pytest.raises(ValueError, match="hidden must be at least 1, got 0"):
        make(hidden=0)
    with pytest.raises(ValueError, match=r"point_mass must lie in \(0.0, 1000000.0\], got 0"):
        make(point_mass=0)
    with pytest.raises(TypeError, match="causal must be True or False, got 1"):
        make(causal=1)
