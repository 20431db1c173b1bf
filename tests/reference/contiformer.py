"""ContiFormer for one sequence, one pair of observations at a time."""

import math
from functools import partial
from itertools import pairwise

import torch
from scipy.special import roots_legendre
from torchdiffeq import odeint


def interval(time, tau):
    """The last observation up to a time between the first and the last stamp."""
    return max(i for i in range(len(time) - 1) if time[i] <= tau)


def curve(query, time, a, tau):
    """The cubic Hermite polynomial between observations a and a + 1 of query [T, d]."""
    gap = time[a + 1] - time[a]
    end_slope = (query[a + 1] - query[a]) / gap
    start_slope = end_slope
    if a > 0:
        gap_before = time[a] - time[a - 1]
        start_slope = (query[a] - query[a - 1]) / max(gap_before, gap / 3)
    r = (tau - time[a]) / gap
    return (
        (2 * r**3 - 3 * r**2 + 1) * query[a]
        + (r**3 - 2 * r**2 + r) * gap * start_slope
        + (3 * r**2 - 2 * r**3) * query[a + 1]
        + (r**3 - r**2) * gap * end_slope
    )


def slope(field, u, y):
    """sigmoid(LayerNorm(W y + w u + b)) for one state [d]."""
    return torch.sigmoid(field.norm(field.linear(torch.cat([y, y.new_tensor([float(u)])]))))


def runge_kutta(field, y, start, stop, count):
    """Classical Runge-Kutta steps from one time to another."""
    h = (stop - start) / count
    for n in range(count):
        u = start + n * h
        k1 = slope(field, u, y)
        k2 = slope(field, u + h / 2, y + h / 2 * k1)
        k3 = slope(field, u + h / 2, y + h / 2 * k2)
        k4 = slope(field, u + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def pair_by_quadrature(model, query, k, v, time, i, j):
    """Mean product in each head [H] and mean value [d], with the discretisation of the layer."""
    nodes, weights = roots_legendre(model.nodes)
    score, value, before = 0.0, 0.0, 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        now = float(node) * (time[i] - time[j])
        k = runge_kutta(model.key_field, k, before, now, model.unfolds)
        v = runge_kutta(model.value_field, v, before, now, model.unfolds)
        q = query[i] if time[i] == time[j] else curve(query, time, interval(time, time[j] + now), time[j] + now)
        score = score + float(weight) * (q * k).view(model.num_heads, -1).sum(1)
        value = value + float(weight) * v
        before = now
    return score, value


def pair_by_solver(model, query, k, v, time, i, j):
    """The same by dopri5 on keys, values and both integrals, from stamp to stamp: the spline has corners there."""
    heads, d = model.num_heads, len(k)
    if time[i] == time[j]:
        return (query[i] * k).view(heads, -1).sum(1), v

    def field(a, u, state):
        k, v = state[:d], state[d : 2 * d]
        products = curve(query, time, a, time[j] + u.item()) * k
        return torch.cat(
            [slope(model.key_field, u, k), slope(model.value_field, u, v), products.view(heads, -1).sum(1), v]
        )

    low, high = min(time[i], time[j]), max(time[i], time[j])
    stops = sorted((t - time[j] for t in set(time) if low <= t <= high), key=abs)
    state = torch.cat([k, v, k.new_zeros(heads + d)])
    for start, stop in pairwise(stops):
        a = interval(time, time[j] + (start + stop) / 2)  # the solver may look beyond both ends
        state = odeint(partial(field, a), state, k.new_tensor([start, stop]), rtol=1e-10, atol=1e-10)[-1]
    span = time[i] - time[j]
    return state[2 * d : 2 * d + heads] / span, state[2 * d + heads :] / span


def contiformer(model, x, time, pair):
    """The whole block for x [T, F] at times [T], with either way to treat a pair."""
    time = [t / model.time_scale for t in time.tolist()]
    h = model.input_proj(x)
    query, key, value = model.query_proj(h), model.key_proj(h), model.value_proj(h)
    rows = []
    for i in range(len(x)):
        seen = range(i + 1) if model.causal else range(len(x))
        pairs = [pair(model, query, key[j], value[j], time, i, j) for j in seen]
        scores = torch.stack([score for score, _ in pairs]) / math.sqrt(model.d_model // model.num_heads)  # [K, H]
        values = torch.stack([mean.view(model.num_heads, -1) for _, mean in pairs])  # [K, H, D]
        mixed = (scores.softmax(0)[..., None] * values).sum(0).flatten()
        z = model.attention_norm(h[i] + model.out_proj(mixed))
        rows.append(model.ff_norm(z + model.ff(z)))
    return torch.stack(rows)
