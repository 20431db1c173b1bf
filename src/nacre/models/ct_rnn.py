"""CT-RNN: the leaky recurrent network in continuous time, and the choice between it and the ODE-RNN."""

import torch
from torch import Tensor, nn

from nacre._util.checks import choice, whole
from nacre.io import saveable
from nacre.models._base import SequenceModel, unbind_time
from nacre.models._flow import relaxing_steps
from nacre.models._ode_rnn import ODERNN
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Whole
from nacre.models._steps import Steps

_CELLS = ("leaky", "ode-rnn")


@saveable("CTRNN")
class CTRNN(SequenceModel):
    """Leaky recurrent network whose state flows while each input is held.

        dh/dt = g * tanh(x W + h U + b) - h

    State h starts at 0. With input i held, it flows for the time since step i - 1 (1 unit at the first step), by
    `unfolds` steps of Euler's method; what it reaches is output i. Gain g has one number per unit and starts at 1.

    The NAC paper names CT-RNN and cites Rubanova et al. (2019), who describe the ODE-RNN, which is `ODERNN` here.
    Its public code runs this classical network; the solver and its 5 steps are taken from there.

    No unit leaves [-|g|, |g|]. For that no Euler step is longer than 1 unit, where the method would overshoot, and
    beyond 2 diverge: a gap of more than `unfolds` units counts as that long. Choose `time_scale` near the usual
    time between steps.

    Args:
        d_input: Width of the input.
        d_model: Width of the state, which is the output.
        unfolds: Solver steps between two inputs.
        time_scale: What time stamps are divided by.

    Example:
        >>> CTRNN(7, 64)(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(self, d_input: int, d_model: int, *, unfolds: int = 5, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.input_proj = nn.Linear(d_input, d_model)
        self.state_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, d_model)))
        self.gain = nn.Parameter(torch.ones(d_model))

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        # With h = g u, du/dt = tanh(x W + u (g U) + b) - u: one product less in every solver step.
        weight = self.gain.unsqueeze(1) * self.state_weight
        inputs, dt = unbind_time([self.input_proj(steps.x), relaxing_steps(steps.elapsed(1.0), self.unfolds)])
        u = torch.zeros_like(inputs[0])  # [B, d]
        states: list[Tensor] = []
        for held, length in zip(inputs, dt, strict=True):
            for _ in range(self.unfolds):
                u = torch.lerp(u, torch.addmm(held, u, weight).tanh(), length)
            states.append(u)
        return torch.stack(states, 1) * self.gain


@register(
    ModelInfo(
        "ct-rnn",
        kind="CT-RNN",
        paper="Rubanova et al., 2019",
        summary="leaky recurrent network in continuous time, or ODE-RNN",
        uses_time=True,
        causal=True,
        cost="T S d²",
        checked="torchdiffeq",
    ),
    space={"cell": Choice(_CELLS), "unfolds": Whole(2, 8)},
)
def ct_rnn(
    d_input: int, d_model: int, *, cell: str = "leaky", unfolds: int = 5, time_scale: float = 1.0
) -> CTRNN | ODERNN:
    """Make what the literature calls a CT-RNN.

    Args:
        d_input: Width of the input.
        d_model: Width of the output.
        cell: "leaky" for `CTRNN`, the classical network of that name, or "ode-rnn" for `ODERNN`, which is what
            Rubanova et al. describe.
        unfolds: Solver steps between two inputs.
        time_scale: What time stamps are divided by.

    Example:
        >>> type(ct_rnn(7, 64, cell="ode-rnn")).__name__
        'ODERNN'
    """
    choice("cell", cell, _CELLS)
    model = CTRNN if cell == "leaky" else ODERNN
    return model(d_input, d_model, unfolds=unfolds, time_scale=time_scale)
