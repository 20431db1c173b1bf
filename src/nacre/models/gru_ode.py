"""GRU-ODE (De Brouwer et al., 2019): the gated recurrent unit as a differential equation."""

import torch
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.io import saveable
from nacre.models._base import Steps, unbind_time
from nacre.models._flow import relaxing_steps
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole


@register(
    ModelInfo(
        "gru-ode",
        kind="CT-RNN",
        in_paper=True,
        paper="De Brouwer et al., 2019",
        summary="gated recurrent unit as a differential equation",
        uses_time=True,
        causal=True,
        cost="T S d²",
        checked="torchdiffeq",
    ),
    space={"unfolds": Whole(2, 8)},
)
@saveable("GRUODE")
class GRUODE(RecurrentModel):
    """Gated recurrent unit in continuous time, whose state flows while each input is held.

        r = sigmoid(x W_r + h U_r + b_r),  z = sigmoid(x W_z + h U_z + b_z)
        c = tanh(x W_c + (r * h) U_c + b_c)
        dh/dt = (1 - z) * (c - h)

    State h starts at 0. With input i held, it flows for the time since step i - 1 (1 unit at the first step), by
    `unfolds` steps of Euler's method; what it reaches is output i. Bias b_r starts at 1, the others at 0.

    The field is that of the paper, with all its gates and its input. The paper's whole model, GRU-ODE-Bayes, drops
    the input between observations and corrects the state at each of them, with a loss of its own. Holding the
    input instead is a reconstruction, as in the public code of the NAC paper.

    No unit leaves [-1, 1], because no Euler step is longer than 1 unit, where the method could overshoot and then
    diverge: a gap of more than `unfolds` units counts as that long. Choose `time_scale` near the usual time
    between steps.

    Example:
        >>> GRUODE(7, 64)(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(self, d_input: int, d_model: int, *, unfolds: int = 4, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.input_proj = nn.Linear(d_input, 3 * d_model)  # r, z, c
        self.gate_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, 2 * d_model)))  # r, z
        self.candidate_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, d_model)))
        nn.init.zeros_(self.input_proj.bias)
        nn.init.ones_(self.input_proj.bias[:d_model])

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        d = self.d_model
        gate_weight, candidate_weight = self.gate_weight, self.candidate_weight
        inputs = self.input_proj(steps.x).split((2 * d, d), -1)
        gates, candidates, dt = unbind_time([*inputs, relaxing_steps(steps.elapsed(1.0), self.unfolds)])
        (h,) = state or self.start(steps.x)  # [B, d]
        states: list[Tensor] = []
        for gate, candidate, length in zip(gates, candidates, dt, strict=True):
            for _ in range(self.unfolds):
                r, z = torch.addmm(gate, h, gate_weight).sigmoid().chunk(2, 1)
                c = torch.addmm(candidate, r * h, candidate_weight).tanh()
                # Weight dt (1 - z), in one operation.
                h = torch.lerp(h, c, torch.addcmul(length, length, z, value=-1))
            states.append(h)
        after = torch.stack(states, 1)
        return after, (after,)
