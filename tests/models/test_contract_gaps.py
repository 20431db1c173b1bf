"""Every model of the zoo bears any time between steps: outputs and gradients stay finite."""

import pytest
import torch

from support.models import CELLS, NAMES, case, each, info, make

MODELS = [*NAMES, *CELLS]
# Units of time between steps that the solvers of these take at most.
LIMITS = {"cta": 10.0, "mmrnn": 15.0, "ode-rnn": 25.0, "ct-rnn": 5.0, "gru-ode": 4.0}


def irregular(scale=1.0):
    return torch.rand(2, 24, dtype=torch.float64).add(0.1).cumsum(1) * scale


def one_gap(size):
    """Ordinary steps, and one gap in each row."""
    time = irregular()
    time[0, 1:] += size
    time[1, 16:] += size
    return time


CASES = {
    "no time passes": (lambda: torch.zeros(2, 24), 1.0),
    "gaps of 1e-30": (lambda: irregular(1e-30), 1.0),
    "gaps of 1e6": (lambda: irregular(1e6), 1.0),
    "gaps of 1e12": (lambda: irregular(1e12), 1.0),
    "gaps of 1e39": (lambda: irregular(1e39), 1.0),
    "gaps of 1e200": (lambda: irregular(1e200), 1.0),
    "equal gaps of 1e39": (lambda: 1e39 * torch.arange(24).double().expand(2, 24), 1.0),
    "one gap of 1e6": (lambda: one_gap(1e6), 1.0),
    "one gap of 1e39": (lambda: one_gap(1e39), 1.0),
    "seconds since 1970 in microseconds": (lambda: irregular() + 1.7e9, 1e-6),
    "seconds since 1970 in nothing": (lambda: irregular() + 1.7e9, 1e-300),
    "far before 1970": (lambda: irregular(1e38) - 1e39, 1.0),
}


@pytest.mark.parametrize("label", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_are_finite(label, dtype):
    stamps, scale = CASES[label]
    time = stamps()
    x = torch.randn(2, 24, 5, dtype=dtype, requires_grad=True)
    for name in MODELS:
        with case(name):
            model = make(name, d_model=16, **({"time_scale": scale} if info(name).uses_time else {})).to(dtype)
            y = model(x, time=time)
            grads = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
            assert y.isfinite().all()
            assert all(grad.isfinite().all() for grad in grads)


@each(LIMITS)
def test_a_gap_longer_than_the_solver_bears_counts_as_the_longest(name):
    x = torch.randn(2, 24, 5)
    model = make(name)

    def states(gap):
        time = torch.arange(24).double().expand(2, 24).clone()
        time[:, 16:] += gap - 1
        if name == "cta":  # whose attention weighs an interval by its true length
            return model.trajectory(x, time.diff(dim=1, prepend=time[:, :1]).unsqueeze(-1).float())
        return model(x, time=time)

    limit = LIMITS[name]
    assert torch.equal(states(1.01 * limit), states(1e6 * limit))
    assert not torch.allclose(states(0.99 * limit), states(limit), rtol=1e-4)
