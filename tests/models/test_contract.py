"""What every model of the zoo promises, asked of each by name: the registry, learning, saving, messages."""

import copy
from pathlib import Path

import pytest
import torch

import nacre
from support.models import BASELINES, CLASSES, NAMES, batch, case, close, each, info, make, names

# Gradients need exact derivatives: no term that is held constant.
SMOOTH = {"performer": {"epsilon": 0.0}}
# Steps of training; closed gates and small conductances learn slowly.
STEPS = {"ltc-fc": 150, "ltc-ncp": 200, "phased-lstm": 150}


def test_all_models_of_the_paper_are_here():
    recurrent = {"ct-rnn", "gru-ode", "phased-lstm", "mmrnn", "ltc-fc", "ltc-ncp", "cfc-fc", "cfc-ncp"}
    filters = {"deepstate", "s4"}
    discrete = {"sdpa", "linear-attention", "performer"}
    continuous = {"mtan", "cta", "odeformer", "contiformer", "ot-transformer", "pde-attention"}
    paper = {n for n in NAMES if info(n).in_paper}
    assert paper & {*BASELINES} == recurrent | filters | discrete | continuous
    assert {n for n in paper if info(n).kind == "CT-RNN"} == recurrent | filters
    assert {n for n in paper if info(n).kind == "DT-attention"} == discrete
    using_time = recurrent | filters | {"mtan", "cta", "contiformer"}
    assert {n for n in paper & {*BASELINES} if info(n).uses_time} == using_time
    assert len(paper - {*BASELINES}) == 13  # NAC and its variants


def test_every_baseline_has_a_parity_test():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    missing = [n for n in BASELINES if f"def test_parity_{n.replace('-', '_')}" not in tests]
    assert missing == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(dtype):
    x, time = batch(dtype=dtype)
    for name in names():
        model = make(name).to(dtype)
        for y in (
            model(x),
            model(x, time=time),
            model(x[:, :1]),
            model(x[:, :1], time=time[:, :1]),
            model(x[:, :2]),
        ):
            assert y.dtype == dtype, name
            assert y.isfinite().all(), name
        assert y.shape == (3, 2, 8), name


def test_half_precision():
    for name in names("nac-euler", "nac-steady", "nac-phi-linear"):
        with case(name):
            x, time = batch()
            y = make(name).bfloat16()(x.bfloat16(), time=time)
            assert y.dtype == torch.bfloat16
            want = make(name)(x, time=time)
            assert (y.float() - want).norm() < 0.25 * want.norm()  # periods of phased-lstm feel the rounding most


def test_autocast_loses_no_precision():
    for name in CLASSES:
        with case(name):
            model = make(name)
            x, time = batch()
            with torch.autocast("cpu", torch.bfloat16):
                y = model(x, time=time)
                model(x.bfloat16(), time=time)
            assert torch.equal(y, model(x, time=time))


def without_gradient(model):
    """Numbers of a model, by the key of their parameter, that get no gradient in four batches."""
    silent = {key: torch.ones_like(p, dtype=torch.bool) for key, p in model.named_parameters()}
    for _ in range(4):
        model.zero_grad()
        x, time = batch(8, 24)
        (model(x, time=time) * torch.randn(8, 24, 8)).sum().backward()
        for key, p in model.named_parameters():
            assert p.grad is not None, key
            assert p.grad.isfinite().all(), key
            silent[key] &= p.grad == 0
        if not any(numbers.any() for numbers in silent.values()):
            break
    return {key: int(numbers.sum()) for key, numbers in silent.items() if numbers.any()}


def test_every_number_learns():
    for name in names("nac-fc", "nac-rw"):
        with case(name):
            assert without_gradient(make(name)) == {}


@pytest.mark.slow
@each(names())
def test_training_works(name):
    """Learn the mean of a feature over all steps, whose variance is 0.9, from the mean of the outputs."""
    model = make(name, d_input=3, d_model=16)
    head = torch.nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(STEPS.get(name, 60)):
        x, time = torch.randn(32, 10, 3), torch.rand(32, 10).cumsum(1)
        y = head(model(x, time=time).mean(1)).squeeze(-1)
        loss = (y - 3 * x[..., 0].mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) / 20 < 0.45


@each(names("nac-euler", "nac-steady"))
def test_gradients_are_those_of_finite_differences(name):
    model = make(name, d_input=3, d_model=4, **SMOOTH.get(name, {})).double()
    x, time = torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(2, 4, dtype=torch.float64).cumsum(1)
    keys = [key for key, _ in model.named_parameters()]

    def run(x, *values):
        weights = dict(zip(keys, values, strict=True))
        return torch.func.functional_call(model, weights, (x,), {"time": time})

    values = [p.detach().clone().requires_grad_() for p in model.parameters()]
    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *values), fast_mode=True, atol=1e-6)


def test_a_batch_equals_its_samples():
    x, time = batch(8, 11)  # 8: as many rows as features
    for name in names("nac-pw"):
        model = make(name)
        y = model(x, time=time)
        with case(name):
            close(model(x[:2], time=time[:2]), y[:2])
            for row in (0, 1, 7):
                close(y[row], model(x[row : row + 1], time=time[row : row + 1])[0])


def test_saved_and_loaded_models_are_the_same(tmp_path):
    for name in names():
        with case(name):
            model = make(name).eval()
            x, time = batch()
            loaded = nacre.load(nacre.save(model, tmp_path / name)).eval()
            assert type(loaded) is type(model)
            assert loaded.to_config() == model.to_config()
            assert torch.equal(loaded(x, time=time), model(x, time=time))


def test_models_can_be_copied_after_training():
    for name in names():
        with case(name):
            model = make(name)
            x, time = batch()
            model(x, time=time).sum().backward()
            twin = copy.deepcopy(model).eval()
            assert torch.equal(twin(x, time=time), model.eval()(x, time=time))


def test_arguments_have_one_order_and_rows_may_share_stamps():
    x, time = batch()
    padding = torch.arange(9) >= torch.tensor([[9], [7], [1]])
    for name in names():
        with case(name):
            model = make(name)
            assert torch.equal(model(x, time, padding), model(x, time=time, key_padding_mask=padding))
            assert torch.equal(model(x, time[0]), model(x, time=time[0].expand(3, -1)))


def explains_bad_input(model):
    x, time = batch()
    with pytest.raises(ValueError, match=r"x must have 5 numbers in its last dimension, got shape \(3, 9, 4\)"):
        model(x[..., :4])
    with pytest.raises(ValueError, match=r"x.unsqueeze\(0\) for a single sequence"):
        model(x[0])
    with pytest.raises(ValueError, match="at least one row and one step"):
        model(x[:, :0])
    with pytest.raises(TypeError, match="x has dtype torch.float64 but the layer's weights are torch.float32"):
        model(x.double())
    with pytest.raises(ValueError, match=r"time must have shape \(3, 9\)"):
        model(x, time=time[0, :5])
    with pytest.raises(TypeError, match="key_padding_mask must be a bool tensor with True at padding"):
        model(x, key_padding_mask=torch.zeros(3, 9))
    with pytest.raises(TypeError, match="has no argument 'mask'; padding is key_padding_mask"):
        model(x, mask=torch.zeros(3, 9))
    with pytest.raises(TypeError, match="has no argument 'need_weights'; it takes x, time, key_padding_mask"):
        model(x, need_weights=True)
    time[1, 7] = time[1, 6] - 0.01
    with pytest.raises(ValueError, match="time must not go back within a row, got .* at row 1, step 7; sort"):
        model(x, time=time)
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 7] = True
    time[1, 6] = time[1, 5]  # equal stamps are allowed
    model(x, time=time, key_padding_mask=padding)
    time[2, 3] = float("nan")
    with pytest.raises(ValueError, match="time must be finite, got nan at row 2, step 3"):
        model(x, time=time, key_padding_mask=padding)


def test_bad_input_is_explained():
    for name in CLASSES:
        with case(name):
            explains_bad_input(make(name))


def test_bad_options_are_explained():
    for name in NAMES:
        layer = name if name in BASELINES else "NAC"
        message = f"{layer} has no option 'nonsense'; (did you mean|it takes|further options)"
        with case(name):
            with pytest.raises(TypeError, match=message):
                make(name, nonsense=1)
            with pytest.raises(ValueError, match="d_model must be at least 2, got 1"):
                nacre.create(name, d_input=5, d_model=1, num_heads=1)
            with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
                nacre.create(name, d_input=5, d_model=8, num_heads=0)
            for value in (0.0, float("inf"), float("nan")) if info(name).uses_time else ():
                with pytest.raises(ValueError, match=r"time_scale must lie in \(0.0, inf\), got"):
                    make(name, time_scale=value)
