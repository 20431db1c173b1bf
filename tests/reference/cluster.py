"""Selection by content for one query at a time, in plain Python."""

import math

from reference.select import best, dot

SEGMENT = 8  # blocks in a causal segment
ITERATIONS = 4


def mean(vectors):
    return [sum(x) / len(vectors) for x in zip(*vectors, strict=True)]


def main_direction(vectors):
    """Some steps of the power method on the covariance, from its column of the largest variance."""
    width = range(len(vectors[0]))
    covariance = [[sum(v[i] * v[j] for v in vectors) for j in width] for i in width]
    widest = max(width, key=lambda i: covariance[i][i])
    direction = covariance[widest]
    for _ in range(ITERATIONS):
        direction = [dot(row, direction) for row in covariance]
        largest = max(map(abs, direction)) or 1.0
        direction = [x / largest for x in direction]
    return direction


def along(positions, keys):
    """Positions in order along their main direction."""
    if not positions:
        return []
    centre = mean([keys[p] for p in positions])
    vectors = [[x - c for x, c in zip(keys[p], centre, strict=True)] for p in positions]
    largest = max(abs(x) for v in vectors for x in v) or 1.0
    vectors = [[x / largest for x in v] for v in vectors]
    direction = main_direction(vectors)
    place = {p: dot(v, direction) for p, v in zip(positions, vectors, strict=True)}
    return sorted(positions, key=place.get)


def divide(positions, keys, parts, room):
    """Halve again and again; parts are near-equal, and no more than needed where each has room for so many."""
    return halve(positions, keys, parts, math.ceil(len(positions) / room))


def halve(positions, keys, parts, share):
    if parts == 1:
        return [positions]
    ordered = along(positions, keys)
    left = math.ceil(share / 2)
    split = math.ceil(len(ordered) * left / share) if share else 0
    return halve(ordered[:split], keys, parts // 2, left) + halve(ordered[split:], keys, parts // 2, share - left)


def tree(positions, keys, groups, plan):
    """Groups, each a list of leaves, each a list of positions."""
    room = plan.leaves * plan.leaf_size
    return [divide(g, keys, plan.leaves, plan.leaf_size) for g in divide(positions, keys, groups, room)]


def flat(leaves):
    return [p for leaf in leaves for p in leaf]


def visible_groups(keys, padded, plan, i):
    """Groups that a query sees, and the positions of its own block."""
    usable = [p for p in range(len(keys)) if not padded[p]]
    if i is None:
        return tree(usable, keys, plan.groups, plan), []
    own, segment = i // plan.block, i // (plan.block * SEGMENT)
    groups = []
    for s in range(segment):
        inside = [p for p in usable if p // (plan.block * SEGMENT) == s]
        groups += tree(inside, keys, SEGMENT // 2, plan)
    for b in range(segment * SEGMENT, own):
        groups += tree([p for p in usable if p // plan.block == b], keys, 1, plan)
    return groups, [p for p in usable if p // plan.block == own and p <= i]


def cluster_keys(query, keys, padded, top_k, plan, i=None):
    """Positions selected for one query. `i` is its own position if causal."""

    def nearest(parts, count):
        scored = [(dot(query, mean([keys[p] for p in x])), n) for n, x in enumerate(parts) if x]
        return best(scored, count)

    groups, candidates = visible_groups(keys, padded, plan, i)
    chosen = nearest([flat(g) for g in groups], plan.best_groups)
    leaves = [leaf for n in chosen for leaf in groups[n]]
    candidates = candidates + flat(leaves[n] for n in nearest(leaves, plan.best_leaves))
    return best([(dot(query, keys[p]), p) for p in candidates], top_k)
