"""Near keys: some of a query's keys are the nearest in time, whatever they hold."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.layer.config import NACConfig
from nacre.layer.selection.choose import choose_keys
from nacre.layer.selection.nearest import nearest
from reference.select import chosen_keys, near_keys
from support.hypothesis import examples

pytestmark = pytest.mark.usefixtures("either_path")

# Few different ones, so that many are equal and many equally far.
moments = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@examples(300)
@given(moments, moments, st.integers(1, 15), st.integers(0, 4))
def test_a_window_holds_the_nearest_keys_and_of_equals_the_later(query, key, size, padded):
    key = sorted(key)
    row = torch.tensor([key + [torch.inf] * padded])
    window = nearest(torch.tensor([query]), row, torch.tensor([len(key)]), size)
    order, seen = torch.arange(row.shape[1])[None], torch.full((1, len(query)), len(key))
    position, valid = window.keys(order, seen)
    held = window.holds(order[:, None])  # [B, T, S]
    for i, moment in enumerate(query):
        want = near_keys(moment, key, range(len(key)), size)
        assert position[0, i][valid[0, i]].tolist() == list(want)
        assert held[0, i, : len(key)].nonzero().flatten().tolist() == list(want)


@examples(100)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 40) | st.sampled_from([64, 65, 140]),
    queries=st.integers(1, 12),
    top_k=st.integers(1, 12),
    near=st.integers(1, 12),
    timed=st.sampled_from(["ranks", "whole", "real"]),
    options=st.sampled_from([{}, {"selection": "exact"}, {"block_size": 5}, {"reach": 20}]),
    padded=st.sampled_from([0.0, 0.4, 0.95, 1.0]),
)
def test_parity_near_keys_and_the_best_of_the_others(seed, length, queries, top_k, near, timed, options, padded):
    """At stamps in any order, some of them equal, or by rank."""
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 2, queries, 3, generator=g, dtype=torch.float64)
    k = torch.randn(2, 2, length, 3, generator=g, dtype=torch.float64)
    padding = torch.rand(2, length, generator=g) < padded
    padding[0] &= torch.rand(length, generator=g) < 0.5
    stamps, ranks = None, (torch.arange(queries).expand(2, -1).double(), ((~padding).cumsum(1) - 1).double())
    if timed != "ranks":
        stamps = [torch.rand(2, n, generator=g, dtype=torch.float64) * 10 for n in (queries, length)]
        stamps = tuple(x.floor() if timed == "whole" else x for x in stamps)
    config = NACConfig(d_model=6, num_heads=2, top_k=top_k, near=min(near, top_k), **options)
    index, valid = choose_keys(config, q, k, padding, None, stamps, ranks)
    assert index.shape == valid.shape == (2, 2, queries, top_k)
    assert (index[~valid] == 0).all()
    moments = [x.tolist() for x in (stamps or ranks)]
    for b in range(2):
        usable = (~padding[b]).nonzero().flatten().tolist()
        for h in range(2):
            for i in range(queries):
                query, keys = q[b, h, i].tolist(), k[b, h].tolist()
                want = chosen_keys(config, query, keys, usable, None, moments[0][b][i], moments[1][b])
                assert index[b, h, i][valid[b, h, i]].tolist() == want, (b, h, i)


def test_where_all_keys_are_near_the_content_chooses_nothing():
    layer = nacre.NAC(8, 2, near=5, top_k=5)
    time = torch.rand(2, 40).cumsum(1)
    chosen = [layer(torch.randn(2, 40, 8), time=time, return_trace=True)[1].index for _ in "ab"]
    assert torch.equal(*chosen)
    distance = (time[:, :, None] - time[:, None]).abs()
    nearest_five = distance.topk(5, largest=False).indices.sort(-1).values
    assert torch.equal(chosen[0], nearest_five.unsqueeze(1).expand(-1, 2, -1, -1))


def test_the_time_scale_parts_no_ties():
    """A neighbour before and one after are equally near, and the later wins, whatever the unit of time is."""
    time = torch.arange(60.0)[None]
    for scale in (1.0, 0.1, 0.7, 3.0, 1e-3):
        layer = nacre.NAC(8, 2, near=2, top_k=2, time_scale=scale)
        _, trace = layer(torch.randn(1, 60, 8), time=time, return_trace=True)
        assert trace.index[0, 0, 1:-1].tolist() == [[i, i + 1] for i in range(1, 59)], scale
