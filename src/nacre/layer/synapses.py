"""The parameters of a circuit: one for each synapse, neuron and map that can act, and no others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.layer.fingerprint import Fingerprinted
from nacre.native.activations import ACTIVATIONS
from nacre.wiring.wiring import Wiring


class Factory(TypedDict, total=False):
    """Device and type of new parameters, as `torch.nn.Linear` takes them."""

    device: torch.device | str | None
    dtype: torch.dtype | None


class MaskedParameter(nn.Module):
    """A parameter that exists only where a mask of any shape is non-zero, one copy for each head.

    Entries outside the mask are not stored, so that every stored number acts and counts.
    """

    index: Tensor

    def __init__(self, mask: np.ndarray, heads: int = 1, **factory: Unpack[Factory]) -> None:
        super().__init__()
        self.shape = mask.shape
        index = np.flatnonzero(mask)
        self.weight = nn.Parameter(torch.empty(heads, len(index), **factory))
        self.register_buffer("index", torch.as_tensor(index, device=self.weight.device), persistent=False)

    def dense(self) -> Tensor:
        """The parameter in the mask's shape with zeros elsewhere: [heads, *shape]."""
        heads = self.weight.shape[0]
        flat = self.weight.new_zeros(heads, math.prod(self.shape))
        return flat.index_copy(1, self.index, self.weight).view(heads, *self.shape)

    def fill(self, table: Tensor) -> None:
        """Copy a table of the mask's shape into every head; entries outside the mask are ignored."""
        with torch.no_grad():
            self.weight.copy_(table.reshape(-1)[self.index].expand_as(self.weight))

    def extra_repr(self) -> str:
        """Shape, and number of existing entries."""
        return f"shape={self.shape}, heads={self.weight.shape[0]}, existing={self.weight.shape[1]}"


class CircuitWeights(Fingerprinted):
    """Parameters of Algorithm 1 for one or more heads."""

    def __init__(
        self,
        input_polarity: np.ndarray,  # [I, N] signs of the input synapses
        polarity: np.ndarray,  # [N, N] signs of the recurrent synapses
        neurons: np.ndarray,  # [N] bool, neurons that act
        outputs: Sequence[int],  # ids of the output neurons
        *,
        heads: int = 1,  # independent copies
        bias: bool = True,  # whether neurons, inputs and outputs have additive constants
        **factory: Unpack[Factory],
    ) -> None:
        super().__init__(input_polarity, polarity, neurons, np.isin(np.arange(len(polarity)), outputs))
        self._input_polarity, self._polarity = input_polarity, polarity
        inputs = np.asarray(input_polarity.any(axis=1))
        self.input_weight = MaskedParameter(input_polarity, heads, **factory)
        self.recurrent_weight = MaskedParameter(polarity, heads, **factory) if polarity.any() else None
        self.input_scale = MaskedParameter(inputs, heads, **factory)
        self.output_scale = nn.Parameter(torch.empty(heads, len(outputs), **factory))
        self.input_shift = MaskedParameter(inputs, heads, **factory) if bias else None
        self.bias = MaskedParameter(neurons, heads, **factory) if bias else None
        self.output_shift = nn.Parameter(torch.empty_like(self.output_scale)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator: synapses random, scales 1, shifts 0."""
        _init_synapses(self.input_weight, self._input_polarity)
        if self.recurrent_weight is not None:
            _init_synapses(self.recurrent_weight, self._polarity)
        nn.init.ones_(self.input_scale.weight)
        nn.init.ones_(self.output_scale)
        if self.input_shift is not None and self.bias is not None and self.output_shift is not None:
            for shift in (self.input_shift.weight, self.bias.weight, self.output_shift):
                nn.init.zeros_(shift)

    def drive(self) -> tuple[Tensor, Tensor]:
        """Weight [H, I, N] and constant [H, N] with which inputs drive the neurons.

        (u * w_in + b_in) W + b = u (diag(w_in) W) + (b_in W + b).
        """
        weight = self.input_weight.dense()
        scaled = self.input_scale.dense().unsqueeze(-1) * weight
        if self.input_shift is None or self.bias is None:
            return scaled, weight.new_zeros(weight.shape[0], weight.shape[2])
        return scaled, (self.input_shift.dense().unsqueeze(1) @ weight).squeeze(1) + self.bias.dense()

    def recurrent(self) -> Tensor:
        """Weights [H, N, N] between neurons."""
        if self.recurrent_weight is None:
            return self.output_scale.new_zeros(self.output_scale.shape[0], *self._polarity.shape)
        return self.recurrent_weight.dense()

    def read(self, x: Tensor) -> Tensor:
        """Output map of the output neurons' states [H, M, outputs]."""
        y = x * self.output_scale.unsqueeze(1)
        return y if self.output_shift is None else y + self.output_shift.unsqueeze(1)

    def copy_head(self, source: CircuitWeights, head: int) -> None:
        """Copy one head of another circuit on the same neurons; what it lacks becomes 0."""
        with torch.no_grad():
            for name, mine in self.named_children():
                its = getattr(source, name)
                if isinstance(mine, MaskedParameter):
                    mine.fill(torch.zeros(mine.shape) if its is None else its.dense()[head])
            self.output_scale.copy_(source.output_scale[head])
            if self.output_shift is not None and source.output_shift is not None:
                self.output_shift.copy_(source.output_shift[head])


class WiredModule(nn.Module):
    """Neurons of a wiring, with their weights and one nonlinearity."""

    weights: CircuitWeights

    def __init__(self, wiring: Wiring, activation: str) -> None:
        super().__init__()
        choice("activation", activation, ACTIVATIONS)
        self.wiring, self.activation = wiring, activation

    def act(self, x: Tensor) -> Tensor:
        """The nonlinearity."""
        return ACTIVATIONS[self.activation].function(x)

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        self.weights.reset_parameters()


def pick(neurons: Sequence[int]) -> slice | list[int]:
    """An index of these neurons: a slice, which copies nothing, where they are adjacent."""
    ids = list(neurons)
    return slice(ids[0], ids[-1] + 1) if ids and ids == list(range(ids[0], ids[-1] + 1)) else ids


def _init_synapses(parameter: MaskedParameter, polarity: np.ndarray) -> None:
    """Draw synapse weights: sign from the wiring, size so that a neuron's input has unit variance."""
    fan_in = np.count_nonzero(polarity, axis=0).clip(min=1)
    scale = (polarity / np.sqrt(fan_in)).reshape(-1)[np.flatnonzero(polarity)]
    with torch.no_grad():
        parameter.weight.normal_().abs_().mul_(torch.as_tensor(scale).to(parameter.weight))
