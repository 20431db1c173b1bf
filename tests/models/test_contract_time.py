"""What every model of the zoo promises about time: stamps, the future, and no loop over steps."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nacre
from support.models import CLASSES, batch, case, close, each, info, make, names

# Whose next state is a nonlinear function of the last.
SEQUENTIAL = {n for n in CLASSES if info(n).kind == "CT-RNN"} - {"s4"} | {"cta"}


def test_tripling_elapsed_time_acts_where_the_registry_says_so():
    for name in names("nac-euler", "nac-steady"):
        with case(name):
            model = make(name)
            x, time = batch()
            changed = (model(x, time=time) - model(x, time=time * 3)).abs().amax((1, 2)) > 1e-6  # [B]
            assert changed.tolist() == [info(name).uses_time] * 3


def test_no_time_stamps_mean_one_unit_a_step():
    for name in CLASSES:
        with case(name):
            model = make(name)
            x, _ = batch()
            close(model(x), model(x, time=torch.arange(9).expand(3, 9)))


def test_time_scale_is_the_unit_of_time():
    for name in names("nac-euler"):
        if info(name).uses_time:
            x, time = batch()
            with case(name):
                close(make(name, time_scale=60.0)(x, time=time * 60), make(name)(x, time=time))


def test_stamps_of_today_keep_their_differences():
    """Seconds since 1970 must not lose milliseconds to single precision."""
    for name in CLASSES:
        if info(name).uses_time:
            model = make(name)
            x, time = batch()
            stamps = time + 1.7e9
            stamps[0, 4:] += 1e-3
            before = stamps.clone()
            before[0, 4:] -= 1e-3
            with case(name):
                assert not torch.equal(model(x, time=stamps)[0], model(x, time=before)[0])
                assert model(x, time=stamps).isfinite().all()


@pytest.mark.parametrize("scale", [1e3, 1e9])
def test_stamps_in_a_small_unit_break_nothing(scale):
    """Someone forgot time_scale: milliseconds or nanoseconds where seconds were meant."""
    x, time = batch(4, 24)
    for name in names("nac-euler", "nac-steady"):
        model = make(name)
        y = model(x, time=time * scale)
        y.sum().backward()
        assert y.isfinite().all(), name
        assert all(p.grad.isfinite().all() for p in model.parameters()), name


def test_the_registry_knows_whether_the_future_matters():
    for name in names():
        model = make(name).double()
        x, time = batch(dtype=torch.float64)
        later = x.clone()
        later[:, 6:] += 1
        got, want = (model(inputs, time=time)[:, :6] for inputs in (later, x))
        assert torch.allclose(got, want, rtol=1e-12, atol=1e-12) == info(name).causal, name


def test_causal_models_do_not_see_the_future():
    causal = [n for n in nacre.list_models() if "causal" in (nacre.models.model_options(n) or {})]
    assert causal == ["contiformer", "cta", "linear-attention", "odeformer", "ot-transformer", "sdpa"]
    for name in causal:
        model = make(name, causal=True).double()
        x, time = batch(dtype=torch.float64)
        later, later_time = x.clone(), time.clone()
        later[:, 6:], later_time[:, 6:] = 1e3, time[:, 6:] + 5
        last = torch.full_like(later, 3.0)
        last[:, 1:] = x[:, 1:]
        want = model(x, time=time)
        with case(name):
            torch.testing.assert_close(model(later, time=later_time)[:, :6], want[:, :6], rtol=1e-12, atol=1e-12)
            assert not torch.allclose(model(last, time=time)[:, 5], want[:, 5])


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


@each([n for n in names("nac-pw") if n not in SEQUENTIAL])
def test_there_is_no_loop_over_time(name):
    """Eight times the steps may need a few more rounds, but not eight times the operations."""
    model = make(name)
    for regular in (True, False):
        assert operations(model, 160, regular) < 2 * operations(model, 20, regular), regular
