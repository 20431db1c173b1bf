"""Options of layers, and their combinations.

Few that cover every pair of values in `make test`, all of them in `make test-deep`.
"""

import itertools

import pytest

PLUS = {
    "match": "start",
    "near": 3,
    "top_k": 6,
    "clock": 3,
    "phi": "linear",
    "sensory_activation": "identity",
    "integrate": False,
    "inhibition": True,
    "backbone_units": 12,
}
KINDS = {"paper": {}, "match": {"match": "both"}, "plus": PLUS}
"""Options of layers that have little in common."""


def kind(name, **options):
    """Options of a kind of layer, with others in their place."""
    made = KINDS[name] | options
    if made.get("mode") == "steady" and made.get("match") == "start":
        made["match"] = "content"  # a steady logit has no start
    return made


def pairwise(*factors):
    """Combinations in which every pair of values of two factors occurs, greedily as few as possible."""
    left = list(itertools.product(*(range(len(values)) for values in factors)))
    missing = {pair for case in left for pair in _pairs(case)}
    chosen = []
    while missing:
        best = max(left, key=lambda case: len(missing & _pairs(case)))
        chosen.append(best)
        missing -= _pairs(best)
    return [tuple(values[i] for values, i in zip(factors, case, strict=True)) for case in chosen]


def _pairs(case):
    return set(itertools.combinations(enumerate(case), 2))


def combinations(*factors):
    """All combinations for `pytest.mark.parametrize`; only those of `pairwise` are not deep."""
    few = pairwise(*factors)
    return few + [pytest.param(*c, marks=pytest.mark.deep) for c in itertools.product(*factors) if c not in few]


def some(cases, *names):
    """Names of cases for `pytest.mark.parametrize`; all but the given ones are deep."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.deep) for name in cases]
