"""`Backbone`: inter, command and motor neurons of every query-key pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nacre._util.budget import afford
from nacre.layer.circuit import NCPCell
from nacre.layer.synapses import CircuitWeights, WiredModule, pick
from nacre.native.program import Circuit, compile_rows
from nacre.wiring.builders import DEFAULT_SETTLE_STEPS
from nacre.wiring.wiring import Wiring

NeuronStates = Mapping[tuple[int, ...], Tensor]
"""Last states of M pairs: ids of a set of neurons -> [H, M or 1, ids]."""


@dataclass(frozen=True)
class Stage:
    """Neurons that must be computed at one settle step, and what reaches them."""

    neurons: tuple[int, ...]
    fed: bool  # whether input synapses reach any of them
    from_once: bool  # whether synapses of the neurons computed once do
    from_before: bool  # whether synapses of the stage before do


class Backbone(WiredModule):
    """Inter, command and motor neurons for every query-key pair, settled from rest.

    Exactly what `NCPCell.settle` computes, with what cannot change the result left out: the input enters
    linearly, so queries and keys are projected once per token; neurons without recurrent input are computed
    once; each settle step computes only the neurons whose state can still reach a motor neuron; neurons, synapses
    and inputs that never reach a motor neuron do not exist.

    Args:
        wiring: Takes [query; key; clock neurons] of one head and has the motor neurons as outputs.
        heads: Independent sets of weights.
        clock: How many of the inputs, the last ones, are clock neurons.
        settle_steps: Steps from rest; None for the larger of 4 and the steps until the input has reached every
            motor neuron.

    Example:
        >>> backbone = Backbone(backbone_wiring("ncp", inputs=8, units=20, sparsity=0.5, seed=1), heads=2)
        >>> backbone.settle_steps
        4
    """

    def __init__(
        self,
        wiring: Wiring,
        heads: int = 1,
        *,
        clock: int = 0,
        settle_steps: int | None = None,
        activation: str = "tanh",
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(wiring, activation)
        self.clock = clock
        self.outputs = wiring.group("motor")
        needed = wiring.steps_to(self.outputs)
        if settle_steps is not None and settle_steps < needed:
            raise ValueError(
                f"settle_steps must be at least {needed} for {wiring}: with {settle_steps} the input "
                "does not reach every motor neuron"
            )
        self.settle_steps = max(DEFAULT_SETTLE_STEPS, needed) if settle_steps is None else settle_steps
        live = wiring.liveness(self.outputs, self.settle_steps, bias=bias)
        rows = self.settle_steps * (live.neurons.sum() + live.synapses.sum())  # and synapses onto them, at most
        afford("the circuit's program", int(rows) // 16)
        feeds, synapses = wiring.input_adjacency * live.input_synapses, wiring.adjacency * live.synapses
        self.once, self.stages = plan(feeds, synapses, self.outputs, self.settle_steps)
        fed = [n for stage in self.stages if stage.fed for n in stage.neurons]
        self.projected = tuple(dict.fromkeys((*self.once, *fed)))
        self.pick_projected, self.pick_once = pick(self.projected), pick(self.once)
        self.pick_stages = [pick(stage.neurons) for stage in self.stages]
        columns = {n: i for i, n in enumerate(self.projected)}
        # Columns of a stage's neurons among the projected ones.
        self.pick_fed = [pick([columns[n] for n in s.neurons]) if s.fed else None for s in self.stages]
        program = compile_rows(synapses, feeds[len(feeds) - clock :], self.projected, self.once, self.stages)
        self.circuit = Circuit(program, len(self.projected), wiring.num_neurons, activation)
        # The last row of each neuron. Rows without activation hold inputs of a neuron, not its state.
        self.last_rows = {int(program.neuron[row]): int(row) for row in np.flatnonzero(program.active)}
        self.weights = CircuitWeights(
            feeds, synapses, live.neurons, self.outputs, heads=heads, bias=bias, device=device, dtype=dtype
        )

    def wire(self) -> WiredBackbone:
        """The backbone with its present weights laid out, for use on many pairs."""
        return WiredBackbone(self, *self.weights.drive())

    def cell(self, head: int = 0) -> NCPCell:
        """The circuit of one head as a general cell, to step or settle by itself."""
        cell = NCPCell(self.wiring, activation=self.activation, bias=self.weights.bias is not None)
        cell = cell.to(self.weights.output_scale)
        cell.weights.copy_head(self.weights, head)
        return cell


def plan(
    input_polarity: np.ndarray, polarity: np.ndarray, outputs: tuple[int, ...], steps: int
) -> tuple[tuple[int, ...], tuple[Stage, ...]]:
    """Neurons that are computed once, and the stages in order.

    The state of the former is the same at every step: they are fed by inputs, not by neurons, and are no outputs.
    Steps at which nothing is needed yet are left out, so a feed-forward wiring costs no more than its depth.
    """
    fed, driven = (np.asarray(table.any(axis=0)) for table in (input_polarity, polarity))
    once = tuple(int(i) for i in np.flatnonzero(fed & ~driven) if i not in outputs)
    sets = [outputs]
    for _ in range(steps - 1):
        sources = np.flatnonzero(polarity[:, list(sets[0])].any(axis=1))
        sets.insert(0, tuple(int(i) for i in sources if i not in once))
    stages = []
    for step, (before, neurons) in enumerate(zip([(), *sets], sets, strict=False), start=1):
        if neurons:
            from_once = step > 1 and bool(polarity[np.ix_(once, neurons)].any())
            from_before = bool(polarity[np.ix_(before, neurons)].any())
            stages.append(Stage(neurons, bool(fed[list(neurons)].any()), from_once, from_before))
    return once, tuple(stages)


class WiredBackbone:
    """A backbone with its weights laid out; made by `Backbone.wire`."""

    def __init__(self, backbone: Backbone, weight: Tensor, bias: Tensor) -> None:
        self.backbone = backbone
        self.input_weight = weight[..., backbone.pick_projected]  # [H, I, P], P = projected neurons
        self.bias = bias  # [H, N]

    def _blocks(self) -> list[tuple[Tensor | None, Tensor | None]]:
        """For each stage, dense blocks of synapses: from neurons computed once, and from the stage before."""
        backbone, recurrent = self.backbone, self.backbone.weights.recurrent()
        blocks = []
        before: slice | list[int] = []
        for stage, neurons in zip(backbone.stages, backbone.pick_stages, strict=True):
            to = recurrent[..., neurons]
            once = to[:, backbone.pick_once] if stage.from_once else None
            blocks.append((once, to[:, before] if stage.from_before else None))
            before = neurons
        return blocks

    def project(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Input synapses, once per token: [H, R, D] and [H, S, D] -> [H, R, P] and [H, S, P]."""
        width = query.shape[-1]
        bias = self.bias[:, self.backbone.pick_projected]
        weight = self.input_weight.expand(len(query), -1, -1)  # one circuit may serve all heads
        by_query = torch.baddbmm(bias.unsqueeze(1), query, weight[:, :width])
        return by_query, key @ weight[:, width : 2 * width]

    def project_clock(self, clock: Tensor) -> Tensor:
        """What clock neurons of pairs [H, M, C] add to the sum of their projected queries and keys: [H, M, P]."""
        weight = self.input_weight[:, -self.backbone.clock :].expand(len(clock), -1, -1)
        return clock.to(weight.dtype) @ weight

    def synapses(self) -> Tensor:
        """Weights [H, synapses] in the order of the compiled program."""
        backbone = self.backbone
        recurrent, tables = backbone.weights.recurrent_weight, []
        if recurrent is not None:
            tables.append(recurrent.weight)
        if backbone.clock:
            tables.append(self.input_weight[:, -backbone.clock :].flatten(1))
        if not tables:
            return self.bias.new_zeros(len(self.bias), 0)
        return torch.cat(tables, 1)[:, torch.from_numpy(backbone.circuit.program.weight)]

    def output_map(self) -> tuple[Tensor, Tensor]:
        """Scale and shift [H, outputs] of the motor neurons."""
        weights = self.backbone.weights
        scale, shift = weights.output_scale, weights.output_shift
        return scale, torch.zeros_like(scale) if shift is None else shift

    def settle(self, drive: Tensor) -> tuple[Tensor, NeuronStates]:
        """Settle M pairs, given the sums of their projected queries and keys [H, M, P].

        Returns motor outputs [H, M, outputs] after the output map, and the last state of every computed neuron.
        """
        backbone, act = self.backbone, self.backbone.act
        x_once = act(drive[..., : len(backbone.once)])
        states = {backbone.once: x_once}
        drives: dict[tuple[int, ...], Tensor] = {}
        x: Tensor | None = None
        for i, (stage, (from_once, from_before)) in enumerate(zip(backbone.stages, self._blocks(), strict=True)):
            held = drives.get(stage.neurons)
            if held is None:
                fed = backbone.pick_fed[i]
                held = self.bias[:, None, backbone.pick_stages[i]] if fed is None else drive[..., fed]
                if from_once is not None:
                    held = _send(x_once, from_once, held)
                    drives[stage.neurons] = held
            x = act(held if from_before is None or x is None else _send(x, from_before, held))
            states[stage.neurons] = x
        assert x is not None  # the last stage is the motor neurons
        return backbone.weights.read(x), states


def _send(x: Tensor, block: Tensor, held: Tensor) -> Tensor:
    """Add x @ block to held, in one pass over memory unless x is the same for all pairs ([H, 1, n])."""
    block = block.expand(x.shape[0], -1, -1)  # one circuit may serve all heads
    if x.shape[1] < held.shape[1]:
        return held + x @ block
    return torch.baddbmm(held, x, block)
