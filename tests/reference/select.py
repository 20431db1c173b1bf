"""Algorithm 2 for one query at a time, in plain Python."""

import math

CAUSAL_BLOCK = 64


def blocks_of(valid, block, causal):
    """Positions of the valid keys of a row in blocks; None for the default size."""
    count = len(valid)
    if causal:
        block = block or CAUSAL_BLOCK
        return [valid[i : i + block] for i in range(0, count, block)]
    n = math.ceil(count / min(block or math.isqrt(count), count))
    return [valid[i * count // n : (i + 1) * count // n] for i in range(n)]


def best(scored, count):
    """Positions of the largest scores; of equal scores the later position wins."""
    return sorted(p for _, p in sorted(scored, reverse=True)[:count])


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def sqrt_keys(query, keys, valid, top_k, block=None, past=None, reach=None, near=()):
    """Positions selected for one query.

    `valid` are the positions that are no padding, in the order in which blocks are cut, `past` those of them that
    a causal query sees (a first part of them), `reach` the number of keys to compare with, `near` the positions
    that are among the `top_k` whatever they hold.
    """
    if not valid or past == []:
        return []
    causal = past is not None
    candidates = []
    coarse = []
    blocks = blocks_of(valid, block, causal)
    size = block or (CAUSAL_BLOCK if causal else math.isqrt(len(valid)))
    size = size if causal else min(size, len(valid))
    for number, positions in enumerate(blocks):
        if causal and past[-1] in positions:
            candidates += [p for p in positions if p in past]
        elif not causal or positions[-1] in past:
            centroid = [sum(keys[p][d] for p in positions) / len(positions) for d in range(len(query))]
            coarse.append((dot(query, centroid), number))
    for number in best(coarse, math.ceil(max(top_k, reach or 0) / size)):
        candidates += blocks[number]
    return exact_keys(query, keys, candidates, top_k, near)


def exact_keys(query, keys, allowed, top_k, near=()):
    others = [(dot(query, keys[p]), p) for p in allowed if p not in near]
    return sorted([*near, *best(others, top_k - len(near))])


def near_keys(moment, moments, valid, count):
    """The `count` keys, neighbours in the order of time, that are nearest to a moment; of equals the later."""
    order = in_time(moments, valid)
    windows = [order[i : i + count] for i in range(max(len(order) - count, 0) + 1)]
    return min(reversed(windows), key=lambda window: math.fsum(abs(moment - moments[p]) for p in window))


def in_time(moments, valid):
    """Positions in the order of time, those of one moment in their own."""
    return sorted(valid, key=lambda p: (moments[p], p))


def chosen_keys(config, query, keys, valid, past, moment, moments):
    """Positions that a layer with these options selects for one query at a moment, of keys at `moments`.

    `past` are the valid positions that a causal query sees, None where it sees all.
    """
    seen = valid if past is None else past
    if config.top_k is None:
        return seen
    near = []
    if config.near:
        near = near_keys(moment, moments, valid, config.near) if past is None else past[-config.near :]
        valid = in_time(moments, valid) if past is None else valid
    if config.selection == "exact":
        return exact_keys(query, keys, seen, config.top_k, near)
    return sqrt_keys(query, keys, valid, config.top_k, config.block_size, past, config.reach, near)
