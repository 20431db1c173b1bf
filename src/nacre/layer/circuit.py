"""`NCPCell`: Algorithm 1 of the paper in its general, recurrent form."""

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.layer.inputs import require_tensor
from nacre.layer.synapses import CircuitWeights, WiredModule
from nacre.wiring.wiring import GROUPS, Wiring


class NCPCell(WiredModule):
    """Neurons of a wiring, updated together.

    One step is x' = mask * act(x (W_rec * M_rec) + (u * w_in + b_in) (W_in * M_in) + b), read out as
    y = x'[outputs] * w_out + b_out. Called step after step with its own state it is a recurrent cell; `settle`
    holds the input and steps from rest, which is how attention uses the circuit.

    Args:
        input_group: Group or groups that may receive input; None for all that the wiring connects.
        output_group: Group or groups that are read out.
        disabled: Groups that stay silent.

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
        input_group: str | tuple[str, ...] | None = None,
        output_group: str | tuple[str, ...] = "motor",
        disabled: tuple[str, ...] = (),
        activation: str = "tanh",
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(wiring, activation)
        active = ~_members(wiring, "disabled", disabled)
        fed = active if input_group is None else active & _members(wiring, "input_group", input_group)
        outputs = np.flatnonzero(active & _members(wiring, "output_group", output_group))
        feeds = wiring.input_adjacency * fed
        if not len(outputs):
            raise ValueError(f"output_group {output_group!r} has no active neuron in {wiring}")
        if not feeds.any():
            raise ValueError(f"no input reaches input_group {input_group!r} in {wiring}")
        synapses = wiring.adjacency * np.outer(active, active)
        self.weights = CircuitWeights(
            feeds, synapses, active, outputs.tolist(), bias=bias, device=device, dtype=dtype
        )
        self.register_buffer("active", torch.as_tensor(active, device=device), persistent=False)
        self.register_buffer("outputs", torch.as_tensor(outputs, device=device), persistent=False)

    def forward(self, u: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One step: input [..., I] and state [..., N] (None: rest) -> output [..., n_out] and new state."""
        if state is not None:
            require_tensor("state", state, last=self.wiring.num_neurons)
        return self._run(u, state, 1)

    def settle(self, u: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Hold the input [..., I] and step from rest: last output [..., n_out] and state [..., N]."""
        return self._run(u, None, whole("steps", steps, 1))

    def _run(self, u: Tensor, state: Tensor | None, steps: int) -> tuple[Tensor, Tensor]:
        require_tensor("u", u, last=self.wiring.num_inputs)
        weight, bias = self.weights.drive()
        drive = u @ weight[0] + bias[0]
        recurrent = self.weights.recurrent()[0]
        x = torch.zeros_like(drive) if state is None else state
        for _ in range(steps):
            x = self.act(x @ recurrent + drive) * self.active
        return self.weights.read(x.index_select(-1, self.outputs).unsqueeze(0)).squeeze(0), x


def _members(wiring: Wiring, name: str, groups: str | tuple[str, ...]) -> np.ndarray:
    """[N] bool, neurons of the named groups."""
    groups = (groups,) if isinstance(groups, str) else groups
    for group in groups:
        choice(name, group, GROUPS)
    return np.isin(wiring.groups, groups)
