"""leak: padding, the future and other rows of the batch change no bit of a valid output."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.layer.selection.choose import choose_keys
from support.cases import PLUS, combinations, kind
from support.hypothesis import examples

pytestmark = pytest.mark.usefixtures("either_path")

LENGTHS = [1, 3, 50, 101]
MODES = ["exact", "euler", "steady"]
SELECTIONS = {
    "sqrt": {},
    "exact": {"selection": "exact"},
    "all": {"top_k": None},
    "match": {"match": "both", "reach": 30},
    "plus": PLUS,
    "near": {"near": 5, "selection": "exact", "clock": 1},
}
POISON = [float("nan"), float("inf"), 1e30]

every_case = pytest.mark.parametrize(
    ("length", "selection", "mode"), combinations(LENGTHS, list(SELECTIONS), MODES)
)


def make(mode, selection, **options):
    return nacre.NAC(8, 2, **kind("paper", **{"mode": mode, **SELECTIONS[selection], **options}))


def batch(length):
    """Three rows: ragged, full, and fully padded."""
    x, time = torch.randn(3, length, 8), torch.rand(3, length).cumsum(1)
    padding = torch.zeros(3, length, dtype=torch.bool)
    padding[0, (length + 1) // 2 :] = True
    padding[2] = True
    return x, time, padding


@pytest.mark.parametrize(
    ("length", "selection", "mode", "causal"), combinations(LENGTHS, list(SELECTIONS), MODES, [False, True])
)
def test_leak_padding_changes_no_bit(length, selection, mode, causal):
    layer = make(mode, selection, causal=causal)
    x, time, padding = batch(length)
    y = layer(x, time=time, key_padding_mask=padding)
    assert y.isfinite().all()
    assert (y[padding] == 0).all()
    assert (y[~padding] != 0).any(-1).all()
    for poison in POISON:
        bad_x, bad_time = x.clone(), time.clone()
        bad_x[padding], bad_time[padding] = poison, poison
        bad_x.requires_grad_()
        bad = layer(bad_x, time=bad_time, key_padding_mask=padding)
        assert torch.equal(y, bad)
        gradients = torch.autograd.grad(bad.square().sum(), [bad_x, *layer.parameters()])
        assert all(g.isfinite().all() for g in gradients)
        assert (gradients[0][padding] == 0).all()


@every_case
def test_leak_the_future_changes_no_bit(length, selection, mode):
    layer = make(mode, selection, causal=True)
    x, time, _ = batch(length)
    y = layer(x, time=time)
    for cut in {0, length // 3, length // 2, length - 1}:
        for poison in POISON:
            bad_x, bad_time = x.clone(), time.clone()
            bad_x[:, cut + 1 :], bad_time[:, cut + 1 :] = poison, poison
            bad = layer(bad_x, time=bad_time)
            assert torch.equal(y[:, : cut + 1], bad[:, : cut + 1])
    if length > 1:
        # and the past does: the test would notice a layer that sees nothing
        bad_x = x.clone()
        bad_x[:, 0] += 1
        assert not torch.equal(y[:, 1], layer(bad_x, time=time)[:, 1])


@every_case
def test_leak_other_rows_of_the_batch_change_no_bit(length, selection, mode):
    layer = make(mode, selection)
    x, time, padding = batch(length)
    y = layer(x, time=time, key_padding_mask=padding)
    for poison in POISON:
        bad_x, bad_time = x.clone(), time.clone()
        bad_x[1], bad_time[1] = poison, poison
        assert torch.equal(y[0], layer(bad_x, time=bad_time, key_padding_mask=padding)[0])


# 2 heads, width 8, and the number of steps: a size that equals another one hides a wrong broadcast.
@pytest.mark.parametrize(
    ("selection", "size", "causal"), combinations(list(SELECTIONS), [2, 8, 30], [False, True])
)
def test_a_batch_equals_its_samples(selection, size, causal):
    layer = make("exact", selection, dtype=torch.float64, causal=causal)
    x, time = torch.randn(size, 30, 8, dtype=torch.float64), torch.rand(size, 30).cumsum(1)
    padding = torch.arange(30) >= torch.randint(1, 31, (size, 1))
    y = layer(x, time=time, key_padding_mask=padding)
    for i in {0, 1, size // 2, size - 1}:
        alone = layer(x[i : i + 1], time=time[i : i + 1], key_padding_mask=padding[i : i + 1])
        torch.testing.assert_close(y[i : i + 1], alone, rtol=1e-10, atol=1e-12)


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 100),
    more=st.integers(1, 50),
    selection=st.sampled_from([*SELECTIONS, "blocks"]),
    mode=st.sampled_from(MODES),
    causal=st.booleans(),
    timed=st.booleans(),
)
def test_where_and_how_far_a_row_is_padded_changes_nothing(seed, length, more, selection, mode, causal, timed):
    torch.manual_seed(seed)
    options = {"dtype": torch.float64, "causal": causal, "backbone_units": 12}
    if selection == "blocks":
        layer = make(mode, "sqrt", block_size=7, **options)
    else:
        layer = make(mode, selection, **options)
    x, time = torch.randn(1, length, 8, dtype=torch.float64), torch.rand(1, length, dtype=torch.float64).cumsum(1)
    alone = layer(x, time=time if timed else None)
    place = torch.randperm(length + more)[:length].sort().values
    # In a batch with a row of another length, so that rows have blocks of their own.
    far_x = torch.randn(2, length + more, 8, dtype=torch.float64)
    far_time = torch.rand(2, length + more, dtype=torch.float64).cumsum(1)
    padding = torch.zeros(2, length + more, dtype=torch.bool)
    padding[0] = True
    far_x[0, place], far_time[0, place], padding[0, place] = x[0], time[0], False
    y = layer(far_x, time=far_time if timed else None, key_padding_mask=padding)
    torch.testing.assert_close(y[:1, place], alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_causal_by_stamp_the_future_changes_no_bit(selection):
    """Answers at given times from the past: later keys do not count, whatever they hold."""
    layer = make("exact", selection, causal=True)
    x, key_time = torch.randn(2, 80, 8), torch.rand(2, 80).cumsum(1)
    asked = torch.stack([key_time[:, 0] - 1, key_time[:, 9], key_time[:, 70], key_time[:, -1] + 1], 1)
    q = torch.randn(2, 4, 8)
    y = layer(q, x, x, time=asked, key_time=key_time)
    assert (y[:, 0] == 0).all()  # before the first key
    assert (y[:, 1:] != 0).any(-1).all()
    for last, cut in ((1, 10), (2, 71)):
        for poison in POISON:
            bad, bad_time = x.clone(), key_time.clone()
            bad[:, cut:] = poison
            bad_time[:, cut:] += 5
            again = layer(q, bad, bad, time=asked, key_time=bad_time)
            assert torch.equal(y[:, : last + 1], again[:, : last + 1])
    bad = x.clone()
    bad[:, 9] += 1  # a key of the same moment is seen
    assert not torch.equal(y[:, 1], layer(q, bad, bad, time=asked, key_time=key_time)[:, 1])


@pytest.mark.parametrize("causal", [False, True])
def test_the_newest_key_is_reachable(causal):
    layer = nacre.NAC(8, 2, causal=causal)
    for length in (1, 2, 3, 7, 50, 63, 100, 257):
        x = torch.randn(1, length, 8)
        # Every query scores the last key highest if that key is what the query gate answers with.
        q, k = layer._heads(layer.query_gate(x)), layer._heads(layer.key_gate(x)).clone()
        k[:, :, -1] = 50 * q[:, :, -1]
        index, valid = choose_keys(layer.config, q, k)
        assert ((index[:, :, -1] == length - 1) & valid[:, :, -1]).any(-1).all(), length


@pytest.mark.parametrize(("mode", "poison"), [*zip(MODES, POISON, strict=True)])
@pytest.mark.parametrize("name", ["paper", "plus"])
def test_leak_cross_attention(mode, poison, name):
    layer = nacre.NAC(8, 2, **kind(name, mode=mode))
    q, k = torch.randn(3, 5, 8), torch.randn(3, 9, 8)
    time, key_time = torch.rand(3, 5), torch.rand(3, 9)
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[0, 4:] = True
    padding[1] = True
    padding[2, :7] = True  # fewer keys than columns, and the first key is padding
    y = layer(q, k, k, time=time, key_time=key_time, key_padding_mask=padding)
    assert (y[1] == 0).all()
    assert (y[[0, 2]] != 0).any(-1).all()
    bad, bad_time = k.clone(), key_time.clone()
    bad[padding], bad_time[padding] = poison, poison
    bad.requires_grad_()
    again = layer(q, bad, bad, time=time, key_time=bad_time, key_padding_mask=padding)
    assert torch.equal(y, again)
    gradients = torch.autograd.grad(again.square().sum(), [bad, *layer.parameters()])
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_padding_in_the_middle_and_at_the_start(selection):
    layer = make("exact", selection, causal=True)
    x, time = torch.randn(2, 40, 8), torch.rand(2, 40).cumsum(1)
    padding = torch.rand(2, 40) < 0.6
    padding[:, 0] = True  # where columns without a key point to
    y = layer(x, time=time, key_padding_mask=padding)
    assert (y[padding] == 0).all()
    assert (y[~padding] != 0).any(-1).all()
    nan = float("nan")
    bad_x, bad_time = x.masked_fill(padding[..., None], nan), time.masked_fill(padding, nan)
    assert torch.equal(y, layer(bad_x, time=bad_time, key_padding_mask=padding))


@pytest.mark.parametrize("mode", MODES)
def test_no_weight_falls_on_padding_and_weights_sum_to_one(mode):
    layer = nacre.NAC(8, 2, mode=mode, causal=True)
    x, _, padding = batch(50)
    _, trace = layer(x, key_padding_mask=padding, return_trace=True)
    on_padding = padding[:, None, None].expand(3, 2, 50, 50).gather(3, trace.index)
    assert (trace.weights[on_padding | ~trace.valid] == 0).all()
    has_key = trace.valid.any(-1)
    torch.testing.assert_close(trace.weights.sum(-1)[has_key], torch.ones(int(has_key.sum())))
    later = trace.index > torch.arange(50)[:, None]
    assert not (later & trace.valid).any()
