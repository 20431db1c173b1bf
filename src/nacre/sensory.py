"""`SensoryGate`: the projections of queries, keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from nacre._check import choice
from nacre.circuit import ACTIVATIONS, MaskedParameter, NCPCell, init_synapses

if TYPE_CHECKING:
    from nacre.wiring import Wiring


class SensoryGate(nn.Module):
    """Sensory neurons alone: one settle step of the circuit with all other groups disabled.

    The sensory neurons have no synapses among themselves and start from rest, so the gate has no recurrence and
    no loop over time: y = act(u W + b) * w_out + b_out with the wiring's mask on W.

    Args:
        wiring: Its "sensory" group gives the output.
        activation: Name of the neurons' nonlinearity.
        bias: Whether neurons and maps have additive constants.
        device: Where the parameters live.
        dtype: Their type.

    Example:
        >>> gate = SensoryGate(sensory_wiring("ncp", inputs=7, d_model=64, sparsity=0.5, seed=1))
        >>> gate(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        wiring: Wiring,
        *,
        activation: str = "tanh",
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        choice("activation", activation, ACTIVATIONS)
        self.wiring = wiring
        self.activation = activation
        outputs = wiring.group("sensory")
        wiring.steps_to(outputs)
        self._polarity = wiring.input_adjacency[:, outputs]
        inputs = np.asarray(self._polarity.any(axis=1))
        self.input_weight = MaskedParameter(self._polarity, 1, device, dtype)
        self.input_scale = MaskedParameter(inputs, 1, device, dtype)
        self.input_shift = MaskedParameter(inputs, 1, device, dtype) if bias else None
        self.bias = nn.Parameter(torch.empty(len(outputs), device=device, dtype=dtype)) if bias else None
        self.output_scale = nn.Parameter(torch.empty(len(outputs), device=device, dtype=dtype))
        self.output_shift = nn.Parameter(torch.empty_like(self.output_scale)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        init_synapses(self.input_weight, self._polarity)
        nn.init.ones_(self.input_scale.weight)
        nn.init.ones_(self.output_scale)
        if self.input_shift is not None:
            nn.init.zeros_(self.input_shift.weight)
        for shift in (self.bias, self.output_shift):
            if shift is not None:
                nn.init.zeros_(shift)

    def forward(self, u: Tensor) -> Tensor:
        """[..., I] -> [..., number of sensory neurons]."""
        weight = self.input_weight.dense()[0]
        bias = self.bias
        if bias is not None and self.input_shift is not None:
            bias = bias + self.input_shift.dense()[0] @ weight
        weight = self.input_scale.dense()[0, :, None] * weight
        x = ACTIVATIONS[self.activation](nn.functional.linear(u, weight.T, bias))
        y = x * self.output_scale
        return y if self.output_shift is None else y + self.output_shift

    def cell(self) -> NCPCell:
        """The same gate as a general cell: `gate(u)` equals `gate.cell().settle(u, 1)[0]`."""
        cell = NCPCell(
            self.wiring,
            input_group="sensory",
            output_group="sensory",
            disabled=("inter", "command", "motor"),
            activation=self.activation,
            bias=self.bias is not None,
        ).to(self.output_scale)
        outputs = list(self.wiring.group("sensory"))
        cell.input_scale.fill(self.input_scale.dense()[0])
        cell.input_weight.fill(_spread(self.input_weight.dense()[0], outputs, self.wiring.num_neurons))
        with torch.no_grad():
            cell.output_scale.copy_(self.output_scale)
            if cell.bias is not None and cell.input_shift is not None and cell.output_shift is not None:
                assert self.bias is not None
                assert self.input_shift is not None
                assert self.output_shift is not None
                cell.bias.fill(_spread(self.bias, outputs, self.wiring.num_neurons))
                cell.input_shift.fill(self.input_shift.dense()[0])
                cell.output_shift.copy_(self.output_shift)
        return cell


def _spread(values: Tensor, columns: list[int], size: int) -> Tensor:
    """Place the last dimension at `columns` of a wider tensor of zeros."""
    return values.new_zeros(*values.shape[:-1], size).index_copy(-1, torch.as_tensor(columns), values)
