"""The fixed-step solvers against equations with known solutions and against torchdiffeq."""

import pytest
import torch
from torchdiffeq import odeint

from nacre.models._flow import SOLVERS, euler, flow, heun, tanh_field
from support.models import ORDERS


def pendulum(y):
    return torch.stack([y[..., 1], -torch.sin(y[..., 0])], -1)


@pytest.mark.parametrize(("step", "method"), [(euler, "euler"), (heun, "heun2")])
def test_one_step_is_that_of_torchdiffeq(step, method):
    y = torch.randn(3, 2, dtype=torch.float64)
    want = odeint(lambda _, y: pendulum(y), y, torch.tensor([0.0, 0.7], dtype=torch.float64), method=method)[-1]
    torch.testing.assert_close(
        step(pendulum, y, torch.full((3, 1), 0.7, dtype=torch.float64)), want, rtol=1e-12, atol=1e-12
    )


def test_rk4_is_the_classical_one():
    """One step is the series of exp up to order 4 on dy/dt = y, and uses the classical slopes on dy/dt = y²."""
    y, h = torch.ones(1, 1, dtype=torch.float64), 0.5
    dt = torch.full((1, 1), h, dtype=torch.float64)
    assert SOLVERS["rk4"](lambda y: y, y, dt).item() == pytest.approx(
        1 + h + h**2 / 2 + h**3 / 6 + h**4 / 24, abs=1e-15
    )
    k1 = 1.0
    k2 = (1 + h / 2 * k1) ** 2
    k3 = (1 + h / 2 * k2) ** 2
    k4 = (1 + h * k3) ** 2
    want = 1 + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    assert SOLVERS["rk4"](lambda y: y**2, y, dt).item() == pytest.approx(want, abs=1e-14)


@pytest.mark.parametrize("solver", ORDERS)
def test_errors_fall_by_the_order_of_the_solver(solver):
    y = torch.tensor([[1.0, 0.3], [-0.5, 1.2]], dtype=torch.float64)
    elapsed = torch.tensor([[1.0], [2.5]], dtype=torch.float64)
    exact = odeint(
        lambda _, y: elapsed * pendulum(y), y, torch.tensor([0.0, 1.0]).double(), rtol=1e-12, atol=1e-12
    )[-1]
    errors = [(flow(pendulum, y, elapsed / n, n, solver) - exact).abs().amax(1) for n in (32, 64)]
    ratio = errors[0] / errors[1]  # [B]
    assert ((ratio > 1.8 ** ORDERS[solver]) & (ratio < 2.2 ** ORDERS[solver])).all()


@pytest.mark.parametrize("solver", ORDERS)
def test_no_time_changes_no_bit(solver):
    y = torch.randn(3, 2)
    assert torch.equal(flow(pendulum, y, torch.zeros(3, 1), 4, solver), y)


def test_tanh_field_is_its_layers():
    first, second = torch.nn.Linear(4, 6).double(), torch.nn.Linear(6, 4).double()
    y = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(tanh_field(first, second)(y), second(first(y).tanh()), rtol=1e-12, atol=1e-12)
