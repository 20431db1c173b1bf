"""`SensoryGate`: the projections of queries, keys and values."""

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.layer.circuit import NCPCell
from nacre.layer.synapses import CircuitWeights, pick
from nacre.native.activations import ACTIVATIONS
from nacre.wiring.wiring import Wiring


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
        self.outputs = wiring.group("sensory")
        self._pick = pick(self.outputs)
        wiring.steps_to(self.outputs)
        live = wiring.liveness(self.outputs, steps=1)
        self.weights = CircuitWeights(
            wiring.input_adjacency * live.input_synapses,
            wiring.adjacency * live.synapses,
            live.neurons,
            len(self.outputs),
            bias=bias,
            device=device,
            dtype=dtype,
        )

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        self.weights.reset_parameters()

    def forward(self, u: Tensor) -> Tensor:
        """[..., I] -> [..., number of sensory neurons]."""
        weight, bias = (x[0, ..., self._pick] for x in self.weights.drive())
        x = ACTIVATIONS[self.activation](nn.functional.linear(u, weight.T, bias))
        return self.weights.read(x.unsqueeze(0)).squeeze(0)

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
