"""ODE-RNN (Rubanova et al., 2019): a state that flows between observations and jumps at them."""

import torch
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.io import saveable
from nacre.models._base import SequenceModel, unbind_time
from nacre.models._flow import flow, tanh_field
from nacre.models._steps import Steps


@saveable("ODERNN")
class ODERNN(SequenceModel):
    """Recurrent network whose state follows a learned field between inputs.

        h' = state after dh/dt = V tanh(U h + a) + b, from the last h, for the time since the last step
        r = sigmoid(x W_r + h' R_r + b_r),  z = sigmoid(x W_z + h' R_z + b_z)
        n = tanh(x W_n + b_n + r * (h' R_n + b'))
        h = (1 - z) * n + z * h'

    State h starts at 0 and first jumps, then flows; output i is h after the jump with input i, the update of
    `torch.nn.GRUCell`. As in the paper, the field sees neither the input nor the clock.

    Choices of this layer: one hidden layer of width d_model in the field; Euler's method with `unfolds` steps
    however long the gap; one bias for gates r and z instead of two that are only ever added; and time that runs
    forward (the encoder in the paper's code reads backward, towards the initial state of its decoder).

    Args:
        d_input: Width of the input.
        d_model: Width of the state, which is the output.
        unfolds: Solver steps between two inputs.
        time_scale: What time stamps are divided by.

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

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        d = self.d_model
        gate_weight, candidate_weight, bias = self.gate_weight, self.candidate_weight, self.candidate_bias
        field = tanh_field(self.field_in, self.field_out)
        inputs = self.input_proj(steps.x).split((2 * d, d), -1)
        gates, candidates, dt = unbind_time([*inputs, steps.elapsed(0.0) / self.unfolds])
        h = torch.zeros_like(candidates[0])  # [B, d]
        states: list[Tensor] = []
        for gate, candidate, length in zip(gates, candidates, dt, strict=True):
            h = flow(field, h, length, self.unfolds)
            r, z = torch.addmm(gate, h, gate_weight).sigmoid().chunk(2, 1)
            n = torch.addcmul(candidate, r, torch.addmm(bias, h, candidate_weight)).tanh()
            h = torch.lerp(n, h, z)
            states.append(h)
        return torch.stack(states, 1)
