"""ODEFormer and OT-Transformer against torch's own blocks in a loop."""

import pytest
import torch
from torch import nn

import nacre
from reference.compare import assert_same
from support.models import case

LENGTHS = [7, 4, 1]
NAMES = ["odeformer", "ot-transformer"]


def make(name, **options):
    model = nacre.create(name, d_input=5, d_model=8, num_heads=2, **{"d_feedforward": 12, **options}).double()
    with torch.no_grad():
        for norm in (model.block.attention_norm, model.block.feedforward_norm):
            norm.weight.normal_(1.0, 0.3), norm.bias.normal_()
    return model


def torch_attention(attention):
    """`nn.MultiheadAttention` that shares the weights of ours, gradients included."""
    parts = (attention.query_proj, attention.key_proj, attention.value_proj)
    zeros = torch.zeros(8, dtype=torch.float64)
    biases = torch.cat([attention.query_proj.bias, zeros, attention.value_proj.bias])
    mha = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    weights = {"in_proj_weight": torch.cat([p.weight for p in parts]), "in_proj_bias": biases}
    weights |= {f"out_proj.{n}": p for n, p in attention.out_proj.named_parameters()}
    return mha, weights


def composed_block(block, y, padding, causal):
    """The block, from torch's attention and norms."""
    mha, weights = torch_attention(block.attention)
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    options = {"key_padding_mask": padding, "attn_mask": mask, "need_weights": False}
    attended, _ = torch.func.functional_call(mha, weights, (y, y, y), options)
    norm = nn.functional.layer_norm
    h = norm(y + attended, (8,), block.attention_norm.weight, block.attention_norm.bias)
    first, second = block.feedforward[0], block.feedforward[-1]
    fed = (h @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias
    return norm(h + fed, (8,), block.feedforward_norm.weight, block.feedforward_norm.bias)


def encoder_layer(block, y, padding, causal):
    """The block, as `nn.TransformerEncoderLayer`."""
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, dtype=torch.float64)
    _, weights = torch_attention(block.attention)
    weights = {f"self_attn.{n}": p for n, p in weights.items()}
    parts = {"linear1": block.feedforward[0], "linear2": block.feedforward[-1]}
    parts |= {"norm1": block.attention_norm, "norm2": block.feedforward_norm}
    for name, part in parts.items():
        weights |= {f"{name}.{n}": p for n, p in part.named_parameters()}
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    options = {"src_key_padding_mask": padding, "src_mask": mask}
    return torch.func.functional_call(layer, weights, (y,), options)


def compare(model, block_of_torch, step_size, steps, *, padded):
    """Assert equal outputs, and equal gradients of all inputs; return the velocities [steps, B, T, d]."""
    x = torch.randn(3, 7, 5, dtype=torch.float64, requires_grad=True)
    padding = (torch.arange(7) >= torch.tensor(LENGTHS)[:, None]) if padded else None
    got, want, velocities = model(x, key_padding_mask=padding), model.input_proj(x), []
    for _ in range(steps):
        velocities.append(block_of_torch(model.block, want, padding, model.causal))
        want = want + step_size * velocities[-1]
    if padding is not None:
        want = want.masked_fill(padding[..., None], 0)
    inputs = [x, *model.parameters()]
    assert_same(got, want, inputs, 1e-9)
    return torch.stack(velocities), inputs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_parity_odeformer_is_a_composition_of_torch_parts(causal, padded):
    compare(make("odeformer", causal=causal), composed_block, 0.25, 3, padded=padded)
    compare(make("odeformer", causal=causal, steps=2, step_size=0.7), composed_block, 0.7, 2, padded=padded)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_parity_ot_transformer_is_a_loop_of_torch_layers(causal, padded):
    model = make("ot-transformer", causal=causal, horizon=1.5, penalty=0.3)
    velocities, inputs = compare(model, encoder_layer, 0.3, 5, padded=padded)
    squares = [
        v[b, :length].square().sum() for v in velocities for b, length in enumerate(LENGTHS if padded else [7] * 3)
    ]
    count = (sum(LENGTHS) if padded else 21) * 8
    want = 0.3 * 0.5 * 0.3 * sum(squares) / count
    torch.testing.assert_close(model.aux_loss, want, rtol=1e-9, atol=1e-9)
    for a, b in zip(torch.autograd.grad(model.aux_loss, inputs), torch.autograd.grad(want, inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_transport_cost_does_not_depend_on_padding():
    model = make("ot-transformer")
    x = torch.randn(1, 5, 5, dtype=torch.float64)
    model(x)
    alone = model.aux_loss
    long = torch.cat([x, torch.full((1, 4, 5), torch.nan, dtype=torch.float64)], 1)
    y = model(long, key_padding_mask=torch.arange(9)[None] >= 5)
    torch.testing.assert_close(model.aux_loss, alone, rtol=1e-12, atol=1e-12)
    y.sum().backward()
    model(long, key_padding_mask=torch.ones(1, 9, dtype=torch.bool))
    assert model.aux_loss == 0


def test_more_steps_of_one_horizon_come_closer_to_the_flow():
    """Euler's error falls with the step: by 2 where steps are twice as many."""
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    state = make("ot-transformer").state_dict()
    outputs = {}
    for steps in (32, 64, 1024):
        model = make("ot-transformer", steps=steps).eval()
        model.load_state_dict(state)
        with torch.no_grad():
            outputs[steps] = model(x)
    coarse, fine = ((outputs[s] - outputs[1024]).norm() for s in (32, 64))
    assert 1.7 < coarse / fine < 2.5


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name):
    model, x = make(name, dropout=0.5), torch.randn(2, 6, 5, dtype=torch.float64)
    assert not torch.equal(model(x), model(x))
    plain = make(name)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(x), plain(x))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("odeformer", [{}, {"steps": 4}, {"step_size": 0.5}, {"causal": True}, {"d_feedforward": 3}]),
        ("ot-transformer", [{}, {"steps": 4}, {"horizon": 0.5}, {"causal": True}, {"d_feedforward": 3}]),
    ],
)
def test_options_act(name, options):
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    outputs = []
    for option in options:
        torch.manual_seed(1)
        outputs.append(make(name, **option)(x))
    for i, y in enumerate(outputs):
        assert not any(torch.allclose(y, other) for other in outputs[:i]), options[i]


def test_penalty_scales_the_cost_alone():
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    one, two = make("ot-transformer", penalty=1.0), make("ot-transformer", penalty=2.0)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))
    torch.testing.assert_close(two.aux_loss, 2 * one.aux_loss)


def test_hidden_width_is_that_of_the_model_unless_asked_for():
    for name in NAMES:
        model = nacre.create(name, d_input=5, d_model=8, num_heads=2)
        assert model.block.feedforward[0].out_features == 8, name
        assert make(name).block.feedforward[0].out_features == 12, name


def test_bad_options_are_explained():
    for name, options, message in (
        ("odeformer", {"steps": 0}, "steps must be at least 1, got 0"),
        ("odeformer", {"step_size": 0.0}, "step_size must lie in"),
        ("odeformer", {"d_feedforward": 0}, "d_feedforward must be at least 1, got 0"),
        ("odeformer", {"dropout": 1.5}, "dropout must lie in"),
        ("ot-transformer", {"steps": 0}, "steps must be at least 1, got 0"),
        ("ot-transformer", {"horizon": -1.0}, "horizon must lie in"),
        ("ot-transformer", {"penalty": -1.0}, "penalty must lie in"),
    ):
        with case(name, options), pytest.raises(ValueError, match=message):
            make(name, **options)
    for name in NAMES:
        with case(name), pytest.raises(TypeError, match="causal must be True or False, got 'yes'"):
            make(name, causal="yes")
        with case(name), pytest.raises(ValueError, match="multiple of num_heads, got d_model=8, num_heads=3"):
            nacre.create(name, d_input=5, d_model=8, num_heads=3)
