"""`LTCSynapses`: sigmoid synapses onto liquid time-constant neurons, and what is heard through them."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nacre.native import library
from nacre.native.ltc import SLOTS, hear

EPSILON = 1e-8  # that of ncps
_CHUNK_NUMBERS = 2**22  # sigmoids that are computed at once without kernels


def positive(raw: Tensor) -> Tensor:
    """A positive number for any raw one, so that no optimiser can make a conductance or capacity 0 or negative."""
    return softplus(raw) + EPSILON


def raw_of(value: Tensor) -> Tensor:
    """Inverse of `positive`."""
    value = value - EPSILON
    return value + torch.log(-torch.expm1(-value))


class LTCSynapses(nn.Module):
    """Synapses from F sources to N neurons, each with its own weight w, slope sigma, centre mu and reversal E.

    A synapse from source value u adds w y E to the current and w y to the conductance of its neuron, where
    y = sigmoid(sigma (u - mu)). Parameters exist for existing synapses only, in the order of their neurons and
    then of their sources. They start as in ncps: w from U(0.001, 1), sigma from U(3, 8), mu from U(0.3, 0.8), E as
    the wiring's polarity.

    Args:
        polarity: [F, N] table of -1, 0 and 1; 0 for no synapse.

    Example:
        >>> synapses = LTCSynapses(torch.tensor([[1, 0], [-1, 1], [0, 1]]).numpy())
        >>> synapses(torch.randn(5, 3)).shape
        torch.Size([5, 2, 2])
    """

    source: Tensor
    used: Tensor
    place: Tensor

    def __init__(self, polarity: np.ndarray) -> None:
        super().__init__()
        target, source = np.nonzero(polarity.T)
        count = np.bincount(target, minlength=polarity.shape[1])
        used = -(-count // SLOTS) * SLOTS
        # Place of each synapse in a table with a line of slots for each neuron.
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
            return hear(x, coefficient, self.source, self.used, self._in_torch)
        return self._in_torch(x, coefficient)

    def _in_torch(self, x: Tensor, coefficient: Tensor) -> Tensor:
        rows = math.ceil(_CHUNK_NUMBERS / self.source.numel())
        weights, opening = self.prepare(coefficient)
        return torch.cat([weights @ opening(chunk.t()) for chunk in x.split(rows)], 2).permute(2, 1, 0)

    def prepare(self, coefficient: Tensor, rows: int = 1) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """What the sums need, made ready for being taken many times.

        Args:
            coefficient: [4, N, K].
            rows: 1, or R below: repeating numbers in advance is faster where R is small.

        Returns:
            Weights [N, 2, K], and a function from sources u [F, R] to y [N, K, R]; their product is the sums.
        """
        if self.complete:
            coefficient = coefficient[..., : self.sources]
        sigma, offset = coefficient[2:].unsqueeze(-1).expand(-1, -1, -1, rows).contiguous()
        index, shape = self.source.flatten().long().unsqueeze(-1), self.source.shape

        def opening(u: Tensor) -> Tensor:
            # Where all hear all, every line of the table is u.
            heard = u if self.complete else u.gather(0, index.expand(-1, u.shape[1])).view(*shape, -1)
            return torch.addcmul(offset, heard, sigma).sigmoid()

        return coefficient[:2].transpose(0, 1).contiguous(), opening

    def extra_repr(self) -> str:
        """Sizes."""
        return f"synapses={len(self.mu)}, neurons={len(self.used)}"
