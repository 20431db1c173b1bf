"""Algorithm 2 for one query at a time, in plain Python."""

import math


def blocks_of(size, block, causal):
    if causal:
        return [list(range(i, min(i + block, size))) for i in range(0, size, block)]
    n = math.ceil(size / block)
    return [list(range(i * size // n, (i + 1) * size // n)) for i in range(n)]


def best(scored, count):
    """Positions of the largest scores; of equal scores the later position wins."""
    return sorted(p for _, p in sorted(scored, reverse=True)[:count])


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def sqrt_keys(query, keys, padded, top_k, block, i=None, reach=None):
    """Positions selected for one query. `i` is its own position if causal, `reach` the keys to compare with."""
    causal = i is not None
    blocks = blocks_of(len(keys), block, causal)
    candidates = []
    coarse = []
    for number, positions in enumerate(blocks):
        usable = [p for p in positions if not padded[p]]
        if causal and i in positions:
            candidates += [p for p in usable if p <= i]
        elif usable and not (causal and positions[0] > i):
            centroid = [sum(keys[p][d] for p in usable) / len(usable) for d in range(len(query))]
            coarse.append((dot(query, centroid), number))
    for number in best(coarse, math.ceil(max(top_k, reach or 0) / block)):
        candidates += [p for p in blocks[number] if not padded[p]]
    return best([(dot(query, keys[p]), p) for p in candidates], top_k)


def exact_keys(query, keys, padded, top_k, i=None):
    usable = [p for p in range(len(keys)) if not padded[p] and (i is None or p <= i)]
    return best([(dot(query, keys[p]), p) for p in usable], top_k)
