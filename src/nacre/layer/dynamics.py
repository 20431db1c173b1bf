"""The differential equation of a logit, da/dt = -omega a + phi: solutions, sensitivities and bounds."""

from enum import StrEnum

import torch
from torch import Tensor

from nacre._util.checks import choice, whole

LONGEST = 2.0**40  # units of time; more counts as this, of which products of three still fit into float32
_SERIES_BELOW = 0.5  # below this the closed forms and their derivatives lose digits
# Terms until 0.5**n / (n + 1)! is below the last bit.
_SERIES_TERMS = {torch.float32: 8, torch.float64: 16}


class Mode(StrEnum):
    """How a logit is computed from its gates."""

    EXACT = "exact"
    """Closed form of the solution at time t (the paper's Exact mode)."""
    EULER = "euler"
    """Explicit Euler to the same time t, with as many steps as stability needs."""
    STEADY = "steady"
    """The limit phi / omega, whatever t is."""


def solve_logits(
    phi: Tensor,
    omega: Tensor,
    t: Tensor,
    mode: str = "exact",
    *,
    a0: Tensor | float | None = None,
    euler_steps: int = 6,
) -> Tensor:
    """Solve da/dt = -omega a + phi from a(0) = a0 to time t, with phi and omega frozen.

    Args:
        phi: Content target, any shape.
        omega: Decay rate, > 0, broadcastable.
        t: Time, >= 0, broadcastable.
        mode: "exact", "euler" or "steady".
        a0: Initial value, default 0. Steady logits do not depend on it.
        euler_steps: Least number of Euler steps; there are more where one would overshoot (omega * t / steps > 1).

    Example:
        >>> one = torch.ones(())
        >>> solve_logits(one, one, one, "exact"), solve_logits(one, one, one, "steady")
        (tensor(0.6321), tensor(1.))
    """
    choice("mode", mode, Mode)
    if mode == Mode.STEADY:
        return phi / omega
    z = omega * t
    steps = None
    if mode == Mode.EULER:
        whole("euler_steps", euler_steps, 1)
        steps = z.detach().ceil().clamp(min=euler_steps)
    logits = phi * t * _gain(z, steps)
    if a0 is None:
        return logits
    remaining = torch.exp(-z) if steps is None else (1 - z / steps) ** steps
    return logits + a0 * remaining


def _gain(z: Tensor, steps: Tensor | None = None) -> Tensor:
    """(1 - e^-z) / z, or with Euler steps (1 - (1 - z/n)^n) / z; smooth through z = 0.

    Both have the series 1 - z/2 c_1 (1 - z/3 c_2 (1 - ...)) with c_k = 1, or 1 - k/n for Euler.
    """
    small = z < _SERIES_BELOW
    near = torch.where(small, z, 0)  # the branch not taken must not produce infinite gradients
    far = torch.where(small, 1, z)
    series = torch.ones_like(z)
    for k in range(_SERIES_TERMS.get(z.dtype, 8), 0, -1):
        term = near / (k + 1) if steps is None else near / (k + 1) * (1 - k / steps)
        series = 1 - term * series
    closed = -torch.expm1(-far) / far if steps is None else (1 - (1 - far / steps.clamp(min=1)) ** steps) / far
    return torch.where(small, series, closed)


def wide(x: Tensor) -> Tensor:
    """At least float32: half precision loses small differences of logits and times."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def time_gate(t_a: Tensor, t_b: Tensor, t_sample: Tensor | float) -> Tensor:
    """The paper's internal time t = sigmoid(-t_a * t_sample + t_b), in (0, 1)."""
    return torch.sigmoid(-t_a * t_sample + t_b)


def logit_sensitivities(phi: Tensor, omega: Tensor, t: Tensor, a0: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    """Derivatives of the exact logit by phi and by omega, accurate also for small omega * t.

    d a / d phi = (1 - e^(-omega t)) / omega and
    d a / d omega = -phi / omega^2 (1 - e^(-omega t)) - (a0 - phi / omega) t e^(-omega t).
    """
    z = omega * t
    by_phi = t * _gain(z)
    by_omega = phi * t * t * _gain_slope(z) - a0 * t * torch.exp(-z)
    return by_phi, by_omega


def _gain_slope(z: Tensor) -> Tensor:
    """Derivative of (1 - e^-z) / z: (e^-z - gain) / z, by its series near 0."""
    small = z < _SERIES_BELOW
    series = torch.zeros_like(z)
    factor = torch.full_like(z, -0.5)
    for k in range(1, _SERIES_TERMS.get(z.dtype, 8) + 2):
        series = series + factor
        factor = factor * -z * (k + 1) / (k * (k + 2))
    far = torch.where(small, 1, z)
    return torch.where(small, series, (torch.exp(-far) + torch.expm1(-far) / far) / far)


def state_bounds(phi: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
    """Interval that a logit starting inside it never leaves (the paper's state-stability theorem).

    For phi and omega [..., M] of the M connections of one logit, the bounds [...] are min(0, min phi/omega) and
    max(0, max phi/omega).
    """
    rest = phi / omega
    return rest.amin(-1).clamp(max=0), rest.amax(-1).clamp(min=0)


def decay_bound(phi: Tensor, omega: Tensor, t: Tensor, a0: Tensor | float = 0.0) -> Tensor:
    """Distance to the steady state at time t: |a0 - phi/omega| e^(-omega t)."""
    return uniform_decay_bound((a0 - phi / omega).abs(), omega, t)


def uniform_decay_bound(radius: Tensor | float, omega: Tensor, t: Tensor) -> Tensor:
    """The same for every start within `radius` of the steady state: radius * e^(-omega t)."""
    return radius * torch.exp(-omega * t)


def convergence_time(phi: Tensor, omega: Tensor, delta: float, a0: Tensor | float = 0.0) -> Tensor:
    """Time until the logit is within delta of its steady state (0 where it starts there)."""
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta}")
    return ((a0 - phi / omega).abs() / delta).log().clamp(min=0) / omega


def frozen_error_bound(
    l_phi: Tensor, l_omega: Tensor, phi0: Tensor, omega0: Tensor, t: Tensor, a0: Tensor | float = 0.0
) -> Tensor:
    """Bound on the error of freezing gates that change at most at rates l_phi and l_omega.

    (L_phi + C L_omega) / L_omega (e^(L_omega t^2 / 2) - 1) with C = |a0| + |phi0| / omega0; its limit for
    L_omega -> 0 is L_phi t^2 / 2.
    """
    start = torch.as_tensor(a0, dtype=phi0.dtype, device=phi0.device).abs() + phi0.abs() / omega0
    half = t * t / 2
    y = l_omega * half
    growth = torch.where(y == 0, 1, torch.expm1(y) / torch.where(y == 0, 1, y))
    return (l_phi + start * l_omega) * half * growth
