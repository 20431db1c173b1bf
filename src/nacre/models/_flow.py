"""Fixed-step solvers of autonomous fields, with an elapsed time for each row of a batch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

VectorField = Callable[[Tensor], Tensor]


def euler(field: VectorField, y: Tensor, dt: Tensor) -> Tensor:
    """One step of Euler's method, order 1."""
    return torch.addcmul(y, dt, field(y))


def heun(field: VectorField, y: Tensor, dt: Tensor) -> Tensor:
    """One step of Heun's method, order 2: the mean of the slopes at the start and at Euler's end."""
    start = field(y)
    end = field(torch.addcmul(y, dt, start))
    return torch.addcmul(y, dt, start + end, value=1 / 2)


def rk4(field: VectorField, y: Tensor, dt: Tensor) -> Tensor:
    """One step of the classical Runge-Kutta method, order 4 (torchdiffeq's "rk4" is another, the 3/8 rule)."""
    k1 = field(y)
    k2 = field(torch.addcmul(y, dt, k1, value=1 / 2))
    k3 = field(torch.addcmul(y, dt, k2, value=1 / 2))
    k4 = field(torch.addcmul(y, dt, k3))
    return torch.addcmul(y, dt, k1 + k4 + 2 * (k2 + k3), value=1 / 6)


SOLVERS = {"euler": euler, "heun": heun, "rk4": rk4}


def flow(field: VectorField, y: Tensor, dt: Tensor, unfolds: int, solver: str = "euler") -> Tensor:
    """Solve dy/dt = field(y) over `unfolds` steps of length dt.

    It takes the length of one step, so that a loop over time divides elapsed time once for all its steps: [B, 1],
    or whatever broadcasts against y [..., d]. Where dt is 0, y does not change. The solver is "euler", "heun" or
    "rk4".

    Example:
        >>> y = flow(torch.neg, torch.ones(2, 1), torch.tensor([[0.1], [0.2]]), 10, "rk4")
        >>> torch.allclose(y, torch.tensor([[-1.0], [-2.0]]).exp(), atol=1e-4)
        True
    """
    step = SOLVERS[solver]
    for _ in range(unfolds):
        y = step(field, y, dt)
    return y


def relaxing_steps(elapsed: Tensor, unfolds: int) -> Tensor:
    """Lengths of Euler steps of a state that relaxes at a rate of at most 1: elapsed / unfolds, but at most 1.

    In longer steps Euler's method overshoots, and beyond 2 it diverges, where the exact state has settled.
    """
    return (elapsed / unfolds).clamp(max=1.0)


def drifting_steps(elapsed: Tensor, unfolds: int) -> Tensor:
    """Lengths of solver steps of a state that nothing holds: elapsed / unfolds, but at most 5.

    In longer steps an explicit method no longer follows any solution, the state is thrown far away, and its
    gradients grow by the length of a step at every step of a sequence, soon beyond single precision.
    """
    return (elapsed / unfolds).clamp(max=5.0)


def tanh_field(first: nn.Linear, second: nn.Linear) -> VectorField:
    """The field second(tanh(first(y))) of y [B, d], its weights transposed once for all steps of a forward."""
    weights = first.weight.t().contiguous(), second.weight.t().contiguous()
    biases = first.bias, second.bias

    def field(y: Tensor) -> Tensor:
        return torch.addmm(biases[1], torch.addmm(biases[0], y, weights[0]).tanh(), weights[1])

    return field
