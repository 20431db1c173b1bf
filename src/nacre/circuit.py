"""`NCPCell`: Algorithm 1 of the paper in its general, recurrent form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from nacre._check import choice, require_tensor
from nacre.wiring import GROUPS, Wiring

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "softsign": nn.functional.softsign,
    "identity": lambda x: x,
}


class MaskedParameter(nn.Module):
    """A parameter that exists only where a mask is non-zero, one copy for each head.

    Entries outside the mask are not stored, so that every stored number acts and counts.

    Args:
        mask: Table of any shape; non-zero entries become parameters.
        heads: Number of independent copies.
        device: Where the parameter lives.
        dtype: Its type.
    """

    index: Tensor

    def __init__(
        self,
        mask: np.ndarray,
        heads: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.shape = mask.shape
        index = np.flatnonzero(mask)
        self.weight = nn.Parameter(torch.empty(heads, len(index), device=device, dtype=dtype))
        self.register_buffer("index", torch.as_tensor(index, device=device), persistent=False)

    def dense(self) -> Tensor:
        """The parameter in the mask's shape with zeros elsewhere: [heads, *shape]."""
        heads = self.weight.shape[0]
        flat = self.weight.new_zeros(heads, math.prod(self.shape))
        return flat.index_copy(1, self.index, self.weight).view(heads, *self.shape)

    def fill(self, table: Tensor) -> None:
        """Take the values of every head from a table of the mask's shape; entries outside the mask are ignored."""
        with torch.no_grad():
            self.weight.copy_(table.reshape(-1)[self.index].expand_as(self.weight))

    def extra_repr(self) -> str:
        """Shape and share of existing entries."""
        return f"shape={self.shape}, heads={self.weight.shape[0]}, existing={self.weight.shape[1]}"


def init_synapses(parameter: MaskedParameter, polarity: np.ndarray) -> None:
    """Draw synapse weights: sign from the wiring, size so that a neuron's input has unit variance."""
    fan_in = np.count_nonzero(polarity, axis=0).clip(min=1)
    scale = (polarity / np.sqrt(fan_in)).reshape(-1)[np.flatnonzero(polarity)]
    with torch.no_grad():
        parameter.weight.normal_().abs_().mul_(torch.as_tensor(scale).to(parameter.weight))


class NCPCell(nn.Module):
    """Neurons of a wiring, updated together.

    One step is x' = mask * act(x (W_rec * M_rec) + (u * w_in + b_in) (W_in * M_in) + b), read out as
    y = x'[outputs] * w_out + b_out. Called step after step with its own state it is a recurrent cell; `settle`
    holds the input and steps from rest, which is how attention uses the circuit.

    Args:
        wiring: Neurons and synapses.
        input_group: Neurons that may receive input; None for all that the wiring connects.
        output_group: Neurons that are read out.
        disabled: Groups that stay silent.
        activation: Name of the neurons' nonlinearity.
        bias: Whether neurons and maps have additive constants.
        device: Where the parameters live.
        dtype: Their type.

    Example:
        >>> wiring = backbone_wiring("ncp", inputs=8, units=20, sparsity=0.5, seed=1)
        >>> cell = NCPCell(wiring)
        >>> y, state = cell(torch.randn(3, 8))
        >>> y, state = cell(torch.randn(3, 8), state)
        >>> y.shape, state.shape
        (torch.Size([3, 2]), torch.Size([3, 20]))
    """

    active: Tensor
    outputs: Tensor

    def __init__(
        self,
        wiring: Wiring,
        *,
        input_group: str | None = None,
        output_group: str = "motor",
        disabled: tuple[str, ...] = (),
        activation: str = "tanh",
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        choice("activation", activation, ACTIVATIONS)
        for group in disabled:
            choice("disabled", group, GROUPS)
        self.wiring = wiring
        self.activation = activation
        active = np.array([g not in disabled for g in wiring.groups])
        fed = active if input_group is None else active & np.isin(range(len(active)), wiring.group(input_group))
        outputs = tuple(i for i in wiring.group(output_group) if active[i])
        self._input_polarity = wiring.input_adjacency * fed
        self._polarity = wiring.adjacency * np.outer(active, active)
        if not outputs:
            raise ValueError(f"output_group {output_group!r} has no active neuron in {wiring}")
        if not self._input_polarity.any():
            raise ValueError(f"no input reaches input_group {input_group!r} in {wiring}")

        inputs = np.asarray(self._input_polarity.any(axis=1))
        self.input_weight = MaskedParameter(self._input_polarity, 1, device, dtype)
        self.recurrent_weight = MaskedParameter(self._polarity, 1, device, dtype)
        self.input_scale = MaskedParameter(inputs, 1, device, dtype)
        self.input_shift = MaskedParameter(inputs, 1, device, dtype) if bias else None
        self.bias = MaskedParameter(active, 1, device, dtype) if bias else None
        self.output_scale = nn.Parameter(torch.empty(len(outputs), device=device, dtype=dtype))
        self.output_shift = nn.Parameter(torch.empty_like(self.output_scale)) if bias else None
        self.register_buffer("active", torch.as_tensor(active, device=device), persistent=False)
        self.register_buffer("outputs", torch.as_tensor(outputs, device=device), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        init_synapses(self.input_weight, self._input_polarity)
        init_synapses(self.recurrent_weight, self._polarity)
        nn.init.ones_(self.input_scale.weight)
        nn.init.ones_(self.output_scale)
        for shift in (self.input_shift, self.bias):
            if shift is not None:
                nn.init.zeros_(shift.weight)
        if self.output_shift is not None:
            nn.init.zeros_(self.output_shift)

    def forward(self, u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            u: [..., I] input.
            state: [..., N] state of the step before; None for rest (all zero).

        Returns:
            Output [..., n_out] and new state [..., N].
        """
        require_tensor("u", u, last=self.wiring.num_inputs)
        drive = self._drive(u)
        if state is None:
            state = torch.zeros_like(drive)
        else:
            require_tensor("state", state, last=self.wiring.num_neurons)
        state = self._step(drive, state)
        return self._read(state), state

    def settle(self, u: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Hold the input and step from rest.

        Args:
            u: [..., I] input.
            steps: Number of steps, at least 1.

        Returns:
            Output [..., n_out] and state [..., N] after the last step.
        """
        require_tensor("u", u, last=self.wiring.num_inputs)
        if steps < 1:
            raise ValueError(f"steps must be at least 1, got {steps}")
        drive = self._drive(u)
        state = torch.zeros_like(drive)
        for _ in range(steps):
            state = self._step(drive, state)
        return self._read(state), state

    def _drive(self, u: Tensor) -> Tensor:
        u = u * self.input_scale.dense()[0]
        if self.input_shift is not None:
            u = u + self.input_shift.dense()[0]
        drive = u @ self.input_weight.dense()[0]
        return drive if self.bias is None else drive + self.bias.dense()[0]

    def _step(self, drive: Tensor, state: Tensor) -> Tensor:
        new = ACTIVATIONS[self.activation](state @ self.recurrent_weight.dense()[0] + drive)
        return new * self.active

    def _read(self, state: Tensor) -> Tensor:
        y = state.index_select(-1, self.outputs) * self.output_scale
        return y if self.output_shift is None else y + self.output_shift
