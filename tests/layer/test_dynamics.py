"""The logit's differential equation against solvers, autograd and the paper's theorems."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from torchdiffeq import odeint

from nacre import functional as F
from support.hypothesis import examples

F64 = torch.float64
reals = st.floats(-5, 5)
rates = st.floats(1e-3, 200)
times = st.floats(0, 1)
PRECISION = {torch.float32: 4 * 2**-23, F64: 1e-12}


def tensor(*values, dtype=F64):
    return [torch.tensor(v, dtype=dtype) for v in values]


@pytest.mark.parametrize("a0", [0.0, -1.5, 2.0])
def test_exact_logits_equal_an_ode_solver(a0):
    phi, omega = torch.randn(40, dtype=F64), torch.rand(40, dtype=F64) * 8 + 1e-3
    t = np.linspace(0, 1, 11)
    p, o, start = phi.numpy(), omega.numpy(), np.full(40, a0)
    path = solve_ivp(lambda _, a: -o * a + p, (0, 1), start, "DOP853", t, rtol=1e-12, atol=1e-12)
    got = F.solve_logits(phi, omega, torch.from_numpy(t)[:, None], "exact", a0=a0)
    assert (got - torch.from_numpy(path.y.T)).abs().max() < 1e-7


def test_exact_logits_equal_torchdiffeq_in_gradients_too():
    phi, omega = torch.randn(6, dtype=F64).requires_grad_(), (torch.rand(6, dtype=F64) * 3).requires_grad_()
    span = torch.tensor([0.0, 0.8], dtype=F64)
    path = odeint(lambda _, a: -omega * a + phi, torch.zeros(6, dtype=F64), span, rtol=1e-10, atol=1e-12)
    got = F.solve_logits(phi, omega, span[1], "exact")
    torch.testing.assert_close(got, path[1], rtol=0, atol=1e-7)
    for g, w in zip(*(torch.autograd.grad(x.sum(), (phi, omega)) for x in (got, path[1])), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=1e-7)


def test_steady_logits_are_the_limit():
    phi, omega = torch.randn(20, dtype=F64), torch.rand(20, dtype=F64) + 0.5
    late = F.solve_logits(phi, omega, torch.tensor(100.0, dtype=F64), "exact", a0=3.0)
    torch.testing.assert_close(F.solve_logits(phi, omega, phi, "steady"), late)


def test_euler_is_the_loop():
    phi, omega, t = torch.randn(50, dtype=F64), torch.rand(50, dtype=F64) * 30, torch.rand(50, dtype=F64)
    for a0 in (None, 0.7):
        got = F.solve_logits(phi, omega, t, "euler", a0=a0, euler_steps=4)
        for i in range(50):
            steps = max(4, int(torch.ceil(omega[i] * t[i])))
            a = 0.0 if a0 is None else a0
            for _ in range(steps):
                a = a + t[i] / steps * (-omega[i] * a + phi[i])
            torch.testing.assert_close(got[i], torch.as_tensor(a, dtype=F64), rtol=1e-10, atol=1e-12)


def test_euler_converges_with_order_one():
    phi, omega, t = tensor(1.3, 2.0, 0.9)
    exact = F.solve_logits(phi, omega, t, "exact", a0=0.4)
    errors = [
        (F.solve_logits(phi, omega, t, "euler", a0=0.4, euler_steps=n) - exact).abs().item()
        for n in (50, 100, 200, 400)
    ]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert ratios == pytest.approx(2.0, abs=0.05)


@examples(300)
@given(reals, st.floats(1e-3, 1e5), st.floats(0, 50), reals, st.integers(1, 9))
def test_euler_never_overshoots(phi, omega, t, a0, steps):
    phi, omega, t = tensor(phi, omega, t)
    a = F.solve_logits(phi, omega, t, "euler", a0=a0, euler_steps=steps)
    rest = phi / omega
    low, high = min(rest, a0), max(rest, a0)
    slack = 1e-12 * max(1.0, abs(a0), rest.abs().item())
    assert low - slack <= a <= high + slack


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@examples(300)
@given(
    phi=st.lists(reals, min_size=1, max_size=5),
    seed=st.integers(0, 999),
    t=times,
    mode=st.sampled_from(["exact", "euler"]),
)
def test_theorem_state_stability(dtype, phi, seed, t, mode):
    """M connections: rates and targets add up; the logit stays between 0 and the connections' equilibria."""
    phi = torch.tensor(phi, dtype=dtype)
    omega = torch.rand(len(phi), generator=torch.Generator().manual_seed(seed), dtype=dtype) * 20 + 1e-3
    low, high = F.state_bounds(phi, omega)
    slack = PRECISION[dtype] * max(high.abs().item(), low.abs().item(), 1e-30) * (len(phi) + 1)
    for share in (0.0, 0.3, 1.0):  # any start inside
        a0 = low + share * (high - low)
        a = F.solve_logits(phi.sum(), omega.sum(), torch.tensor(t, dtype=dtype), mode, a0=a0)
        assert low - slack <= a <= high + slack


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@examples(300)
@given(phi=reals, omega=rates, t=times, a0=reals)
def test_theorem_exponential_decay(dtype, phi, omega, t, a0):
    phi, omega, t = tensor(phi, omega, t, dtype=dtype)
    a = F.solve_logits(phi, omega, t, "exact", a0=a0)
    rest = phi / omega
    slack = PRECISION[dtype] * (1 + abs(a0) + rest.abs())
    bound = F.decay_bound(phi, omega, t, a0)
    assert (a - rest).abs() <= bound + slack
    assert (a - rest).abs() >= bound - slack  # it is an exact law, not only a bound
    radius = (rest - a0).abs() * 1.5
    assert bound <= F.uniform_decay_bound(radius, omega, t) + slack


@examples(200)
@given(reals, rates, reals, st.floats(1e-6, 1))
def test_theorem_convergence_time(phi, omega, a0, delta):
    phi, omega = tensor(phi, omega)
    t = F.convergence_time(phi, omega, delta, a0)
    rest = phi / omega
    a = F.solve_logits(phi, omega, t, "exact", a0=a0)
    assert (a - rest).abs() <= delta * (1 + 1e-9) + 1e-12 * (1 + rest.abs())
    if t > 0:  # and not a moment earlier
        early = F.solve_logits(phi, omega, t * 0.99, "exact", a0=a0)
        assert (early - rest).abs() > delta * (1 - 1e-6) - 1e-12 * (1 + rest.abs())


def test_convergence_time_refuses_nonsense():
    with pytest.raises(ValueError, match="delta must be positive, got 0"):
        F.convergence_time(*tensor(1.0, 1.0), 0)


@pytest.mark.parametrize(
    ("phi", "omega", "l_phi", "l_omega"),
    [
        (lambda s: 0.8 + 0.3 * s, lambda s: 1.5 + 0.5 * s, 0.3, 0.5),
        (lambda s: 0.8 + 0.3 * np.sin(5 * s), lambda s: 1.5 + 0.4 * np.cos(3 * s), 1.5, 1.2),
        (lambda s: -0.5 - 0.2 * s, lambda s: 1.0 + 0.0 * s, 0.2, 0.0),
    ],
)
def test_theorem_frozen_coefficients(phi, omega, l_phi, l_omega):
    t = np.linspace(0, 1, 21)[1:]
    path = solve_ivp(lambda s, a: -omega(s) * a + phi(s), (0, 1), [0.3], "DOP853", t, rtol=1e-11, atol=1e-13)
    phi0, omega0, lp, lw = tensor(phi(0.0), omega(0.0), l_phi, l_omega)
    stamps = torch.from_numpy(t)
    frozen = F.solve_logits(phi0, omega0, stamps, "exact", a0=0.3)
    error = (torch.from_numpy(path.y[0]) - frozen).abs()
    bound = F.frozen_error_bound(lp, lw, phi0, omega0, stamps, 0.3)
    assert (error <= bound).all()
    assert (error > 0).all()
    # O(t^2) for short horizons
    assert (bound[0] / bound[1]).item() == pytest.approx(0.25, rel=0.02)


def test_frozen_bound_without_change_of_omega():
    got = F.frozen_error_bound(*tensor(0.4, 0.0, 1.0, 1.0, 2.0))
    assert got.item() == pytest.approx(0.4 * 2.0)


@examples(200)
@given(reals, rates, st.floats(0, 3), reals)
def test_sensitivities_equal_autograd_and_the_papers_formula(phi, omega, t, a0):
    phi, omega, t = tensor(phi, omega, t)
    phi.requires_grad_()
    omega.requires_grad_()
    a = F.solve_logits(phi, omega, t, "exact", a0=a0)
    want = torch.autograd.grad(a, (phi, omega))
    got = F.logit_sensitivities(phi.detach(), omega.detach(), t, a0)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-10)
    p, o = phi.detach(), omega.detach()
    decay = torch.exp(-o * t)
    torch.testing.assert_close(got[0], (1 - decay) / o, rtol=1e-6, atol=1e-9)
    paper = -p / o**2 * (1 - decay) - (a0 - p / o) * t * decay
    torch.testing.assert_close(got[1], paper, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["exact", "euler"])
def test_gradcheck_through_small_and_large_times(mode):
    args = [x.requires_grad_() for x in tensor(0.7, 2.0)]
    # omega t from 0 to 40
    t = torch.tensor([0.0, 1e-12, 1e-6, 0.05, 0.4999, 0.5001, 0.7, 3.0, 40.0], dtype=F64) / 2
    assert torch.autograd.gradcheck(lambda p, o: F.solve_logits(p, o, t, mode, a0=0.2), args, eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("mode", ["exact", "euler", "steady"])
def test_gradients_are_finite_at_the_edges(mode):
    # t = 0, and omega * t equal to the number of Euler steps
    phi = torch.tensor([0.7, 0.7, 0.7], requires_grad=True)
    omega = torch.tensor([1e-3, 6.0, 7.0], requires_grad=True)
    t = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    F.solve_logits(phi, omega, t, mode).sum().backward()
    for x in (phi, omega, t):
        assert x.grad is None or x.grad.isfinite().all()


@pytest.mark.parametrize("mode", ["exact", "euler"])
def test_small_rates_keep_their_digits(mode):
    """float32 against float64, in value and gradient, down to omega * t = 1e-9."""
    for dtype, store in ((F64, []), (torch.float32, [])):
        omega = torch.logspace(-9, 1, 60, dtype=F64).to(dtype).requires_grad_()
        a = F.solve_logits(torch.ones_like(omega), omega, torch.ones_like(omega), mode)
        store += [a.detach().double(), torch.autograd.grad(a.sum(), omega)[0].double()]
        if dtype == F64:
            truth = store
    for got, want in zip(store, truth, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-7)


def test_time_gate_is_the_papers():
    a, b, s = torch.randn(5), torch.randn(5), torch.rand(5)
    torch.testing.assert_close(F.time_gate(a, b, s), torch.sigmoid(-a * s + b))


def test_unknown_mode_and_bad_steps():
    one = torch.ones(())
    with pytest.raises(
        ValueError, match="mode must be one of 'exact', 'euler', 'steady', got 'stedy'; did you mean"
    ):
        F.solve_logits(one, one, one, "stedy")
    with pytest.raises(ValueError, match="euler_steps must be at least 1"):
        F.solve_logits(one, one, one, "euler", euler_steps=0)
