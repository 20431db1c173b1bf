"""Performer against performer-pytorch, and its random features against softmax attention."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

import nacre
from nacre.models import performer as module
from nacre.models.performer import draw_projection
from reference.compare import assert_same
from support.hypothesis import examples

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package imports distutils
    from performer_pytorch import FastAttention


def make(**options):
    options = {"features": 24, **options}
    return nacre.create("performer", d_input=6, d_model=8, num_heads=2, **options).double()


def heads(model, x):
    return [
        project(x).unflatten(-1, (model.num_heads, -1)).transpose(1, 2)
        for project in (model.query_proj, model.key_proj, model.value_proj)
    ]


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_parity_performer_is_the_package(dtype, near):
    model = make().to(dtype)
    with torch.no_grad():
        model.query_proj.weight.mul_(3), model.key_proj.weight.mul_(3)  # so that epsilon matters to some
    package = FastAttention(4, nb_features=24).to(dtype)
    package.projection_matrix.copy_(model.projection)
    x = torch.randn(3, 9, 6, dtype=dtype, requires_grad=True)
    lengths = [9, 5, 1]
    padding = torch.arange(9) >= torch.tensor(lengths)[:, None]
    got = model(x, key_padding_mask=padding)
    # Alone, because the package cannot leave padded keys out of its denominator.
    want = torch.zeros_like(got)
    for row, length in enumerate(lengths):
        alone = package(*heads(model, x[row : row + 1, :length]))
        want[row, :length] = model.out_proj(alone.transpose(1, 2).flatten(2))[0]
    assert_same(got, want, [x, *model.parameters()], near, grad_near=10 * near)


@pytest.mark.parametrize("length_of_keys", [0.1, 3000.0])  # 3000: padding would overflow
def test_the_key_stabiliser_ignores_padding_and_the_other_rows(length_of_keys):
    """With epsilon the stabiliser shows in the output, so a wrong maximum would."""
    model = make(epsilon=0.5)
    with torch.no_grad():
        model.projection.neg_().clamp_(max=-0.1)  # keys of positive numbers: every exponent below that of padding
        model.key_proj.weight.fill_(length_of_keys)
    x = torch.rand(2, 6, 6, dtype=torch.float64) + 0.5
    x[1] *= 0.1
    padding = torch.arange(6) >= torch.tensor([[4], [6]])
    y = model(x, key_padding_mask=padding)
    torch.testing.assert_close(y[:1, :4], model(x[:1, :4]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(y[1:], model(x[1:]), rtol=1e-12, atol=1e-12)


def kernel_error(draws):
    """Mean over draws of the kernel estimates, against the kernel, relative."""
    q, k = torch.randn(2, 5, 4, dtype=torch.float64).mul(0.5)
    kernel = (q @ k.T / 2).exp()
    total = torch.zeros_like(kernel)
    for _ in range(draws):
        w = draw_projection(6, 4)  # one block and a part of another
        phi_q, phi_k = ((x @ w.T / 4**0.25 - x.square().sum(-1, keepdim=True) / 4).exp() for x in (q, k))
        total += phi_q @ phi_k.T / 6
    return ((total / draws - kernel) / kernel).abs().mean().item()


def test_features_estimate_the_kernel_without_bias():
    """Errors of a mean over draws fall like one over the root of their number; a bias would stay."""
    few = sum(kernel_error(20) for _ in range(20)) / 20
    many = sum(kernel_error(2000) for _ in range(2)) / 2
    assert 5 < few / many < 20
    assert many < 0.02


def test_more_features_come_closer_to_softmax_attention():
    x = torch.randn(2, 10, 6, dtype=torch.float64)

    def error(features):
        total = 0.0
        for seed in range(8):
            torch.manual_seed(seed)
            model = make(features=features, epsilon=0.0)
            with torch.no_grad():
                model.query_proj.weight.div_(2), model.key_proj.weight.div_(2)  # long ones have heavy tails
            want = model.out_proj(scaled_dot_product_attention(*heads(model, x)).transpose(1, 2).flatten(2))
            total += (model(x) - want).square().mean().item()
        return (total / 8) ** 0.5

    assert 5 < error(8) / error(800) < 20


@examples(15)
@given(features=st.integers(1, 20), width=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_rows_are_orthogonal_within_blocks(features, width, seed):
    torch.manual_seed(seed)
    w = draw_projection(features, width)
    assert w.shape == (features, width)
    for block in w.split(width):
        gram = block @ block.T
        torch.testing.assert_close(gram, gram.diagonal().diag(), rtol=1e-9, atol=1e-9)


def test_rows_are_gaussian():
    w = torch.stack([draw_projection(6, 3) for _ in range(4000)])  # [draws, 6, 3]
    torch.testing.assert_close(w.mean(0), torch.zeros(6, 3, dtype=w.dtype), rtol=0, atol=0.08)
    torch.testing.assert_close(w.var(0), torch.ones(6, 3, dtype=w.dtype), rtol=0, atol=0.12)
    squares = w.square().sum(-1)  # chi-squared with 3 degrees of freedom: mean 3, variance 6
    torch.testing.assert_close(squares.var(0), torch.full((6,), 6.0, dtype=w.dtype), rtol=0.2, atol=0)


@examples(15)
@given(seed=st.integers(0, 10**6), epsilon=st.sampled_from([0.0, 1e-4, 0.1]))
def test_weights_are_positive_and_sum_to_one(seed, epsilon):
    torch.manual_seed(seed)
    model = make(epsilon=epsilon)
    q, k, _ = heads(model, torch.randn(2, 7, 6, dtype=torch.float64))
    weights = model._attend(q, k, torch.eye(7, dtype=torch.float64).expand(2, 2, 7, 7), None)
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 7, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_rows_are_redrawn_after_that_many_passes_in_training():
    model = make(redraw=3)
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    drawn = model.projection.clone()
    first = [model(x) for _ in range(3)]
    model.eval()(x)
    assert torch.equal(model.projection, drawn)
    assert all(torch.equal(y, first[0]) for y in first)
    torch.manual_seed(5)
    fourth = model.train()(x)
    assert not torch.equal(model.projection, drawn)
    assert model.passes == 1
    torch.manual_seed(5)
    assert torch.equal(model.projection, draw_projection(24, 4))
    first[-1].sum().backward()  # its graph still holds the old rows
    model(x), model(x)
    assert not torch.equal(model(x), fourth)
    never = make(redraw=0)
    drawn = never.projection.clone()
    for _ in range(5):
        never(x)
    assert torch.equal(never.projection, drawn)


def test_saving_keeps_rows_and_the_count(tmp_path):
    model = make(redraw=3)
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    for _ in range(5):
        model(x)
    loaded = nacre.load(nacre.save(model, tmp_path))
    assert torch.equal(loaded.projection.double(), model.projection)
    assert loaded.passes == 2


def test_half_precision_takes_the_exponentials_in_single():
    model = make().float()
    with torch.no_grad():
        model.query_proj.weight.mul_(4), model.key_proj.weight.mul_(4)
    x = torch.randn(2, 9, 6)
    want = model(x)
    seen = []
    original = model._exponentials
    model._exponentials = lambda *a, **k: seen.append(original(*a, **k)) or seen[-1]
    y = model.bfloat16()(x.bfloat16())
    assert y.dtype == torch.bfloat16
    assert [s.dtype for s in seen] == [torch.float32] * 2
    torch.testing.assert_close(y.float(), want, rtol=0.1, atol=0.1)


def test_options_act_and_bad_ones_are_explained():
    x = torch.randn(2, 6, 6, dtype=torch.float64)
    model, other = make(), make(epsilon=0.1)
    other.load_state_dict(model.state_dict())
    assert not torch.allclose(model(x), other(x))
    assert make(features=7).projection.shape == (7, 4)
    for options, message in (
        ({"features": 0}, "features must be at least 1, got 0"),
        ({"epsilon": -1e-3}, "epsilon must lie in"),
        ({"redraw": -1}, "redraw must be at least 0, got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)


@pytest.mark.parametrize("rows", [1, 2])
def test_blocks_of_rows_change_nothing(monkeypatch, rows):
    model = make()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    padding = torch.arange(5) >= torch.tensor([5, 2, 4])[:, None]
    want = [model(x), model(x, key_padding_mask=padding)]
    monkeypatch.setattr(module, "_BLOCK", rows * 2 * 5 * 24)
    for y, whole in zip([model(x), model(x, key_padding_mask=padding)], want, strict=True):
        assert_same(y, whole, list(model.parameters()), 1e-12)
