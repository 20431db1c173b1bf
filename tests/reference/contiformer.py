"""ContiFormer for one sequence, one pair of observations at a time."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from scipy.special import roots_legendre
from torchdiffeq import odeint

KNOTS = (0.0, 1.0, 2.0, 4.0, 8.0, 32.0)


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
    return hermite((tau - time[a]) / gap, query[a], gap * start_slope, query[a + 1], gap * end_slope)


def hermite(r, start, start_slope, end, end_slope):
    """The cubic polynomial on [0, 1] with these ends and slopes there."""
    return (
        (2 * r**3 - 3 * r**2 + 1) * start
        + (r**3 - 2 * r**2 + r) * start_slope
        + (3 * r**2 - 2 * r**3) * end
        + (r**3 - r**2) * end_slope
    )


def slope(field, u, y):
    """sigmoid(LayerNorm(W y + w u + b)) for one state [d]."""
    return torch.sigmoid(field.norm(field.linear(torch.cat([y, y.new_tensor([float(u)])]))))


def runge_kutta(field, y, start, stop):
    """A classical Runge-Kutta step from one time to another."""
    h = stop - start
    k1 = slope(field, start, y)
    k2 = slope(field, start + h / 2, y + h / 2 * k1)
    k3 = slope(field, start + h / 2, y + h / 2 * k2)
    k4 = slope(field, stop, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def path(model, field, y, span):
    """A function of time u since the observation, up to a span of either sign, by steps from knot to knot."""
    knots = [0.0]
    for start, stop in pairwise(KNOTS):
        if start < abs(span):
            knots += [start + (stop - start) * n / model.unfolds for n in range(1, model.unfolds + 1)]
    knots = [math.copysign(knot, span) for knot in knots]
    states = [y]
    for start, stop in pairwise(knots):
        states.append(runge_kutta(field, states[-1], start, stop))

    def at(u):
        n = next(n for n, stop in enumerate(knots[1:]) if abs(u) <= abs(stop))
        h, r = knots[n + 1] - knots[n], (u - knots[n]) / (knots[n + 1] - knots[n])
        before, after = (slope(field, knots[m], states[m]) for m in (n, n + 1))
        return hermite(r, states[n], h * before, states[n + 1], h * after)

    at.knots = knots
    return at


def mean(at, span):
    """The mean of a path over a span, by a rule that is exact for its polynomials."""
    stops = [u for u in at.knots if abs(u) < abs(span)] + [span]
    nodes, weights = roots_legendre(2)
    total = 0.0
    for start, stop in pairwise(stops):
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            total = total + float(weight) * (stop - start) * at(start + float(node) * (stop - start))
    return total / span


def fitted(values_at, nodes):
    """Numbers at the Gauss nodes whose moments, up to their number, are those of a cubic function on [0, 1]."""
    points, weights = ((np.array(x) + offset) / 2 for x, offset in zip(roots_legendre(nodes), (1, 0), strict=True))
    fine, fine_weights = (
        (np.array(x) + offset) / 2 for x, offset in zip(roots_legendre(nodes + 3), (1, 0), strict=True)
    )
    values = torch.stack([values_at(float(point)) for point in fine])  # [., d]
    moments = torch.from_numpy(fine_weights * np.vander(fine, nodes, increasing=True).T) @ values
    system = torch.from_numpy(weights * np.vander(points, nodes, increasing=True).T)
    return points.tolist(), weights.tolist(), torch.linalg.solve(system, moments)


def pair_by_quadrature(model, query, k, v, time, i, j):
    """Mean product in each head [H] and mean value [d], with the discretisation of the layer."""
    heads, span = model.num_heads, time[i] - time[j]
    if span == 0:
        return (query[i] * k).view(heads, -1).sum(1), v
    k_at, v_at = path(model, model.key_field, k, span), path(model, model.value_field, v, span)
    score = 0.0
    for a in range(min(i, j), max(i, j)):
        gap = time[a + 1] - time[a]
        if gap == 0:
            continue
        there = partial(lambda a, gap, r: curve(query, time, a, time[a] + r * gap), a, gap)
        for point, weight, q in zip(*fitted(there, model.nodes), strict=True):
            products = q * k_at(time[a] + point * gap - time[j])
            score = score + gap / abs(span) * weight * products.view(heads, -1).sum(1)
    return score, mean(v_at, span)


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


def contiformer(model, x, time, pair, asks=None):
    """The whole block for x [T, F] at times [T], with either way to treat a pair, where one step may only ask."""
    time = [t / model.time_scale for t in time.tolist()]
    h = model.input_proj(x)
    query, key, value = model.query_proj(h), model.key_proj(h), model.value_proj(h)
    rows = []
    for i in range(len(x)):
        seen = [j for j in range(i + 1 if model.causal else len(x)) if j != asks]
        pairs = [pair(model, query, key[j], value[j], time, i, j) for j in seen]
        scores = torch.stack([score for score, _ in pairs]) / math.sqrt(model.d_model // model.num_heads)  # [K, H]
        values = torch.stack([mean.view(model.num_heads, -1) for _, mean in pairs])  # [K, H, D]
        mixed = (scores.softmax(0)[..., None] * values).sum(0).flatten()
        z = model.attention_norm(h[i] + model.out_proj(mixed))
        rows.append(model.ff_norm(z + model.ff(z)))
    return torch.stack(rows)
