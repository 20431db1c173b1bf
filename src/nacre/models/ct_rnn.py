"""CT-RNN: the leaky recurrent network in continuous time, or the ODE-RNN of Rubanova et al. (2019)."""

import torch
from torch import Tensor, nn

from nacre._util.checks import choice, whole
from nacre.io import saveable
from nacre.models._base import Steps, unbind_time
from nacre.models._flow import drifting_steps, flow, relaxing_steps, tanh_field
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Whole

_CELLS = ("leaky", "ode-rnn")


@saveable("CTRNN")
class CTRNN(RecurrentModel):
    """Leaky recurrent network whose state flows while each input is held.

        dh/dt = g * tanh(x W + h U + b) - h

    State h starts at 0. With input i held, it flows for the time since step i - 1 (1 unit at the first step), by
    `unfolds` steps of Euler's method; what it reaches is output i. Gain g has one number per unit and starts at 1.

    The NAC paper names CT-RNN and cites Rubanova et al. (2019), who describe the ODE-RNN, here `ODERNN`. Its
    public code runs this classical network; the solver and its 5 steps are taken from there.

    No unit leaves [-|g|, |g|], because no Euler step is longer than 1 unit (longer ones overshoot, those beyond 2
    diverge): a gap of more than `unfolds` units counts as that long. Choose `time_scale` near the usual time
    between steps.

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

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        # With h = g u, du/dt = tanh(x W + u (g U) + b) - u: one product less in every solver step.
        weight = self.gain.unsqueeze(1) * self.state_weight
        inputs, dt = unbind_time([self.input_proj(steps.x), relaxing_steps(steps.elapsed(1.0), self.unfolds)])
        (u,) = state or self.start(steps.x)  # [B, d]
        states: list[Tensor] = []
        for held, length in zip(inputs, dt, strict=True):
            for _ in range(self.unfolds):
                u = torch.lerp(u, torch.addmm(held, u, weight).tanh(), length)
            states.append(u)
        after = torch.stack(states, 1)
        return after * self.gain, (after,)


@saveable("ODERNN")
class ODERNN(RecurrentModel):
    """Recurrent network whose state follows a learned field between inputs.

        h' = state after dh/dt = V tanh(U h + a) + b, from the last h, for the time since the last step
        r = sigmoid(x W_r + h' R_r + b_r),  z = sigmoid(x W_z + h' R_z + b_z)
        n = tanh(x W_n + b_n + r * (h' R_n + b'))
        h = (1 - z) * n + z * h'

    State h starts at 0 and first jumps, then flows; output i is h after the jump with input i, the update of
    `torch.nn.GRUCell`. As in the paper, the field sees neither the input nor the time.

    Ours: one hidden layer of width d_model in the field; Euler's method with `unfolds` steps of at most 5 units,
    so a gap of more than 5 `unfolds` units counts as that long; one bias for gates r and z instead of two that are
    only ever added; and time that runs forward (the encoder in the paper's code reads backward, towards the
    initial state of its decoder).

    Example:
        >>> ODERNN(7, 64)(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(self, d_input: int, d_model: int, *, unfolds: int = 5, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.field_in = nn.Linear(d_model, d_model)
        self.field_out = nn.Linear(d_model, d_model)
        self.input_proj = nn.Linear(d_input, 3 * d_model)  # r, z, n
        self.gate_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, 2 * d_model)))  # r, z
        self.candidate_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, d_model)))
        self.candidate_bias = nn.Parameter(torch.zeros(d_model))

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        d = self.d_model
        gate_weight, candidate_weight, bias = self.gate_weight, self.candidate_weight, self.candidate_bias
        field = tanh_field(self.field_in, self.field_out)
        inputs = self.input_proj(steps.x).split((2 * d, d), -1)
        gates, candidates, dt = unbind_time([*inputs, drifting_steps(steps.elapsed(0.0), self.unfolds)])
        (h,) = state or self.start(steps.x)  # [B, d]
        states: list[Tensor] = []
        for gate, candidate, length in zip(gates, candidates, dt, strict=True):
            h = flow(field, h, length, self.unfolds)
            r, z = torch.addmm(gate, h, gate_weight).sigmoid().chunk(2, 1)
            n = torch.addcmul(candidate, r, torch.addmm(bias, h, candidate_weight)).tanh()
            h = torch.lerp(n, h, z)
            states.append(h)
        after = torch.stack(states, 1)
        return after, (after,)


@register(
    ModelInfo(
        "ct-rnn",
        kind="CT-RNN",
        in_paper=True,
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
    """What the literature calls a CT-RNN.

    The cell is "leaky" for `CTRNN`, the classical network of that name, or "ode-rnn" for `ODERNN`, which is what
    Rubanova et al. describe.

    Example:
        >>> type(ct_rnn(7, 64, cell="ode-rnn")).__name__
        'ODERNN'
    """
    choice("cell", cell, _CELLS)
    model = CTRNN if cell == "leaky" else ODERNN
    return model(d_input, d_model, unfolds=unfolds, time_scale=time_scale)
