"""`SensoryGate`: the projections of queries, keys and values."""

import torch
from torch import Tensor, nn

from nacre.layer.circuit import NCPCell
from nacre.layer.synapses import CircuitWeights, WiredModule, pick
from nacre.wiring.wiring import Wiring


class SensoryGate(WiredModule):
    """The sensory neurons of a wiring alone: one settle step of the circuit with all other groups disabled.

    The sensory neurons have no synapses among themselves and start from rest, so the gate has no recurrence and
    no loop over time: y = act(u W + b) * w_out + b_out with the wiring's mask on W.

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
        super().__init__(wiring, activation)
        self.outputs = wiring.group("sensory")
        self._pick = pick(self.outputs)
        wiring.steps_to(self.outputs)
        live = wiring.liveness(self.outputs, steps=1)
        feeds, synapses = wiring.input_adjacency * live.input_synapses, wiring.adjacency * live.synapses
        self.weights = CircuitWeights(
            feeds, synapses, live.neurons, self.outputs, bias=bias, device=device, dtype=dtype
        )

    def forward(self, u: Tensor) -> Tensor:
        """[..., I] -> [..., number of sensory neurons]."""
        weight, bias = (x[0, ..., self._pick] for x in self.weights.drive())
        x = self.act(nn.functional.linear(u, weight.T, bias))
        return self.weights.read(x.unsqueeze(0)).squeeze(0)

    def laid_out(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Dense weight [I, N], bias [N], and scale and shift [N] of the output map."""
        weight, bias = (x[0, ..., self._pick] for x in self.weights.drive())
        scale, shift = self.weights.output_scale[0], self.weights.output_shift
        return weight, bias, scale, torch.zeros_like(scale) if shift is None else shift[0]

    def cell(self) -> NCPCell:
        """The same gate as a general cell: `gate(u)` equals `gate.cell().settle(u, 1)[0]`."""
        cell = NCPCell(
            self.wiring,
            input_group="sensory",
            output_group="sensory",
            disabled=("inter", "command", "motor"),
            activation=self.activation,
            bias=self.weights.bias is not None,
        ).to(self.weights.output_scale)
        cell.weights.copy_head(self.weights, 0)
        return cell
