"""Rectified linear attention against rela-transformer, and against a loop written from the paper."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rela_transformer.rela_transformer import ReLA as PackageReLA

import nacre
from reference.compare import assert_same
from support.hypothesis import examples


def make(**options):
    return nacre.create("linear-attention", d_input=8, d_model=8, num_heads=2, **options).double()


def randomise(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def by_hand(model, x, lengths):
    """One number at a time: weights of the pairs, then norms, gates and the output projection."""
    q, k, v = (project(x) for project in (model.query_proj, model.key_proj, model.value_proj))
    heads, width = model.num_heads, model.d_model // model.num_heads
    rows = []
    for b, length in enumerate(lengths):
        for i in range(x.shape[1]):
            parts = []
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                seen = range(min(i + 1, length) if model.causal else length)
                weights = [(q[b, i, part] @ k[b, j, part] / math.sqrt(width)).relu() for j in seen]
                parts.append(sum(w * v[b, j, part] for w, j in zip(weights, seen, strict=True)))
            groups = [torch.cat(parts)] if model.norm == "all" else parts
            normed = [
                model.norm_scale * o / (o.pow(2).mean() + 1e-8).sqrt() / (1 + (-model.norm_gate * o).exp())
                for o in groups
            ]
            rows.append(model.out_proj(torch.cat(normed)) if i < length else torch.zeros(8, dtype=x.dtype))
    return torch.stack(rows).view_as(x)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", ["all", "head"])
def test_parity_linear_attention_is_the_paper_one_pair_at_a_time(norm, causal):
    model = randomise(make(norm=norm, causal=causal))
    x = torch.randn(2, 6, 8, dtype=torch.float64, requires_grad=True)
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    got, want = model(x, key_padding_mask=padding), by_hand(model, x, [6, 4])
    assert_same(got, want, [x, *model.parameters()], 1e-9, grad_near=1e-8)


@pytest.mark.parametrize(
    ("causal", "length", "dtype"),  # 600: more queries than are taken at a time
    [
        (False, 12, torch.float64),
        (True, 600, torch.float64),
        (False, 600, torch.float32),
        (True, 12, torch.float32),
    ],
)
def test_parity_linear_attention_is_the_package(causal, length, dtype):
    near = 1e-9 if dtype == torch.float64 else 1e-5
    package = PackageReLA(dim=8, dim_head=4, heads=2, causal=causal).to(dtype)
    randomise(package.norm), randomise(package.norm_values)
    model = make(norm="head", causal=causal).to(dtype)
    with torch.no_grad():
        # The package bounds the root mean square from below, where the paper adds an epsilon to its square. Values
        # this large make both of no effect, and gates this small still work.
        package.to_qkv.weight[-8:] *= 1e6
        package.norm_values.w *= 1e-6
        for project, weight in zip(
            (model.query_proj, model.key_proj, model.value_proj), package.to_qkv.weight.chunk(3), strict=True
        ):
            project.weight.copy_(weight)
            project.bias.zero_()
        model.norm_scale.copy_(package.norm_values.g)
        model.norm_gate.copy_(package.norm_values.w)
        model.out_proj.load_state_dict(package.to_out[0].state_dict())
    x = torch.randn(3, length, 8, dtype=dtype)
    padding = torch.arange(length) >= torch.tensor([[length], [length - 5], [1]])
    inputs = package.norm(x).detach().requires_grad_()  # what the package does first belongs to no attention
    package.norm = torch.nn.Identity()
    got = model(inputs, key_padding_mask=padding)
    want = package(inputs, mask=~padding).masked_fill(padding[..., None], 0)
    torch.testing.assert_close(got, want, rtol=near, atol=near)
    if dtype == torch.float32:
        return  # a norm of few small scores is too steep to compare gradients
    weight = torch.randn_like(want)
    (got_grad,) = torch.autograd.grad((got * weight).sum(), inputs)
    (want_grad,) = torch.autograd.grad((want * weight).sum(), inputs)
    scale = want_grad.abs().max()
    torch.testing.assert_close(got_grad / scale, want_grad / scale, rtol=near, atol=near)


def test_steps_without_a_positive_score_give_the_bias_and_learn_finitely():
    model = make()
    with torch.no_grad():
        model.query_proj.weight.zero_(), model.key_proj.weight.zero_()
        model.query_proj.bias.fill_(1.0), model.key_proj.bias.fill_(-1.0)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    y = model(x)
    torch.testing.assert_close(y, model.out_proj.bias.expand_as(y), rtol=0, atol=0)
    y.square().sum().backward()
    assert (x.grad == 0).all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@examples(15)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.5, 50.0), norm=st.sampled_from(["all", "head"]))
def test_longer_queries_and_repeated_keys_change_nothing_without_the_gate(seed, scale, norm):
    """Weights grow with both, by one factor for all keys, and the norm removes it."""
    torch.manual_seed(seed)
    model = make(norm=norm)
    with torch.no_grad():
        model.norm_gate.zero_()
        model.value_proj.weight.mul_(1e4)  # beside which the epsilon of the norm is nothing
    x = torch.randn(1, 7, 8, dtype=torch.float64)
    want = model(x)
    torch.testing.assert_close(model(torch.cat([x, x], 1))[:, :7], want, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        model.query_proj.weight.mul_(scale), model.query_proj.bias.mul_(scale)
    torch.testing.assert_close(model(x), want, rtol=1e-4, atol=1e-4)


def test_options_act_and_bad_ones_are_explained():
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    states = make().state_dict()
    states = {n: v for n, v in states.items() if not n.startswith("norm")}
    outputs = []
    for options in ({}, {"norm": "head"}, {"causal": True}):
        model = make(**options)
        model.load_state_dict(states, strict=False)
        outputs.append(model(x))
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    torch.testing.assert_close(outputs[0][:, -1], outputs[2][:, -1])  # the last step sees all either way
    with pytest.raises(ValueError, match="norm must be one of 'all', 'head', got 'heads'; did you mean 'head'"):
        make(norm="heads")
    with pytest.raises(TypeError, match="causal must be True or False, got 1"):
        make(causal=1)
    with pytest.raises(ValueError, match="multiple of num_heads, got d_model=8, num_heads=3"):
        nacre.create("linear-attention", d_input=8, d_model=8, num_heads=3)
