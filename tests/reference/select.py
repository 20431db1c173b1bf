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


def sqrt_keys(query, keys, valid, top_k, block=None, past=None, reach=None):
    """Positions selected for one query.

    `valid` are the positions that are no padding, `past` those of them that a causal query sees (a first part of
    them), `reach` the number of keys to compare with.
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
    return best([(dot(query, keys[p]), p) for p in candidates], top_k)


def exact_keys(query, keys, allowed, top_k):
    return best([(dot(query, keys[p]), p) for p in allowed], top_k)
