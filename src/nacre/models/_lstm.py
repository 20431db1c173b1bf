"""What `PhasedLSTM` and `MMRNN` share: the LSTM step, and the state that it changes."""

from typing import Any

import torch
from torch import Tensor, nn

from nacre.models._base import unbind_time
from nacre.models._recurrent import RecurrentModel, State


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


class LSTMModel(RecurrentModel):
    """A model with the state (h, c) of an LSTM, which starts at 0; an `LSTMStep` is part of each of its steps."""

    def __init__(self, d_input: int, d_model: int, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.cell = LSTMStep(d_input, d_model)
        self.register_load_state_dict_pre_hook(_rename)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),) * 2

    @staticmethod
    def rename_old_weights(named: dict[str, Any], prefix: str) -> None:
        """Names of state dicts made when `cell` was called `step`, which is a method now, to those of today."""
        old = f"{prefix}step."
        for name in [name for name in named if name.startswith(old)]:
            named[f"{prefix}cell.{name.removeprefix(old)}"] = named.pop(name)


def _rename(model: LSTMModel, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:  # noqa: ANN401
    model.rename_old_weights(state_dict, prefix)
