"""`NACMultiheadAttention` takes the calls of `torch.nn.MultiheadAttention`, and gives the answers of the layer."""

import inspect
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

import nacre
from nacre.nn import NACMultiheadAttention, stamps
from nacre.nn.time import current_stamps
from support.refused import refused

LENGTH = 9


def make(**options):
    torch.manual_seed(0)
    return NACMultiheadAttention(8, 2, **{"batch_first": True, **options}).eval()


def drawn(rows=3):
    torch.manual_seed(1)
    padding = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [6], [2]])[:rows]
    return torch.randn(rows, LENGTH, 8), torch.rand(rows, LENGTH).cumsum(1), padding


def causal_mask():
    return nn.Transformer.generate_square_subsequent_mask(LENGTH)


def test_signatures_are_those_of_torch_and_time_beside_them():
    for method, more in (("__init__", ["layer"]), ("forward", ["time", "key_time"])):
        want = list(inspect.signature(getattr(nn.MultiheadAttention, method)).parameters)
        got = inspect.signature(getattr(NACMultiheadAttention, method)).parameters
        assert list(got) == want + more
        assert all(got[name].kind is inspect.Parameter.KEYWORD_ONLY for name in more)


@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention_is_the_layer(batch_first):
    attention = make(batch_first=batch_first)
    x, time, padding = drawn()
    want = attention.layer(x, time=time, key_padding_mask=padding)
    given, stamp = (x, time) if batch_first else (x.transpose(0, 1), time.T)
    y, weights = attention(given, given, given, padding, need_weights=False, time=stamp)
    assert weights is None
    assert torch.equal(y if batch_first else y.transpose(0, 1), want)
    row = x[0]
    one, _ = attention(row, row, row, time=time[0])
    torch.testing.assert_close(one, want[0])


def test_cross_attention_is_the_layer():
    attention = make()
    x, time, padding = drawn()
    query, moments = torch.randn(3, 4, 8), torch.rand(3, 4)
    want = attention.layer(query, x, x, time=moments, key_time=time, key_padding_mask=padding)
    y, weights = attention(query, x, x, padding, time=moments, key_time=time)
    assert torch.equal(y, want)
    assert weights.shape == (3, 4, LENGTH)


def test_weights_are_those_of_the_trace():
    attention = make()
    x, time, padding = drawn()
    _, trace = attention.layer(x, time=time, key_padding_mask=padding, return_trace=True)
    _, apart = attention(x, x, x, padding, average_attn_weights=False, time=time)
    assert apart.shape == (3, 2, LENGTH, LENGTH)
    torch.testing.assert_close(apart.gather(-1, trace.index).where(trace.valid, 0.0), trace.weights)
    assert not apart.transpose(1, 2)[padding].any()
    assert not apart.transpose(2, 3).transpose(1, 2)[padding].any()
    _, mean = attention(x, x, x, padding, time=time)
    torch.testing.assert_close(mean, apart.mean(1))
    row = x[0]
    assert attention(row, row, row)[1].shape == (LENGTH, LENGTH)


def test_padding_may_be_minus_infinity():
    attention = make()
    x, _, padding = drawn()
    as_numbers = torch.zeros(padding.shape).masked_fill(padding, -torch.inf)
    assert torch.equal(attention(x, x, x, padding)[0], attention(x, x, x, as_numbers)[0])
    with refused("key_padding_mask must be 0 at steps that count", ValueError):
        attention(x, x, x, torch.full(padding.shape, -1.0))
    with refused("key_padding_mask must be bool, or 0 and -inf", TypeError):
        attention(x, x, x, padding.int())


@pytest.mark.parametrize(
    "mask",
    [causal_mask(), causal_mask() != 0, causal_mask().double(), causal_mask().expand(6, -1, -1), None],
    ids=["numbers", "bool", "float64", "for each head", "is_causal alone"],
)
def test_a_causal_mask_is_honoured(mask):
    attention = make()
    x, time, _ = drawn()
    y, _ = attention(x, x, x, attn_mask=mask, is_causal=mask is None, time=time)
    assert torch.equal(y, attention.layer(x, time=time, causal=True))
    assert not torch.allclose(y, attention(x, x, x, time=time)[0])
    changed = x.clone()
    changed[:, 5:] = 0
    again, _ = attention(changed, changed, changed, attn_mask=mask, is_causal=mask is None, time=time)
    assert torch.equal(again[:, :5], y[:, :5])


def test_a_mask_that_hides_nothing_is_none():
    attention = make()
    x, time, _ = drawn()
    want, _ = attention(x, x, x, time=time)
    for mask in (torch.zeros(LENGTH, LENGTH), torch.zeros(6, LENGTH, LENGTH, dtype=torch.bool)):
        assert torch.equal(attention(x, x, x, attn_mask=mask, time=time)[0], want)


def test_inputs_of_other_shapes_are_refused_by_name():
    attention = make()
    x, time, padding = drawn()
    for given, message in (
        (padding.T, r"key_padding_mask must have shape \(3, 9\) .*, got \(9, 3\); use key_padding_mask.T"),
        (padding[:2], r"key_padding_mask must have shape \(3, 9\) .*, got \(2, 9\)$"),
    ):
        with refused(message, ValueError):
            attention(x, x, x, given)
    with refused(r"key_padding_mask must have shape \(9,\) \(keys\), got \(3, 9\)", ValueError):
        attention(x[0], x[0], x[0], padding)
    with refused("must all have three dimensions, or all two, got .*, key .9, 8.", ValueError):
        attention(x, x[0], x[0])
    with refused("time must be a tensor of stamps", TypeError), stamps(time.tolist()):
        pass
    with refused("key_time is needed beside time where key and value are not the query", ValueError):
        attention(x[0], x[0], x[0], time=time[0])
    nested = torch.nested.as_nested_tensor([x[0], x[1, :4]], layout=torch.jagged)
    with refused("query is a nested tensor; pad it", ValueError):
        attention(nested, nested, nested)


def test_other_masks_and_options_are_refused_by_name():
    attention = make()
    x, _, _ = drawn()
    hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    hidden[2, 3] = True
    future = causal_mask() != 0
    apart = future.repeat(6, 1, 1)
    apart[5, 0, 1] = False  # one head sees one key more
    numbers = causal_mask() + torch.randn(LENGTH, LENGTH)
    for mask in (hidden, future | hidden.T, future.T, numbers, numbers * torch.nan, apart):
        with refused("attn_mask must be a causal mask", ValueError):
            attention(x, x, x, attn_mask=mask)
        with refused("attn_mask must be a causal mask", ValueError):
            attention(x, x, x, attn_mask=mask, is_causal=True)
    for shape in ((4, LENGTH), (1, LENGTH), (5, LENGTH, LENGTH), (3, 1, LENGTH, LENGTH)):
        with refused(r"attn_mask must have shape \(9, 9\) .*, or \(6, 9, 9\) .*, got \(", ValueError):
            attention(x, x, x, attn_mask=torch.zeros(shape))
    with refused(r"attn_mask must be bool, or 0 and -inf, got torch.int32; use .bool\(\)", TypeError):
        attention(x, x, x, attn_mask=hidden.int())
    for name in ("attn_mask", "key_padding_mask"):
        with refused(f"{name} must be a tensor, got list", TypeError):
            attention(x, x, x, **{name: hidden.tolist()})
    for options, message in (
        ({"kdim": 5}, r"kdim must be None or embed_dim=8, got 5; .*torch.nn.Linear\(5, 8\)"),
        ({"add_zero_attn": True}, "add_zero_attn must be False"),
        ({"add_bias_kv": True}, "add_bias_kv must be False"),
        (
            {"layer": nacre.NAC(8, 4)},
            "layer must go from embed_dim=8 to embed_dim with num_heads=2, got .*num_heads=4",
        ),
    ):
        with refused(message, ValueError):
            make(**options)


def test_the_layer_inside_may_be_any():
    layer = nacre.create("nac-plus", d_input=8, d_model=8, num_heads=2)
    x, time, _ = drawn()
    assert torch.equal(make(layer=layer)(x, x, x, time=time)[0], layer(x, time=time))


def test_stamps_reach_self_attention_and_no_other():
    attention = make()
    x, time, _ = drawn()
    want = attention(x, x, x, time=time)[0]
    with stamps(time):
        assert torch.equal(attention(x, x, x)[0], want)
        assert torch.equal(attention(x, x, x, time=2 * time)[0], attention(x, x, x, time=2 * time)[0])
        other = torch.randn(3, 4, 8)
        cross = attention(other, x, x)[0]
    assert torch.equal(cross, attention(other, x, x)[0])
    assert not torch.allclose(attention(x, x, x)[0], want)


def test_compiled_code_heeds_stamps():
    @partial(torch.compile, fullgraph=True, backend="eager")
    def shift(x):
        time = current_stamps()
        return x if time is None else x + time

    x = torch.zeros(2)
    for time in (None, x + 1, x + 2):
        with nullcontext() if time is None else stamps(time):
            assert torch.equal(shift(x), x if time is None else time)


def test_the_call_decides_whether_the_layer_is_causal():
    layer = nacre.NAC(8, 2, causal=True).eval()
    x, time, _ = drawn()
    free = nacre.NAC(8, 2).eval()
    free.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x, time=time, causal=False), free(x, time=time))
    assert torch.equal(layer(x, time=time), free(x, time=time, causal=True))
