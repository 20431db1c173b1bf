"""Liquid time-constant neurons that read sequences, and the sigmoid synapses onto them."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nacre.layer.fingerprint import Fingerprinted
from nacre.native import library
from nacre.native.ltc import SLOTS, synapse_sums, unfold
from nacre.wiring.wiring import Wiring

EPSILON = 1e-8  # that of ncps
_CHUNK_NUMBERS = 2**22  # sigmoids computed at once without kernels


def positive(raw: Tensor) -> Tensor:
    """A positive number for any raw one, so that no optimizer can make a conductance or capacity 0 or negative."""
    return softplus(raw) + EPSILON


def raw_of(value: Tensor) -> Tensor:
    """Inverse of `positive`."""
    value = value - EPSILON
    return value + torch.log(-torch.expm1(-value))


class LTCSynapses(Fingerprinted):
    """Synapses from F sources to N neurons, each with its own weight w, slope sigma, centre mu and reversal E.

    A synapse from source value u adds w y E to the current and w y to the conductance of its neuron, where
    y = sigmoid(sigma (u - mu)). Parameters exist for existing synapses only, ordered by neuron and then by source.
    They start as in ncps: w from U(0.001, 1), sigma from U(3, 8), mu from U(0.3, 0.8), E as the wiring's polarity
    [F, N], a table of -1, 0 (no synapse) and 1.

    Example:
        >>> synapses = LTCSynapses(torch.tensor([[1, 0], [-1, 1], [0, 1]]).numpy())
        >>> synapses(torch.randn(5, 3)).shape
        torch.Size([5, 2, 2])
    """

    source: Tensor
    used: Tensor
    place: Tensor

    def __init__(self, polarity: np.ndarray) -> None:
        super().__init__(polarity)
        target, source = np.nonzero(polarity.T)
        count = np.bincount(target, minlength=polarity.shape[1])
        used = -(-count // SLOTS) * SLOTS
        # Place of each synapse in a table with a row of slots for each neuron.
        rank = np.arange(len(target)) - np.repeat(count.cumsum() - count, count)
        table = np.zeros((polarity.shape[1], max(used.max(), SLOTS)), np.int32)
        table[target, rank] = source
        self.register_buffer("source", torch.from_numpy(table), persistent=False)
        self.register_buffer("used", torch.from_numpy(used.astype(np.int32)), persistent=False)
        self.register_buffer("place", torch.from_numpy(target * table.shape[1] + rank), persistent=False)
        size, self.sources = len(target), len(polarity)
        self.complete = size == polarity.size
        self.raw_weight = nn.Parameter(raw_of(torch.empty(size).uniform_(0.001, 1.0)))
        self.sigma = nn.Parameter(torch.empty(size).uniform_(3.0, 8.0))
        self.mu = nn.Parameter(torch.empty(size).uniform_(0.3, 0.8))
        self.reversal = nn.Parameter(torch.as_tensor(polarity[source, target], dtype=torch.get_default_dtype()))

    def coefficient(self) -> Tensor:
        """Table [4, N, K] of w E, w, sigma and -sigma mu; zeros in slots without a synapse."""
        weight = positive(self.raw_weight)
        flat = torch.stack([weight * self.reversal, weight, self.sigma, -self.sigma * self.mu])
        table = flat.new_zeros(4, self.source.numel()).index_copy(1, self.place, flat)
        return table.view(4, *self.source.shape)

    def forward(self, x: Tensor) -> Tensor:
        """Currents and conductances [R, 2, N] that the sources x [R, F] cause."""
        coefficient = self.coefficient()
        if library.runs(x, coefficient):
            return synapse_sums(x, coefficient, self.source, self.used, self._in_torch)
        return self._in_torch(x, coefficient)

    def _in_torch(self, x: Tensor, coefficient: Tensor) -> Tensor:
        weights, opening = self.prepare(coefficient)
        if torch.compiler.is_exporting():  # chunks would tie a program to one number of rows
            return (weights @ opening(x.t())).permute(2, 1, 0)
        rows = math.ceil(_CHUNK_NUMBERS / self.source.numel())
        return torch.cat([weights @ opening(chunk.t()) for chunk in x.split(rows)], 2).permute(2, 1, 0)

    def prepare(self, coefficient: Tensor, rows: int = 1) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Weights [N, 2, K], and a function from sources u [F, R] to y [N, K, R]; their product is the sums.

        From coefficients [4, N, K], and with rows 1 or R: repeating numbers in advance is faster where R is small.
        """
        if self.complete:
            coefficient = coefficient[..., : self.sources]
        sigma, offset = coefficient[2:].unsqueeze(-1).expand(-1, -1, -1, rows).contiguous()
        index, shape = self.source.flatten().long().unsqueeze(-1), self.source.shape

        def opening(u: Tensor) -> Tensor:
            # Where all are connected to all, every row of the table is u.
            heard = u if self.complete else u.gather(0, index.expand(-1, u.shape[1])).view(*shape, -1)
            return torch.addcmul(offset, heard, sigma).sigmoid()

        return coefficient[:2].transpose(0, 1).contiguous(), opening

    def extra_repr(self) -> str:
        """Sizes."""
        return f"synapses={len(self.mu)}, neurons={len(self.used)}"


class LTCNeurons(nn.Module):
    """The neurons' membrane equation, solved by the fused semi-implicit step of ncps.

    capacity dv/dt = leak (rest - v) + current - conductance v, where current and conductance are sums over the
    synapses from neurons and from inputs. Each step of a sequence takes `unfolds` times

        v <- v + delta (I - G v) / (capacity + delta G),   delta = elapsed / unfolds,

    with I = leak rest + current and G = leak + conductance + 1e-8. That is ncps' (capacity / delta v + I) /
    (capacity / delta + G) without its division by delta: no time, no change.

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

    def forward(self, x: Tensor, elapsed: Tensor, state: Tensor | None = None) -> Tensor:
        """States [B, T, N] after each step, from inputs x [B, T, F] held for elapsed [B, T, 1].

        From a state [B, N] before the first step, or from zeros, which a kernel can do on CPU.
        """
        heard = self.sensory((x * self.input_scale + self.input_shift).flatten(0, 1))  # [B T, 2, N]
        leak = positive(self.raw_leak)
        drive = (heard + torch.stack([leak * self.rest, leak + EPSILON])).unflatten(0, x.shape[:2])
        delta = elapsed.squeeze(-1).to(drive.dtype) / self.unfolds  # [B, T]
        capacity, coefficient = positive(self.raw_capacity), self.recurrent.coefficient()
        if state is None and library.runs(drive, delta, capacity, coefficient):
            source, used = self.recurrent.source, self.recurrent.used
            return unfold(drive, delta, capacity, coefficient, source, used, self.unfolds, self._in_torch)
        return self._in_torch(drive, delta, capacity, coefficient, state)

    def _in_torch(
        self, drive: Tensor, delta: Tensor, capacity: Tensor, coefficient: Tensor, state: Tensor | None = None
    ) -> Tensor:
        weights, opening = self.recurrent.prepare(coefficient, rows=drive.shape[0])
        capacity = capacity.unsqueeze(-1)  # [N, 1]
        v = drive.new_zeros(drive.shape[3], drive.shape[0]) if state is None else state.T  # [N, B]
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
