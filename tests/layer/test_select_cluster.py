"""Selection by content against plain Python, and its promises."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.layer import select_cluster
from nacre.layer.select_cluster import cluster_topk, plan_clusters
from nacre.layer.selection import exact_topk, sqrt_topk
from reference.cluster import cluster_keys, divide
from reference.memory import LargestTensor

SHAPES = {
    "seed": st.integers(0, 10_000),
    "length": st.integers(1, 150),
    "top_k": st.integers(1, 12),
    "causal": st.booleans(),
    "block_size": st.none() | st.integers(1, 20),
}


def draw(seed, length, queries=None, dtype=torch.float64, width=3):
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 2, queries or length, width, generator=g, dtype=dtype)
    return q, torch.randn(2, 2, length, width, generator=g, dtype=dtype), g


def same(a, b):
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


@settings(max_examples=60, deadline=None)
@given(queries=st.integers(1, 8), padded=st.sampled_from([0.0, 0.3, 0.9, 1.0]), **SHAPES)
def test_parity_with_plain_python(seed, length, queries, top_k, causal, block_size, padded):
    q, k, g = draw(seed, length, length if causal else queries)
    padding = torch.rand(2, length, generator=g) < padded
    index, valid = cluster_topk(q, k, top_k, key_padding_mask=padding, causal=causal, block_size=block_size)
    assert index.shape == valid.shape == (*q.shape[:3], top_k)
    assert (index[~valid] == 0).all()
    plan = plan_clusters(length, top_k, causal=causal, block_size=block_size)
    for b, h in ((0, 1), (1, 0)):
        for i in {0, q.shape[2] // 3, q.shape[2] // 2, q.shape[2] - 1}:
            row = index[b, h, i][valid[b, h, i]].tolist()
            query, keys, pad = q[b, h, i].tolist(), k[b, h].tolist(), padding[b].tolist()
            assert row == cluster_keys(query, keys, pad, top_k, plan, i if causal else None), (b, h, i)


@settings(max_examples=30, deadline=None)
@given(junk=st.sampled_from([math.nan, math.inf, 1e30, 0.0]), **SHAPES)
def test_padding_changes_no_bit(seed, length, top_k, causal, block_size, junk):
    q, k, g = draw(seed, length, dtype=torch.float32)
    padding = torch.rand(2, length, generator=g) < 0.4
    other = k.masked_fill(padding[:, None, :, None], junk)
    options = {"key_padding_mask": padding, "causal": causal, "block_size": block_size}
    got = cluster_topk(q, k, top_k, **options)
    assert same(got, cluster_topk(q, other, top_k, **options))
    assert not padding[torch.arange(2).view(2, 1, 1, 1), got[0]][got[1]].any()


@settings(max_examples=30, deadline=None)
@given(junk=st.sampled_from([math.nan, math.inf, 1e30, 0.0]), cut=st.floats(0, 1), **SHAPES)
def test_the_future_changes_no_bit(seed, length, top_k, causal, block_size, junk, cut):
    q, k, _ = draw(seed, length, dtype=torch.float32)
    now = int(cut * length)
    index, valid = cluster_topk(q, k, top_k, causal=True, block_size=block_size)
    assert (index <= torch.arange(length).unsqueeze(1))[valid].all()
    q[:, :, now:], k[:, :, now:] = junk, junk
    later = cluster_topk(q, k, top_k, causal=True, block_size=block_size)
    assert same((index[:, :, :now], valid[:, :, :now]), [x[:, :, :now] for x in later])


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(2, 200),
    cut=st.floats(0, 1),
    top_k=st.integers(1, 12),
    block_size=st.integers(1, 12),
)
def test_a_prefix_has_the_keys_it_has_in_the_whole(seed, length, cut, top_k, block_size):
    q, k, g = draw(seed, length)
    padding = torch.rand(2, length, generator=g) < 0.2
    n = 1 + int(cut * (length - 1))
    whole = cluster_topk(q, k, top_k, key_padding_mask=padding, causal=True, block_size=block_size)
    part = cluster_topk(
        q[:, :, :n], k[:, :, :n], top_k, key_padding_mask=padding[:, :n], causal=True, block_size=block_size
    )
    assert same([x[:, :, :n] for x in whole], part)


@settings(max_examples=30, deadline=None)
@given(**SHAPES)
def test_a_batch_equals_its_samples(seed, length, top_k, causal, block_size):
    q, k, g = draw(seed, length)
    padding = torch.rand(2, length, generator=g) < torch.tensor([[0.7], [0.1]])
    options = {"causal": causal, "block_size": block_size}
    whole = cluster_topk(q, k, top_k, key_padding_mask=padding, **options)
    for b in range(2):
        alone = cluster_topk(q[b : b + 1], k[b : b + 1], top_k, key_padding_mask=padding[b : b + 1], **options)
        assert same([x[b : b + 1] for x in whole], alone)


@settings(max_examples=40, deadline=None)
@given(**SHAPES)
def test_without_padding_every_column_is_filled(seed, length, top_k, causal, block_size):
    q, k, _ = draw(seed, length)
    _, valid = cluster_topk(q, k, top_k, causal=causal, block_size=block_size)
    seen = torch.arange(1, length + 1) if causal else torch.full((length,), length)
    assert torch.equal(valid.sum(-1), seen.clamp(max=top_k).expand(2, 2, -1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_of_equal_scores_the_later_key_wins(dtype, causal):
    # Keys of four kinds; few enough that all of them are candidates.
    q, k = (torch.randint(0, 2, (1, 2, 12, 2)).to(dtype) for _ in "qk")
    plan = plan_clusters(12, 5, causal=causal, block_size=6)
    assert plan.best_leaves * plan.leaf_size >= 12
    got = cluster_topk(q, k, 5, causal=causal, block_size=6)
    assert same(got, exact_topk(q, k, 5, causal=causal))


def test_equal_keys_are_grouped_by_position():
    q = k = torch.ones(1, 1, 64, 4)
    index, valid = cluster_topk(q, k, 8)
    assert valid.all()
    assert (index == torch.arange(56, 64)).all()


def test_float32_and_float64_choose_the_same_keys():
    q, k, _ = draw(1, 300, dtype=torch.float32, width=8)
    for causal in (False, True):
        assert same(cluster_topk(q, k, 6, causal=causal), cluster_topk(q.double(), k.double(), 6, causal=causal))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_reckoned_in_float32(dtype):
    q, k, _ = draw(1, 300, dtype=torch.float32, width=8)
    q, k = q.to(dtype), k.to(dtype)
    for causal in (False, True):
        assert same(cluster_topk(q, k, 6, causal=causal), cluster_topk(q.float(), k.float(), 6, causal=causal))


@pytest.mark.parametrize("scale", [1e-30, 1e18])
def test_the_scale_of_keys_changes_nothing(scale):
    q, k, _ = draw(2, 200, dtype=torch.float32)
    assert same(cluster_topk(q, k, 6), cluster_topk(q, k * scale, 6))


@pytest.mark.parametrize("chunk", [1, 500, 10_000, 40_000])
@pytest.mark.parametrize("causal", [False, True])
def test_chunks_change_nothing(monkeypatch, chunk, causal):
    q, k, _ = draw(3, 330)
    whole = cluster_topk(q, k, 5, causal=causal)
    monkeypatch.setattr(select_cluster, "_CHUNK_ELEMENTS", chunk)
    assert same(whole, cluster_topk(q, k, 5, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_no_quadratic_tensor(causal):
    length = 10_000
    q, k = torch.randn(1, 1, length, 2), torch.randn(1, 1, length, 2)
    with LargestTensor() as largest:
        cluster_topk(q, k, 8, causal=causal)
    assert largest.elements <= 2 * select_cluster._CHUNK_ELEMENTS < length * length / 10


@pytest.mark.parametrize("length", [1, 2, 7, 50, 64, 100, 257])
@pytest.mark.parametrize("parts", [1, 2, 8])
def test_parts_are_near_equal_and_hold_every_key_once(length, parts):
    k = torch.randn(length, 3)
    found = divide(list(range(length)), k.tolist(), parts, math.ceil(length / parts))
    assert sorted(p for part in found for p in part) == list(range(length))
    sizes = {len(part) for part in found if part}
    assert max(sizes) - min(sizes) <= 1


def recall(got, want):
    hit = (want[0].unsqueeze(-1) == got[0].unsqueeze(-2)) & want[1].unsqueeze(-1) & got[1].unsqueeze(-2)
    return (hit.any(-1).sum() / want[1].sum()).item()


@pytest.mark.parametrize(("causal", "factor"), [(False, 4.0), (True, 1.6)])
def test_recall_on_random_keys_is_a_multiple_of_that_of_sqrt_selection(causal, factor):
    q, k, _ = draw(0, 1024, dtype=torch.float32, width=16)
    want = exact_topk(q, k, 8, causal=causal)
    ours, sqrt = (recall(f(q, k, 8, causal=causal), want) for f in (cluster_topk, sqrt_topk))
    assert ours > factor * sqrt


@pytest.mark.parametrize("causal", [False, True])
def test_recall_on_smooth_keys_is_no_worse_than_that_of_sqrt_selection(causal):
    q, k, _ = draw(0, 1024, dtype=torch.float32, width=16)
    q, k = q.cumsum(2), k.cumsum(2)
    want = exact_topk(q, k, 8, causal=causal)
    ours, sqrt = (recall(f(q, k, 8, causal=causal), want) for f in (cluster_topk, sqrt_topk))
    assert ours > sqrt + 0.05


@pytest.mark.parametrize("length", [256, 500, 1024, 2000, 4096, 16_384, 65_536, 10**6])
@pytest.mark.parametrize("causal", [False, True])
def test_the_cost_is_that_of_sqrt_selection(length, causal):
    block = math.isqrt(length)
    cost = math.ceil(length / block) + (1 + causal) * block
    assert 0.85 * cost <= plan_clusters(length, 8, causal=causal).cost <= 1.09 * cost


def test_torchs_random_numbers_are_left_alone_and_results_repeat():
    q, k, _ = draw(4, 200)
    before = torch.get_rng_state()
    assert same(cluster_topk(q, k, 6), cluster_topk(q, k, 6))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
def test_it_compiles_to_one_operator():
    q, k, _ = draw(5, 40)
    compiled = torch.compile(
        lambda q, k: cluster_topk(q, k, 4, causal=True)[0] + 1, fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(q, k), cluster_topk(q, k, 4, causal=True)[0] + 1)


def test_bad_input():
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 6, 4)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        cluster_topk(q, k, 0)
    with pytest.raises(ValueError, match="block_size must be at least 1"):
        cluster_topk(q, k, 2, block_size=0)
    with pytest.raises(ValueError, match="as many queries as keys, got 5 and 6"):
        cluster_topk(q, k, 2, causal=True)
    with pytest.raises(ValueError, match=r"key_padding_mask must have shape \(2, 6\)"):
        cluster_topk(q, k, 2, key_padding_mask=torch.zeros(2, 5, dtype=torch.bool))
