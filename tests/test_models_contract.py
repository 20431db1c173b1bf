"""What every model of the zoo promises, asked of each by name."""

import copy
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nacre

NAMES = nacre.list_models()
BASELINES = [n for n in NAMES if nacre.model_info(n).kind != "NAC"]
WITH_LOSS = {"deepstate", "ot-transformer"}
# Whose next state is a nonlinear function of the last.
SEQUENTIAL = {n for n in BASELINES if nacre.model_info(n).kind == "CT-RNN"} - {"s4"} | {"cta"}
# Gradients need exact derivatives: no term that is held constant, no key that numerical steps could swap.
SMOOTH = {"performer": {"epsilon": 0.0}}
POISONS = [float("nan"), float("inf"), -1e30]


def make(name, **options):
    torch.manual_seed(1)
    return nacre.create(name, d_input=5, d_model=8, num_heads=2, **options)


def batch(rows=3, length=9, dtype=torch.float32):
    time = torch.rand(rows, length, dtype=torch.float64).add(0.1).cumsum(1)
    return torch.randn(rows, length, 5, dtype=dtype), time


def padding_of(rows, length, where):
    """Row 0 whole, row 1 padded at one side or inside, row 2 with one valid step, others whole."""
    padding = torch.zeros(rows, length, dtype=torch.bool)
    padding[1, {"right": slice(5, None), "left": slice(0, 4), "inside": slice(2, 5)}[where]] = True
    padding[2] = True
    padding[2, {"right": 0, "left": -1, "inside": 3}[where]] = False
    return padding


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


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
    assert len(NAMES) == 19 + 13


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_a_parity_test(name):
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_models_*.py"))
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
    torch.testing.assert_close(y.float(), make(name)(x, time=time), rtol=0.2, atol=0.2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e3, 1e9])
def test_stamps_in_a_small_unit_break_nothing(name, scale):
    """Someone forgot time_scale: milliseconds or nanoseconds where seconds were meant."""
    model = make(name)
    x, time = batch(4, 40)
    y = model(x, time=time * scale)
    y.sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


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
@pytest.mark.parametrize("where", ["right", "left", "inside"])
def test_what_is_in_padding_changes_no_bit(name, where):
    model = make(name)
    x, time = batch()
    padding = padding_of(3, 9, where)
    weight = torch.randn(3, 9, 8)

    def run(poison):
        model.zero_grad()
        dirty = x.masked_fill(padding[..., None], poison).requires_grad_()
        y = model(dirty, time=time.masked_fill(padding, poison), key_padding_mask=padding)
        (y * weight).sum().backward()
        return y.detach(), dirty.grad, [p.grad.clone() for p in model.parameters()]

    y, x_grad, grads = run(0.0)
    assert (y[padding] == 0).all()
    assert (x_grad[padding] == 0).all()
    for poison in POISONS:
        other, other_x_grad, other_grads = run(poison)
        assert torch.equal(other, y)
        assert torch.equal(other_x_grad, x_grad)
        assert all(torch.equal(a, b) for a, b in zip(other_grads, grads, strict=True))


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("where", ["right", "left", "inside"])
@pytest.mark.parametrize("with_time", [True, False])
def test_padding_is_as_if_it_were_not_there(name, where, with_time):
    model = make(name).double()
    x, time = batch(dtype=torch.float64)
    padding = padding_of(3, 9, where)
    y = model(x, time=time if with_time else None, key_padding_mask=padding)
    for row in range(3):
        keep = ~padding[row]
        alone = model(x[row : row + 1, keep], time=time[row : row + 1, keep] if with_time else None)
        torch.testing.assert_close(y[row, keep], alone[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_nothing_but_padding_are_zero(name):
    model = make(name)
    x, time = batch()
    padding = padding_of(3, 9, "right")
    padding[2] = True
    x[2], time[2] = float("nan"), float("nan")
    y = model(x, time=time, key_padding_mask=padding)
    assert (y[2] == 0).all()
    y.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_samples(name):
    model = make(name)
    for rows in (2, 8):  # 8: as many rows as features
        x, time = batch(rows, 11)
        y = model(x, time=time)
        for row in range(rows):
            close(y[row], model(x[row : row + 1], time=time[row : row + 1])[0])


@pytest.mark.parametrize("name", NAMES)
def test_tripling_elapsed_time_acts_where_the_registry_says_so(name):
    model = make(name)
    x, time = batch()
    changed = (model(x, time=time) - model(x, time=time * 3)).abs().amax((1, 2)) > 1e-6  # [B]
    assert changed.tolist() == [nacre.model_info(name).uses_time] * 3


@pytest.mark.parametrize("name", BASELINES)
def test_no_time_stamps_mean_one_unit_a_step(name):
    model = make(name)
    x, _ = batch()
    close(model(x), model(x, time=torch.arange(9).expand(3, 9)))


@pytest.mark.parametrize("name", [n for n in NAMES if nacre.model_info(n).uses_time])
def test_time_scale_is_the_unit_of_time(name):
    x, time = batch()
    close(make(name, time_scale=60.0)(x, time=time * 60), make(name)(x, time=time))


@pytest.mark.parametrize("name", [n for n in BASELINES if nacre.model_info(n).uses_time])
def test_stamps_of_today_keep_their_differences(name):
    """Seconds since 1970 must not lose milliseconds to single precision."""
    model = make(name)
    x, time = batch()
    stamps = time + 1.7e9
    stamps[0, 4:] += 1e-3
    before = stamps.clone()
    before[0, 4:] -= 1e-3
    assert not torch.equal(model(x, time=stamps)[0], model(x, time=before)[0])
    assert model(x, time=stamps).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_the_registry_knows_whether_the_future_matters(name):
    model = make(name).double()
    x, time = batch(dtype=torch.float64)
    later = x.clone()
    later[:, 6:] += 1
    same = torch.allclose(model(x, time=time)[:, :6], model(later, time=time)[:, :6], rtol=1e-12, atol=1e-12)
    assert same == nacre.model_info(name).causal


@pytest.mark.parametrize("name", [n for n in NAMES if "causal" in (nacre.models.model_options(n) or {})])
def test_causal_models_do_not_see_the_future(name):
    model = make(name, causal=True).double()
    x, time = batch(dtype=torch.float64)
    later, later_time = x.clone(), time.clone()
    later[:, 6:], later_time[:, 6:] = 1e3, time[:, 6:] + 5
    torch.testing.assert_close(
        model(later, time=later_time)[:, :6], model(x, time=time)[:, :6], rtol=1e-12, atol=1e-12
    )
    last = torch.full_like(later, 3.0)
    last[:, 1:] = x[:, 1:]
    assert not torch.allclose(model(last, time=time)[:, 5], model(x, time=time)[:, 5])


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


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(model, length, regular):
    time = torch.arange(length) if regular else torch.rand(length).cumsum(0)
    with Operations() as counted, torch.no_grad():
        model(torch.randn(1, length, 5), time=time.expand(1, length))
    return counted.count


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SEQUENTIAL])
@pytest.mark.parametrize("regular", [True, False])
def test_there_is_no_loop_over_time(name, regular):
    """Eight times the steps may need a few more rounds, but not eight times the operations."""
    model = make(name)
    assert operations(model, 256, regular) < 2 * operations(model, 32, regular)


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


@pytest.mark.parametrize("name", NAMES)
def test_auxiliary_losses_belong_to_training(name):
    model = make(name)
    x, time = batch()
    padding = padding_of(3, 9, "inside")
    model(x, time=time, key_padding_mask=padding)
    if name in WITH_LOSS:
        assert model.aux_loss.shape == ()
        loss = model.aux_loss.item()
        model(x.masked_fill(padding[..., None], 7.0), time=time, key_padding_mask=padding)
        assert model.aux_loss.item() == loss
        model.aux_loss.backward()
        assert any((p.grad != 0).any() for p in model.parameters() if p.grad is not None)
    else:
        assert model.aux_loss is None
    model.eval()(x, time=time)
    assert model.aux_loss is None


@pytest.mark.parametrize("name", BASELINES)
def test_bad_input_is_explained(name):
    model = make(name)
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
        model(x, time=time[0])
    with pytest.raises(TypeError, match="key_padding_mask must be a bool tensor with True at padding"):
        model(x, key_padding_mask=torch.zeros(3, 9))
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


@pytest.mark.parametrize("name", NAMES)
def test_bad_options_are_explained(name):
    layer = name if name in BASELINES else "NAC"
    with pytest.raises(
        TypeError, match=f"{layer} has no option 'nonsense'; (did you mean|it takes|further options)"
    ):
        make(name, nonsense=1)
    with pytest.raises(ValueError, match="d_model must be at least 2, got 1"):
        nacre.create(name, d_input=5, d_model=1, num_heads=1)
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        nacre.create(name, d_input=5, d_model=8, num_heads=0)
