"""What every model of the zoo promises about time: stamps, the future, and no loop over steps."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nacre
from reference.zoo import BASELINES, NAMES, batch, close, make

# Whose next state is a nonlinear function of the last.
SEQUENTIAL = {n for n in BASELINES if nacre.model_info(n).kind == "CT-RNN"} - {"s4"} | {"cta"}


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
@pytest.mark.parametrize("scale", [1e3, 1e9])
def test_stamps_in_a_small_unit_break_nothing(name, scale):
    """Someone forgot time_scale: milliseconds or nanoseconds where seconds were meant."""
    model = make(name)
    x, time = batch(4, 40)
    y = model(x, time=time * scale)
    y.sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


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
