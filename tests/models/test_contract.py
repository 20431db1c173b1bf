"""What every model of the zoo promises, asked of each by name: the registry, learning, saving."""

import copy
from pathlib import Path

import pytest
import torch

import nacre
from reference.zoo import BASELINES, NAMES, batch, close, make

# Gradients need exact derivatives: no term that is held constant.
SMOOTH = {"performer": {"epsilon": 0.0}}


def test_all_models_of_the_paper_are_here():
    recurrent = {"ct-rnn", "gru-ode", "phased-lstm", "mmrnn", "ltc-fc", "ltc-ncp", "cfc-fc", "cfc-ncp"}
    filters = {"deepstate", "s4"}
    discrete = {"sdpa", "linear-attention", "performer"}
    continuous = {"mtan", "cta", "odeformer", "contiformer", "ot-transformer", "pde-attention"}
    assert set(BASELINES) == recurrent | filters | discrete | continuous
    assert {n for n in NAMES if nacre.model_info(n).kind == "CT-RNN"} == recurrent | filters
    assert {n for n in NAMES if nacre.model_info(n).kind == "DT-attention"} == discrete
    using_time = recurrent | filters | {"mtan", "cta", "contiformer"}
    assert {n for n in BASELINES if nacre.model_info(n).uses_time} == using_time
    assert len(NAMES) == 19 + 13 + 1  # the last is ours


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_a_parity_test(name):
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert f"def test_parity_{name.replace('-', '_')}" in tests


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes(name):
    for dtype in (torch.float32, torch.float64):
        model = make(name).to(dtype)
        x, time = batch(dtype=dtype)
        for y in (
            model(x),
            model(x, time=time),
            model(x[:, :1]),
            model(x[:, :1], time=time[:, :1]),
            model(x[:, :2]),
        ):
            assert y.dtype == dtype
            assert y.isfinite().all()
        assert y.shape == (3, 2, 8)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision(name):
    x, time = batch()
    y = make(name).bfloat16()(x.bfloat16(), time=time)
    assert y.dtype == torch.bfloat16
    want = make(name)(x, time=time)
    assert (y.float() - want).norm() < 0.25 * want.norm()  # periods of phased-lstm feel the rounding most


@pytest.mark.parametrize("name", BASELINES)
def test_autocast_loses_no_precision(name):
    model = make(name)
    x, time = batch()
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x, time=time)
        model(x.bfloat16(), time=time)
    assert torch.equal(y, model(x, time=time))


@pytest.mark.parametrize("name", NAMES)
def test_every_number_learns(name):
    model = make(name)
    grads = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    for _ in range(4):
        model.zero_grad()
        x, time = batch(8, 24)
        (model(x, time=time) * torch.randn(8, 24, 8)).sum().backward()
        for n, p in model.named_parameters():
            assert p.grad is not None, n
            assert p.grad.isfinite().all(), n
            grads[n] += p.grad.abs()
    for n, grad in grads.items():
        assert (grad != 0).all(), f"{n}: {(grad == 0).sum()} of {grad.numel()} get no gradient"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_training_works(name):
    """Learn the mean of a feature over all steps, whose variance is 0.9, from the mean of the outputs."""
    torch.manual_seed(0)
    options = {"references": 16} if name == "mtan" else {}
    model = nacre.create(name, d_input=3, d_model=16, num_heads=2, **options)
    head = torch.nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(250):
        x, time = torch.randn(32, 10, 3), torch.rand(32, 10).cumsum(1)
        y = head(model(x, time=time).mean(1)).squeeze(-1)
        loss = (y - 3 * x[..., 0].mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) / 20 < 0.45


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_finite_differences(name):
    torch.manual_seed(2)
    model = nacre.create(name, d_input=3, d_model=4, num_heads=2, **SMOOTH.get(name, {})).double()
    x, time = torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(2, 4, dtype=torch.float64).cumsum(1)
    names = [n for n, _ in model.named_parameters()]

    def run(x, *values):
        weights = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, weights, (x,), {"time": time})

    values = [p.detach().clone().requires_grad_() for p in model.parameters()]
    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *values), fast_mode=True, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_samples(name):
    model = make(name)
    for rows in (2, 8):  # 8: as many rows as features
        x, time = batch(rows, 11)
        y = model(x, time=time)
        for row in range(rows):
            close(y[row], model(x[row : row + 1], time=time[row : row + 1])[0])


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_models_are_the_same(name, tmp_path):
    model = make(name).eval()
    x, time = batch()
    loaded = nacre.load(nacre.save(model, tmp_path)).eval()
    assert type(loaded) is type(model)
    assert loaded.to_config() == model.to_config()
    assert torch.equal(loaded(x, time=time), model(x, time=time))


@pytest.mark.parametrize("name", NAMES)
def test_models_can_be_copied_after_training(name):
    model = make(name)
    x, time = batch()
    model(x, time=time).sum().backward()
    twin = copy.deepcopy(model).eval()
    assert torch.equal(twin(x, time=time), model.eval()(x, time=time))
