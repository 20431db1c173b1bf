"""Calls that people bring from other libraries: they work, or the message says what to write instead."""

import inspect

import pytest
import torch

import nacre
from support.refused import refused

X, K, V = torch.randn(2, 6, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8)
TIME, KEY_TIME = torch.rand(2, 6).cumsum(1), torch.rand(2, 4).cumsum(1)
PADDING = torch.arange(6) >= torch.tensor([[6], [4]])
CONFIG = nacre.NACConfig(d_model=8, num_heads=2, backbone_units=12)


def layer():
    torch.manual_seed(0)
    return nacre.NAC(8, 2, backbone_units=12)


# Names of other libraries

CALLS = {
    "need_weights": "NAC has no argument 'need_weights'; use return_trace=True, .* trace.weights",
    "average_attn_weights": "use return_trace=True, .* each head has keys of its own",
    "attn_mask": "a causal layer is made with causal=True; padding is key_padding_mask, .* no mask of single",
    "is_causal": "a causal layer is made with causal=True",
    "mask": "padding is key_padding_mask",
    "src_key_padding_mask": "it is called key_padding_mask here",
    "padding_mask": "it is called key_padding_mask here",
    "timespans": r"it is called time here and holds stamps, .* timespans.cumsum\(1\)",
    "times": "NAC has no argument 'times'; did you mean 'time'",
    "colour": "NAC has no argument 'colour'; it takes query, key, value, time, key_time, key_padding_mask",
}
OPTIONS = {
    "embed_dim": "NAC has no option 'embed_dim'; it is called d_model here",
    "hidden_size": "it is called d_model here",
    "input_size": "it is called d_input here",
    "nhead": "it is called num_heads here",
    "kdim": "query, key and value have one width, d_input; bring others to it with torch.nn.Linear",
    "vdim": "query, key and value have one width",
    "batch_first": r"leave it out: inputs are always \[batch, time, features\]",
    "add_bias_kv": "leave it out: no keys are added",
    "add_zero_attn": "leave it out: no keys are added",
}


@pytest.mark.parametrize("name", CALLS)
def test_names_of_other_calls(name):
    with refused(CALLS[name], TypeError):
        layer()(X, **{name: True})


@pytest.mark.parametrize("name", OPTIONS)
def test_names_of_other_constructors(name):
    with refused(OPTIONS[name], TypeError):  # even where what is called so here is missing
        nacre.NAC(**{name: 8})


def test_too_much_by_position():
    with refused("NAC takes 3 arguments by position, query, key, value, got 4; give time, key_time", TypeError):
        layer()(X, K, V, PADDING)
    with refused("NAC takes 2 options by position, d_model, num_heads, got 3; give d_input, top_k", TypeError):
        nacre.NAC(8, 2, 0.1)
    with refused(
        "NACEncoder takes 3 arguments by position, x, time, .* got 4; give query_only by name", TypeError
    ):
        nacre.NACEncoder(CONFIG, 1)(X, TIME, PADDING, True)


def test_twice():
    with refused("NAC was given 'query' by position and by name", TypeError):
        layer()(X, query=X)
    with refused("time was given by position and by name; give it once", TypeError):
        layer()(X, TIME, time=TIME)
    with refused("key_padding_mask was given by position and by name; give it once", TypeError):
        layer()(X, TIME, PADDING, key_padding_mask=PADDING)


def test_the_encoder_shows_the_line_to_write():
    line = r"nacre.NACEncoder\(nacre.NACConfig\(d_model=64, num_heads=4\), num_layers=2\)"
    for args, named in (
        ((64, 4), {}),
        ((64, 4), {"num_layers": 2}),
        ((), {"d_model": 64, "num_heads": 4, "num_layers": 2}),
        ((64,), {"nhead": 4, "num_layers": 2}),
        ((CONFIG, 2), {"causal": True}),
        ((layer(), 2), {}),
    ):
        with refused(line, TypeError, f"{args} {named}"):
            nacre.NACEncoder(*args, **named)
    with refused("NACEncoder has no option 'dim_feedforward'; it is called d_feedforward here", TypeError):
        nacre.NACEncoder(CONFIG, 2, dim_feedforward=64)
    with refused("NACEncoder has no argument 'src_key_padding_mask'; it is called key_padding_mask", TypeError):
        nacre.NACEncoder(CONFIG, 1)(X, src_key_padding_mask=PADDING)


def test_signatures_are_those_of_the_methods():
    assert list(inspect.signature(nacre.NAC).parameters)[:3] == ["d_model", "num_heads", "d_input"]
    forward = inspect.signature(nacre.NAC.forward).parameters
    order = "self query key value time key_time key_padding_mask query_only key_only causal return_trace"
    assert " ".join(forward) == order
    assert forward["time"].kind is inspect.Parameter.KEYWORD_ONLY


# The order of arguments


def test_self_attention_in_the_order_of_all_models():
    net = layer()
    want = net(X, time=TIME, key_padding_mask=PADDING)
    assert torch.equal(net(X, TIME, PADDING), want)
    assert torch.equal(net(X, TIME, key_padding_mask=PADDING), want)
    assert torch.equal(net(X, None, PADDING), net(X, key_padding_mask=PADDING))
    assert torch.equal(net(X, TIME), net(X, time=TIME))
    assert torch.equal(net(X, TIME.long()), net(X, time=TIME.long()))
    assert torch.equal(net(X, TIME, PADDING, return_trace=True)[0], want)
    assert not torch.equal(net(X), net(X, TIME))


def test_cross_attention_by_position_and_by_name():
    net = layer()
    want = net(X, K, V, time=TIME, key_time=KEY_TIME)
    assert torch.equal(net(X, key=K, value=V, time=TIME, key_time=KEY_TIME), want)
    assert torch.equal(net(query=X, key=K, value=V, time=TIME, key_time=KEY_TIME), want)
    single = nacre.NAC(8, 2, d_input=1, backbone_units=12)  # [B, T, 1] are keys where there are values
    x = torch.randn(2, 6, 1)
    assert torch.equal(single(x, x, x), single(x))


NEITHER = [
    (K, None, r"torch.float32 \(2, 4, 8\) and None$"),
    (None, V, r"None and torch.float32 \(2, 4, 8\)$"),
    (TIME, V, r"torch.float32 \(2, 6\) and torch.float32 \(2, 4, 8\)$"),
    (K, PADDING, r"torch.float32 \(2, 4, 8\) and torch.bool \(2, 6\)$"),
    (K[0], V[0], r"torch.float32 \(4, 8\) and torch.float32 \(4, 8\)$"),
    (TIME, PADDING.float(), r"torch.float32 \(2, 6\) and torch.float32 \(2, 6\)$"),
    ([0.0, 1.0], V, r"list and torch.float32 \(2, 4, 8\)$"),
    (X[None], X[None], r"torch.float32 \(1, 2, 6, 8\) and"),
    (TIME[..., None], None, r"torch.float32 \(2, 6, 1\) and None; use time.squeeze\(-1\) for stamps"),
]


def test_what_is_neither_gets_both_readings():
    both = r"cross attention, layer\(q, k, v\), .* self attention, layer\(x, time, key_padding_mask\), .* got "
    for key, value, got in NEITHER:
        with refused(both + got):
            layer()(X, key, value)


# Stamps and masks


def test_stamps_of_all_rows_are_given_once():
    net, encoder = layer(), nacre.NACEncoder(CONFIG, 2)
    rows = TIME[:1].expand(2, -1)
    for model in (net, encoder):
        assert torch.equal(model(X, time=TIME[0]), model(X, time=rows))
        assert torch.equal(model(X, TIME[0], PADDING), model(X, rows, PADDING))
    cross = net(X, K, V, time=rows, key_time=KEY_TIME[:1].expand(2, -1))
    assert torch.equal(net(X, K, V, time=TIME[0], key_time=KEY_TIME[0]), cross)
    square = torch.randn(6, 6, 8)  # as many rows as steps
    assert torch.equal(net(square, TIME[0]), net(square, TIME[:1].expand(6, -1)))


STAMPS = {
    "trailing one": (TIME[..., None], ValueError, r"got \(2, 6, 1\); use time.squeeze\(-1\)"),
    "one row": (TIME[:1], ValueError, r"got \(1, 6\); use time\[0\], which all rows share"),
    "time first": (TIME.T, ValueError, r"got \(6, 2\); use time.T"),
    "other length": (TIME[0, :4], ValueError, r"shape \(2, 6\) .* or \(6,\) for all rows, got \(4,\)$"),
    "array": (TIME.numpy(), TypeError, r"got ndarray; use torch.as_tensor\(time\)"),
    "list": (TIME.tolist(), TypeError, r"got list; use torch.as_tensor\(time\)"),
    "number": (0.5, TypeError, "got float$"),
    "mask": (PADDING, TypeError, "got torch.bool; a padding mask is key_padding_mask"),
    "complex": (TIME.cfloat(), TypeError, "got torch.complex64$"),
}


@pytest.mark.parametrize("name", STAMPS)
def test_other_stamps_are_explained(name):
    stamps, error, message = STAMPS[name]
    models = (layer(), nacre.NACEncoder(CONFIG, 1), nacre.create("cfc-fc", d_input=8, d_model=8, num_heads=2))
    for model in models:
        with refused(f"time must .*{message}", error, type(model).__name__):
            model(X, time=stamps)


def test_arrays_are_converted_by_the_caller():
    for name in ("query", "key", "key_padding_mask"):
        given = {"query": X, "key": K, "value": V, "key_padding_mask": PADDING[:, :4]}
        with refused(rf"{name} must .* got ndarray; use torch.as_tensor\({name}\)", TypeError):
            layer()(**given | {name: given[name].numpy(), **({"value": V.numpy()} if name == "key" else {})})


def test_another_width_is_an_option():
    with refused("8 numbers in its last dimension, .* for this width make the layer with d_input=5"):
        layer()(X[..., :5])


def test_a_mask_of_valid_steps_is_noticed_where_it_hides_everything():
    models = (layer(), nacre.NACEncoder(CONFIG, 1), nacre.create("sdpa", d_input=8, d_model=8, num_heads=2))
    for model in models:
        with pytest.warns(UserWarning, match="True everywhere: .* output is zeros; .* use ~key_padding_mask if"):
            assert (model(X, key_padding_mask=torch.ones(2, 6, dtype=torch.bool)) == 0).all()
        model(X, key_padding_mask=PADDING | torch.tensor([[True], [False]]))  # a row of padding may be meant
        model(X[:1], key_padding_mask=torch.ones(1, 6, dtype=torch.bool))
    with refused(r"use key_padding_mask.bool\(\) if 1 marks padding, key_padding_mask == 0 if 1 marks", TypeError):
        layer()(X, key_padding_mask=PADDING.float())


# Compiled and exported


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, on its first compilation
def test_by_position_it_compiles_and_exports():
    net = layer().eval()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    program = torch.export.export(net, (X, TIME[0], PADDING)).module()
    with torch.no_grad():
        want = net(X, TIME[0], PADDING)
        torch.testing.assert_close(compiled(X, TIME[0], PADDING), want)
        torch.testing.assert_close(program(X, TIME[0], PADDING), want)
        torch.testing.assert_close(compiled(X, K, V), net(X, K, V))
