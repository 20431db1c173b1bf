"""PDE-Attention against an explicit evolution of the weights, and against closed forms."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from reference.compare import assert_same
from support.hypothesis import examples
from support.models import case

PDES = ["diffusion", "reaction", "wave"]
BOUNDARIES = ["reflect", "periodic"]


def make(d_model=8, num_heads=2, **options):
    model = nacre.create("pde-attention", d_input=5, d_model=d_model, num_heads=num_heads, **options).double()
    with torch.no_grad():
        model.raw_alpha.normal_()  # another diffusivity for each head
        if model.pde == "reaction":
            model.raw_beta.normal_()
    return model


def neighbours(j, count, boundary):
    """Keys that key j exchanges with; one that is a neighbour on both sides counts twice."""
    if boundary == "periodic":
        return [(j - 1) % count, (j + 1) % count]
    return [i for i in (j - 1, j + 1) if 0 <= i < count]


def evolve(a, model, alpha, beta):
    """The evolution of a table of weights [queries, keys], one key at a time."""

    def laplacian(a):
        count = a.shape[1]
        columns = [
            sum((a[:, i] - a[:, j] for i in neighbours(j, count, model.boundary)), torch.zeros_like(a[:, j]))
            for j in range(count)
        ]
        return torch.stack(columns, 1)

    dt, before = model.dt, None
    for _ in range(model.steps):
        change = alpha * laplacian(a)
        if model.pde == "diffusion":
            a = a + dt * change
        elif model.pde == "reaction":
            a = a + dt * (change + beta * a * (1 - a))
            a = a / a.sum(1, keepdim=True)
        elif before is None:
            before, a = a, a + (dt * alpha) ** 2 / 2 * laplacian(a)
        else:
            before, a = a, 2 * a - before + (dt * alpha) ** 2 * laplacian(a)
    return a


def by_hand(model, x, lengths):
    alphas = 0.5 / model.dt / (1 + (-model.raw_alpha.flatten()).exp())
    betas = model.raw_beta.flatten().exp() if model.pde == "reaction" else alphas
    width = model.d_model // model.num_heads
    rows = []
    for row, length in zip(x, lengths, strict=True):
        q, k, v = (p(row[:length]) for p in (model.query_proj, model.key_proj, model.value_proj))
        parts = []
        for h in range(model.num_heads):
            part = slice(h * width, (h + 1) * width)
            a = (q[:, part] @ k[:, part].T / math.sqrt(width)).softmax(1)
            parts.append(evolve(a, model, alphas[h], betas[h]) @ v[:, part])
        y = model.out_proj(torch.cat(parts, 1))
        rows.append(torch.cat([y, y.new_zeros(x.shape[1] - length, y.shape[1])]))
    return torch.stack(rows)


@pytest.mark.parametrize("pde", PDES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_parity_pde_attention_is_the_evolution_of_its_weights(pde, boundary):
    lengths = [7, 4, 3, 2, 1]
    padding = torch.arange(7) >= torch.tensor(lengths)[:, None]
    for dtype, near in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        model = make(pde=pde, boundary=boundary, dt=0.3).to(dtype)
        x = torch.randn(5, 7, 5, dtype=dtype, requires_grad=True)
        got, want = model(x, key_padding_mask=padding), by_hand(model, x, lengths)
        with case(dtype):
            assert_same(got, want, [x, *model.parameters()], near, grad_near=10 * near)


@pytest.mark.parametrize("pde", ["diffusion", "wave"])
def test_parity_pde_attention_is_a_fourier_multiplier_on_a_circle(pde):
    model = make(pde=pde, boundary="periodic", steps=9)
    rate = torch.sigmoid(model.raw_alpha) / 2  # dt alpha
    for length in (1, 2, 3, 8, 13):
        u = torch.randn(1, 2, length, 3, dtype=torch.float64)
        sine = (torch.pi * torch.arange(length, dtype=torch.float64) / length).sin().square()[:, None]
        if pde == "diffusion":
            got, factor = model._diffuse(u, None), (1 - 4 * rate * sine) ** 9
        else:
            got, factor = model._swing(u, None), torch.cos(9 * torch.acos(1 - 2 * rate**2 * sine))
        want = torch.fft.ifft(torch.fft.fft(u, dim=2) * factor, dim=2).real
        with case("length", length):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def weights_of(model, x, padding):
    """[B, T, T] weights of a model of one head whose values tell the steps apart."""
    length = x.shape[1]
    with torch.no_grad():
        model.value_proj.weight.zero_(), model.value_proj.bias.zero_()
        model.value_proj.weight[:, :length] = torch.eye(length)
        model.out_proj.weight.copy_(torch.eye(length)), model.out_proj.bias.zero_()
        model.query_proj.weight[:, :length] = 0
        model.key_proj.weight[:, :length] = 0
    one_hot = torch.eye(length, dtype=x.dtype).expand(len(x), -1, -1)
    return model(torch.cat([one_hot, x], 2), key_padding_mask=padding)


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    pde=st.sampled_from(PDES),
    boundary=st.sampled_from(BOUNDARIES),
    steps=st.integers(1, 30),
    length=st.integers(2, 8),
)
def test_mass_is_conserved_and_stays_with_valid_keys(seed, pde, boundary, steps, length):
    torch.manual_seed(seed)
    model = nacre.create(
        "pde-attention", d_input=length + 3, d_model=length, num_heads=1, pde=pde, boundary=boundary, steps=steps
    ).double()
    with torch.no_grad():
        model.raw_alpha.normal_(0, 10)  # up to the limit of stability
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[1, length // 2 + 1 :] = True
    weights = weights_of(model, torch.randn(2, length, 3, dtype=torch.float64) * 3, padding)
    sums = (~padding).to(weights.dtype)
    torch.testing.assert_close(weights.sum(2), sums, rtol=1e-9, atol=1e-9)
    assert (weights.mT[padding] == 0).all()
    if pde != "wave":
        assert (weights > -1e-12).all()
    else:
        assert (weights.abs() < 2 * length).all()


def test_long_diffusion_forgets_the_scores_and_long_reaction_does_not_overflow():
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    for pde in ("diffusion", "reaction"):
        torch.manual_seed(3)
        model = nacre.create(
            "pde-attention", d_input=9, d_model=6, num_heads=1, pde=pde, steps=400, dt=1.0, alpha=0.3, beta=5.0
        ).double()
        weights = weights_of(model, x, padding)
        even = (~padding / (~padding).sum(1, keepdim=True))[:, None, :] * ~padding[..., None]
        torch.testing.assert_close(weights, even.double(), rtol=0, atol=1e-6)


def test_every_number_of_every_pde_learns():
    for pde, boundary in itertools.product(PDES, BOUNDARIES):
        model = nacre.create("pde-attention", d_input=5, d_model=8, num_heads=2, pde=pde, boundary=boundary)
        (model(torch.randn(4, 12, 5)) * torch.randn(4, 12, 8)).sum().backward()
        for name, parameter in model.named_parameters():
            assert (parameter.grad != 0).all(), (pde, boundary, name)


def test_first_coefficients_are_those_asked_for():
    model = nacre.create("pde-attention", d_input=5, d_model=8, num_heads=2, pde="reaction", dt=0.2, alpha=0.7)
    torch.testing.assert_close(model._rate(), torch.full((2, 1, 1), 0.2 * 0.7))
    torch.testing.assert_close(model.raw_beta.exp(), torch.full((2, 1, 1), 0.1))


def test_options_act_and_bad_ones_are_explained():
    x = torch.randn(2, 6, 5)
    reaction = {"pde": "reaction"}
    cases = [{}, reaction, {"pde": "wave"}, {"boundary": "periodic"}, {"steps": 4}, {"dt": 0.2}, {"alpha": 0.3}]
    cases.append({**reaction, "beta": 0.5})
    outputs = []
    for options in cases:
        torch.manual_seed(1)
        outputs.append(nacre.create("pde-attention", d_input=5, d_model=8, num_heads=2, **options)(x))
    for i, y in enumerate(outputs):
        assert all((y - other).abs().max() > 1e-5 for other in outputs[:i]), cases[i]
    for options, message in (
        ({"pde": "heat"}, "pde must be one of 'diffusion', 'reaction', 'wave', got 'heat'"),
        ({"boundary": "open"}, "boundary must be one of 'reflect', 'periodic', got 'open'"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"dt": 0.0}, "dt must lie in"),
        ({"alpha": 5.0}, r"alpha must be below 1 / \(2 dt\) = 5, got 5.0"),
        ({"beta": -1.0}, "beta must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            nacre.create("pde-attention", d_input=5, d_model=8, num_heads=2, **options)
