"""`LTCNeurons`: a circuit of liquid time-constant neurons that reads sequences."""

import torch
from torch import Tensor, nn

from nacre.models._ltc_synapses import EPSILON, LTCSynapses, positive, raw_of
from nacre.native import library
from nacre.native.ltc import unfold
from nacre.wiring.wiring import Wiring


class LTCNeurons(nn.Module):
    """The neurons' membrane equation, solved by the fused semi-implicit step of ncps.

    capacity dv/dt = leak (rest - v) + current - conductance v, where current and conductance are sums over the
    synapses from neurons and from inputs. Each step of a sequence takes `unfolds` times

        v <- v + delta (I - G v) / (capacity + delta G),   delta = elapsed / unfolds,

    with I = leak rest + current and G = leak + conductance + 1e-8. That is ncps' (capacity / delta v + I) /
    (capacity / delta + G) without its division by delta: no time, no change.

    Args:
        wiring: Who is connected to whom.
        unfolds: Solver steps for each step of the sequence.

    Example:
        >>> wiring = nacre.Wiring.from_ncps(ncps.wirings.AutoNCP(20, 2), inputs=8)
        >>> LTCNeurons(wiring, unfolds=6)(torch.randn(3, 5, 8), torch.ones(3, 5, 1)).shape
        torch.Size([3, 5, 20])
    """

    def __init__(self, wiring: Wiring, unfolds: int) -> None:
        super().__init__()
        self.unfolds = unfolds
        self.input_scale = nn.Parameter(torch.ones(wiring.num_inputs))
        self.input_shift = nn.Parameter(torch.zeros(wiring.num_inputs))
        self.sensory = LTCSynapses(wiring.input_adjacency)
        self.recurrent = LTCSynapses(wiring.adjacency)
        size = wiring.num_neurons
        self.raw_leak = nn.Parameter(raw_of(torch.empty(size).uniform_(0.001, 1.0)))
        self.rest = nn.Parameter(torch.empty(size).uniform_(-0.2, 0.2))
        self.raw_capacity = nn.Parameter(raw_of(torch.empty(size).uniform_(0.4, 0.6)))

    def forward(self, x: Tensor, elapsed: Tensor) -> Tensor:
        """States [B, T, N] after each step, from inputs x [B, T, F] held for elapsed [B, T, 1]."""
        heard = self.sensory((x * self.input_scale + self.input_shift).flatten(0, 1))  # [B T, 2, N]
        leak = positive(self.raw_leak)
        drive = (heard + torch.stack([leak * self.rest, leak + EPSILON])).unflatten(0, x.shape[:2])
        delta = elapsed.squeeze(-1).to(drive.dtype) / self.unfolds  # [B, T]
        capacity, coefficient = positive(self.raw_capacity), self.recurrent.coefficient()
        if library.runs(drive, delta, capacity, coefficient):
            table = self.recurrent
            return unfold(
                drive, delta, capacity, coefficient, table.source, table.used, self.unfolds, self._in_torch
            )
        return self._in_torch(drive, delta, capacity, coefficient)

    def _in_torch(self, drive: Tensor, delta: Tensor, capacity: Tensor, coefficient: Tensor) -> Tensor:
        weights, opening = self.recurrent.prepare(coefficient, rows=len(drive))
        capacity = capacity.unsqueeze(-1)  # [N, 1]
        v = drive.new_zeros(drive.shape[3], drive.shape[0])  # [N, B]
        states = []
        # Neurons before rows: sums over synapses are then a product of matrices for each neuron.
        outside = drive.permute(1, 3, 2, 0).contiguous().unbind(0)  # T times [N, 2, B]
        for around, passed in zip(outside, delta.t().unsqueeze(1).unbind(0), strict=True):  # passed: [1, B]
            for _ in range(self.unfolds):
                current, conductance = torch.baddbmm(around, weights, opening(v)).unbind(1)
                flow = passed * torch.addcmul(current, conductance, v, value=-1)
                v = torch.addcdiv(v, flow, torch.addcmul(capacity, passed, conductance))
            states.append(v)
        return torch.stack(states).permute(2, 0, 1)
