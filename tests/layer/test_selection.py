"""Selection of keys against plain Python, and its promises."""

import itertools
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.functional import all_pairs, exact_topk, sqrt_topk
from nacre.layer.config import NACConfig
from nacre.layer.selection import blocks
from nacre.layer.selection import choose as select
from nacre.layer.selection.topk import CHUNK_ELEMENTS, best_columns
from reference.memory import LargestTensor
from reference.select import chosen_keys, exact_keys, sqrt_keys
from support.hypothesis import examples

pytestmark = pytest.mark.usefixtures("either_path")

LENGTHS = [1, 2, 3, 7, 50, 63, 100, 257]


def check(got, q, k, padding, top_k, want_of):
    index, valid = got
    assert index.shape == valid.shape == (*q.shape[:3], top_k)
    assert (index[~valid] == 0).all()
    for b in range(q.shape[0]):
        usable = (~padding[b]).nonzero().flatten().tolist()
        for h in range(q.shape[1]):
            keys = k[b, h].tolist()
            for i in range(q.shape[2]):
                row = index[b, h, i][valid[b, h, i]].tolist()
                assert row == want_of(q[b, h, i].tolist(), keys, usable, i), (b, h, i)


def up_to(usable, i):
    return [p for p in usable if p <= i]


@examples(80)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 40) | st.sampled_from([64, 65, 140]),
    queries=st.integers(1, 12),
    top_k=st.integers(1, 12),
    causal=st.booleans(),
    block_size=st.none() | st.integers(1, 50),
    reach=st.none() | st.integers(1, 60),
    padded=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)
def test_parity_sqrt_selection_is_algorithm_2(seed, length, queries, top_k, causal, block_size, reach, padded):
    g = torch.Generator().manual_seed(seed)
    queries = length if causal else queries
    q = torch.randn(2, 2, queries, 3, generator=g, dtype=torch.float64)
    k = torch.randn(2, 2, length, 3, generator=g, dtype=torch.float64)
    padding = torch.rand(2, length, generator=g) < padded
    padding[0] &= torch.rand(length, generator=g) < 0.5  # rows of unequal length, so with unequal blocks
    got = sqrt_topk(q, k, top_k, key_padding_mask=padding, causal=causal, block_size=block_size, reach=reach)

    def want(query, keys, usable, i):
        return sqrt_keys(query, keys, usable, top_k, block_size, up_to(usable, i) if causal else None, reach)

    check(got, q, k, padding, top_k, want)


@examples(40)
@given(
    st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 12), st.booleans(), st.sampled_from([0.0, 0.5, 1.0])
)
def test_parity_exact_selection_is_brute_force(seed, length, top_k, causal, padded):
    g = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 2, length, 3, generator=g, dtype=torch.float64) for _ in "qk")
    padding = torch.rand(2, length, generator=g) < padded
    got = exact_topk(q, k, top_k, key_padding_mask=padding, causal=causal)

    def want(query, keys, usable, i):
        return exact_keys(query, keys, up_to(usable, i) if causal else usable, top_k)

    check(got, q, k, padding, top_k, want)


@examples(40)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 90),
    top_k=st.sampled_from([None, 1, 5, 12]),
    near=st.integers(0, 12),
    options=st.sampled_from([{}, {"selection": "exact"}, {"block_size": 4}, {"reach": 20}]),
    padded=st.sampled_from([0.0, 0.4, 0.95]),
)
def test_parity_causal_by_stamp(seed, length, top_k, near, options, padded):
    """With other numbers of queries than of keys, a query sees the keys that are not later than itself."""
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 2, length + 3, 3, generator=g, dtype=torch.float64)
    k = torch.randn(2, 2, length, 3, generator=g, dtype=torch.float64)
    key_time = torch.randint(0, length, (2, length), generator=g).sort(1).values.double()  # some are equal
    time = torch.randint(-2, length + 3, (2, length + 3), generator=g).double()
    padding = torch.rand(2, length, generator=g) < padded
    near = near if top_k is None else min(near, top_k)
    config = NACConfig(d_model=6, num_heads=2, causal=True, top_k=top_k, near=near, **options)
    index, valid = select.choose_keys(config, q, k, padding, None, (time, key_time))
    for b in range(2):
        usable = (~padding[b]).nonzero().flatten().tolist()
        for i in range(length + 3):
            past = [p for p in usable if key_time[b, p] <= time[b, i]]
            for h in range(2):
                query, keys = q[b, h, i].tolist(), k[b, h].tolist()
                want = chosen_keys(config, query, keys, usable, past, None, None)
                assert index[b, h, i][valid[b, h, i]].tolist() == want


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 150),
    more=st.integers(1, 60),
    causal=st.booleans(),
    function=st.sampled_from([sqrt_topk, exact_topk]),
)
def test_where_and_how_far_a_row_is_padded_changes_no_choice(seed, length, more, causal, function):
    g = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 2, length, 3, generator=g, dtype=torch.float64) for _ in "qk")
    place = torch.randperm(length + more, generator=g)[:length].sort().values
    padding = torch.ones(1, length + more, dtype=torch.bool).index_fill(1, place, False)
    far = torch.full((1, 2, length + more, 3), math.nan, dtype=torch.float64)
    far_q, far_k = (far.index_copy(2, place, x) for x in (q, k))
    masks = {"key_padding_mask": padding, "query_padding_mask": padding}
    index, valid = function(far_q, far_k, 5, causal=causal, **masks)
    alone, there = function(q, k, 5, causal=causal)
    assert torch.equal(valid[:, :, place], there)
    assert torch.equal(index[:, :, place], place[alone].where(there, 0))
    assert not valid[:, :, padding[0]].any()


def test_among_equal_keys_the_latest_are_chosen():
    same = torch.ones(1, 1, 9, 2)  # three blocks of three keys
    for top_k in (1, 2, 3, 5):
        index, valid = sqrt_topk(same, same, top_k)
        assert valid.all()
        assert index[0, 0].tolist() == [list(range(9 - top_k, 9))] * 9


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_of_equal_scores_the_later_key_wins(dtype):
    # Small integers are exact in every dtype, so ties are real.
    q = torch.randint(-1, 2, (2, 2, 60, 2)).to(dtype)
    k = torch.randint(-1, 2, (2, 2, 60, 2)).to(dtype)
    padding = torch.rand(2, 60) < 0.3
    for function in (exact_topk, partial(sqrt_topk, reach=60)):  # so far, all blocks are searched
        got = function(q, k, 5, key_padding_mask=padding)
        check(got, q, k, padding, 5, lambda x, keys, usable, i: exact_keys(x, keys, usable, 5))
        got = function(q, k, 5, key_padding_mask=padding, causal=True)
        check(got, q, k, padding, 5, lambda x, keys, usable, i: exact_keys(x, keys, up_to(usable, i), 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_minus_zero_is_zero_and_infinities_are_in_order(dtype):
    scores = torch.tensor([[0.0, -0.0, math.inf, -math.inf, -1e-45, 1.0, -2.0]], dtype=dtype)
    for count, want in ((2, [2, 5]), (3, [1, 2, 5]), (4, [0, 1, 2, 5]), (6, [0, 1, 2, 4, 5, 6])):
        columns, valid = best_columns(scores, torch.ones_like(scores, dtype=torch.bool), count)
        assert valid.all()
        assert columns[0].tolist() == want
    columns, valid = best_columns(scores, torch.zeros_like(scores, dtype=torch.bool), 3)
    assert not valid.any()


def test_float32_and_float64_choose_the_same_blocks_and_keys():
    q, k = torch.randn(2, 2, 200, 8), torch.randn(2, 2, 200, 8)
    for causal in (False, True):
        single = sqrt_topk(q, k, 6, causal=causal)
        double = sqrt_topk(q.double(), k.double(), 6, causal=causal)
        assert torch.equal(single[0], double[0])
        assert torch.equal(single[1], double[1])


def test_blocks_cover_every_key_once_and_are_near_equal():
    for length in LENGTHS:
        plan = blocks.BlockPlan.of(torch.arange(length).expand(1, length), 8, False, None, None)
        assert plan.size.tolist() == [math.isqrt(length)]
        edges = plan.edges(causal=False)[0].tolist()
        assert edges[0] == 0
        assert edges[-1] == length
        sizes = {end - start for start, end in itertools.pairwise(edges)}
        assert min(sizes) > 0, length
        assert max(sizes) - min(sizes) <= 1, length


@pytest.mark.parametrize("causal", [False, True])
def test_every_key_can_be_selected(causal):
    # A query equal to a key far longer than all others must find it.
    for length in LENGTHS:
        for j in {0, length // 2, length - 1}:
            k = torch.randn(1, 1, length, 4) * 0.01
            k[0, 0, j] = torch.tensor([9.0, 0, 0, 0])
            q = torch.zeros(1, 1, length, 4)
            q[..., 0] = 1
            index, valid = sqrt_topk(q, k, 3, causal=causal)
            hit = ((index == j) & valid).any(-1)[0, 0]
            assert hit[j if causal else 0 :].all(), (length, j)


@pytest.mark.parametrize("chunk", [1, 500, 10_000])
def test_chunks_change_nothing(monkeypatch, chunk):
    q, k = torch.randn(2, 2, 90, 4), torch.randn(2, 2, 90, 4)
    stamps = torch.rand(2, 90), torch.rand(2, 90)
    for selection, causal, near in itertools.product(("sqrt", "exact"), (False, True), (0, 3)):
        options = {"selection": selection, "causal": causal, "top_k": 5, "near": near}
        config = NACConfig(d_model=8, num_heads=2, **options)
        whole = select.choose_keys(config, q, k, stamps=stamps)
        with monkeypatch.context() as patch:
            for module in (select, blocks):
                patch.setattr(module, "CHUNK_ELEMENTS", chunk)
            parts = select.choose_keys(config, q, k, stamps=stamps)
        assert torch.equal(whole[0], parts[0])
        assert torch.equal(whole[1], parts[1])


@pytest.mark.parametrize("causal", [False, True])
def test_no_quadratic_tensor_in_the_sqrt_path(causal):
    length = 10_000
    q, k = torch.randn(1, 1, length, 2), torch.randn(1, 1, length, 2)
    with LargestTensor() as largest:
        sqrt_topk(q, k, 8, causal=causal)
    assert largest.elements <= 2 * CHUNK_ELEMENTS < length * length / 10


def test_all_pairs():
    q, k = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 5, 4)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 2:] = True
    index, valid = all_pairs(q, k, key_padding_mask=padding)
    assert index.shape == (2, 1, 3, 5)
    assert valid.sum(-1).flatten().tolist() == [5, 5, 5, 2, 2, 2]
    _, valid = all_pairs(k, k, causal=True)
    assert torch.equal(valid[0, 0], torch.ones(5, 5, dtype=torch.bool).tril())


def test_bad_input():
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 6, 4)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        sqrt_topk(q, k, 0)
    with pytest.raises(TypeError, match="top_k must be an integer"):
        sqrt_topk(q, k, 2.0)
    with pytest.raises(ValueError, match="block_size must be at least 1"):
        sqrt_topk(q, k, 2, block_size=0)
    with pytest.raises(ValueError, match="as many queries as keys, got 5 and 6"):
        sqrt_topk(q, k, 2, causal=True)
    with pytest.raises(ValueError, match=r"q and k must have shapes"):
        exact_topk(q[0], k, 2)
    with pytest.raises(ValueError, match=r"key_padding_mask must have shape \(2, 6\)"):
        exact_topk(q, k, 2, key_padding_mask=torch.zeros(2, 5, dtype=torch.bool))
