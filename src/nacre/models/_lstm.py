"""The LSTM step that `PhasedLSTM` and `MMRNN` share."""

import torch
from torch import Tensor, nn

from nacre.models._base import unbind_time


class LSTMStep(nn.Module):
    """One step of an LSTM, with the products of all inputs taken before the loop over time.

        i, f, o = sigmoid(x W + h U + b),  g = tanh(x W + h U + b)
        c' = f * c + i * g,  h' = o * tanh(c')

    with weights W, U and b of its own for each gate. The same as `torch.nn.LSTMCell`, but for one bias instead of
    two that are only ever added, and for the order of the gates, which puts the three sigmoids side by side. The
    forget gate's bias starts at 1, the others at 0.
    """

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.input_proj = nn.Linear(d_input, 4 * d_model)
        self.state_weight = nn.Parameter(nn.init.orthogonal_(torch.empty(d_model, 4 * d_model)))
        nn.init.zeros_(self.input_proj.bias)
        nn.init.ones_(self.input_proj.bias[d_model : 2 * d_model])

    def inputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """What inputs [B, T, d_input] add to the gates: T tensors [B, 4 d]."""
        return unbind_time([self.input_proj(x)])[0]

    def forward(self, inputs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Next (h, c), both [B, d], from one of `inputs` and the last (h, c)."""
        d = c.shape[1]
        gates, proposal = torch.addmm(inputs, h, self.state_weight).split((3 * d, d), 1)
        i, f, o = gates.sigmoid().chunk(3, 1)
        c = torch.addcmul(f * c, i, proposal.tanh())
        return o * c.tanh(), c
