"""Which neurons of a layer do nothing, by their states and their outgoing weights."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre.layer.attention import NAC
from nacre.layer.sensory import SensoryGate
from nacre.layer.trace import BACKBONE, Trace
from nacre.native.activations import ACTIVATIONS

Measures = dict[tuple[str, str], Tensor]
"""(what, how to merge: "min", "max" or "sum") -> one number for each head, or for each head and neuron."""

_NEAR = 0.01  # a state nearer to a bound than this share of the width is at the bound
_USUALLY = 0.99  # share of the pairs at a bound from which a neuron counts as saturated
_STILL = 1e-6  # states that differ by no more than this are the same

_SENSORY = ("query", "key", "value")


@dataclass(frozen=True)
class NeuronFinding:
    """One neuron, and what is wrong with it.

    Attributes:
        head: Its head.
        group: "query", "key" or "value" (sensory neurons), "clock", "inter", "command" or "motor".
        index: Its last index in that field of a `Trace`.
        wiring_index: Its number in the wiring of the sensory gate or of the backbone; of a clock neuron, which
            input of the backbone it is.
        reason: A text that explains the finding.
    """

    head: int
    group: str
    index: int
    wiring_index: int
    reason: str

    def __str__(self) -> str:
        """Which neuron, and why."""
        place = f"head {self.head} {self.group} neuron {self.index} (wiring index {self.wiring_index})"
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class _Group:
    """What the weights tell of one group of neurons."""

    name: str
    ids: list[list[int]]  # [H][n] wiring indices
    computed: list[bool]  # [n] False: left out of the layer, without a state
    known: Tensor  # [H, n] whether the trace shows the state
    connected: Tensor  # [H, n] whether any outgoing weight differs from 0
    unconnected: str  # reason to give if not
    unit: str  # of the number of its states
    activation: str  # nonlinearity; empty if it has none


def measure_neurons(layer: NAC, trace: Trace, valid: Tensor, steps: Tensor) -> Measures:
    """Extremes of every neuron's state over valid pairs and steps, and how often it was at a bound."""
    found: Measures = {}
    for name in _SENSORY:
        scale, shift = _output_map(layer, name)
        # Undo the output map: the states of the neurons themselves, [B, H, T, D].
        states = (getattr(trace, name) - shift[:, None]) / scale.where(scale != 0, 1)[:, None]
        counted = steps[:, None].expand(states.shape[:-1])
        found |= _measure(name, states, counted, _sensory_activation(layer))
    if trace.clock is not None:
        found |= _measure("clock", trace.clock, valid, "")
    for name in BACKBONE:
        found |= _measure(name, getattr(trace, name), valid, layer.config.activation)
    return found


def judge_neurons(layer: NAC, seen: Measures) -> tuple[tuple[NeuronFinding, ...], tuple[NeuronFinding, ...]]:
    """Dead and saturated neurons, head by head, from the merged measures of all chunks."""
    groups = list(_groups(layer))
    dead: list[NeuronFinding] = []
    saturated: list[NeuronFinding] = []
    for head in range(layer.config.num_heads):
        for group in groups:
            for i, neuron in enumerate(group.ids[head]):
                if not group.computed[i]:
                    continue
                if reason := _why_dead(group, seen, head, i):
                    dead.append(NeuronFinding(head, group.name, i, neuron, reason))
                if reason := _why_saturated(group, seen, head, i):
                    saturated.append(NeuronFinding(head, group.name, i, neuron, reason))
    return tuple(dead), tuple(saturated)


def computed_neurons(layer: NAC) -> set[int]:
    """Backbone neurons that exist in the layer; the others of the wiring reach no motor neuron."""
    return set(layer.backbone.once).union(*(stage.neurons for stage in layer.backbone.stages))


def _measure(name: str, states: Tensor, valid: Tensor, activation: str) -> Measures:
    """Measures of states [B, H, T, n] or [B, H, T, K, n], over all but heads and neurons."""
    over = tuple(d for d in range(valid.dim()) if d != 1)
    on = valid.unsqueeze(-1)
    found = {
        (name, "min"): states.masked_fill(~on, math.inf).amin(over),
        (name, "max"): states.masked_fill(~on, -math.inf).amax(over),
        (f"{name} count", "sum"): valid.sum(over),
    }
    if _saturates(activation):
        low, high, width = ACTIVATIONS[activation][1:4]
        found[f"{name} at low", "sum"] = ((states <= low + _NEAR * width) & on).sum(over)
        found[f"{name} at high", "sum"] = ((states >= high - _NEAR * width) & on).sum(over)
    return found


def _saturates(activation: str) -> bool:
    """Whether neurons with it can be stuck at a bound; those without one have none."""
    return bool(activation) and ACTIVATIONS[activation].span > 0


def _sensory_activation(layer: NAC) -> str:
    return layer.query_gate.activation  # all three sensory gates have one


def _output_map(layer: NAC, name: str) -> tuple[Tensor, Tensor]:
    """Scale and shift [H, D] of a sensory gate."""
    gate: SensoryGate = getattr(layer, f"{name}_gate")
    scale, shift = gate.weights.output_scale, gate.weights.output_shift
    shift = torch.zeros_like(scale) if shift is None else shift
    return scale.view(layer.config.num_heads, -1), shift.view(layer.config.num_heads, -1)


def _groups(layer: NAC) -> Iterator[_Group]:
    heads, width = layer.config.num_heads, layer.config.d_head
    nothing = "nothing hears it: all its outgoing weights are 0"
    selected = "all its outgoing weights are 0; only the selection of keys still looks at it"
    ids = layer.query_gate.outputs  # all three sensory gates have one wiring
    for name in _SENSORY:
        # The state of a neuron with an output scale of 0 is unknown.
        known = _output_map(layer, name)[0] != 0
        connected = known & _connected_sensory(layer, name)
        by_selection = name != "value" and layer.config.top_k is not None
        yield _Group(
            name=name,
            ids=[list(ids[h * width : (h + 1) * width]) for h in range(heads)],
            computed=[True] * width,
            known=known.cpu(),
            connected=connected.cpu(),
            unconnected=selected if by_selection else nothing,
            unit="steps",
            activation=_sensory_activation(layer),
        )
    if count := 2 * layer.config.clock:
        connected = (layer.backbone.weights.drive()[0][:, -count:] != 0).any(-1).expand(heads, -1).cpu()
        yield _Group(
            name="clock",
            ids=[list(range(2 * width, 2 * width + count))] * heads,
            computed=[True] * count,
            known=torch.ones_like(connected),
            connected=connected,
            unconnected=nothing,
            unit="pairs",
            activation="",
        )
    computed, connected = computed_neurons(layer), _connected_backbone(layer).cpu()
    for name in BACKBONE:
        ids = list(layer.backbone.wiring.group(name))
        yield _Group(
            name=name,
            ids=[ids] * heads,
            computed=[i in computed for i in ids],
            known=torch.ones_like(connected[:, ids]),
            connected=connected[:, ids],
            unconnected=nothing,
            unit="pairs",
            activation=layer.config.activation,
        )


def _connected_sensory(layer: NAC, name: str) -> Tensor:
    """[H, D] whether any weight after the output map differs from 0."""
    heads, width = layer.config.num_heads, layer.config.d_head
    if name == "value":
        return (layer.out_proj.weight != 0).any(0).view(heads, width)
    rows = slice(0, width) if name == "query" else slice(width, 2 * width)  # clock neurons come after them
    connected = (layer.backbone.weights.drive()[0][:, rows] != 0).any(-1)  # [1, D] if heads share one circuit
    if layer.time_gate is not None:
        connected = connected | (layer.time_gate.weight[:, rows] != 0).any(-1)
    if layer.match is not None:
        connected = torch.ones_like(connected)  # gains are never 0
    return connected.expand(heads, -1)


def _connected_backbone(layer: NAC) -> Tensor:
    """[H, N] whether any weight leads from a neuron to another one or out of the circuit."""
    weights = layer.backbone.weights
    synapses = weights.recurrent() != 0
    synapses.diagonal(dim1=1, dim2=2).fill_(False)  # a synapse onto itself does not count
    connected = synapses.any(-1)
    connected[:, list(layer.backbone.outputs)] |= weights.output_scale != 0
    return connected.expand(layer.config.num_heads, -1)


def _why_dead(group: _Group, seen: Measures, head: int, i: int) -> str:
    low, high = (float(seen[group.name, how][head, i]) for how in ("min", "max"))
    reasons = []
    if not (math.isfinite(low) and math.isfinite(high)):
        reasons.append("its state is NaN or infinite")
    # A single state says nothing about change.
    elif group.known[head, i] and high - low <= _STILL and seen[f"{group.name} count", "sum"][head] > 1:
        reasons.append("its state never changes")
    if not group.connected[head, i]:
        reasons.append(group.unconnected)
    return "; ".join(reasons)


def _why_saturated(group: _Group, seen: Measures, head: int, i: int) -> str:
    activation = group.activation
    if not _saturates(activation) or not group.known[head, i]:
        return ""
    count = int(seen[f"{group.name} count", "sum"][head])
    at_low, at_high = (int(seen[f"{group.name} at {end}", "sum"][head, i]) for end in ("low", "high"))
    if at_low + at_high < _USUALLY * count:
        return ""
    low, high = ACTIVATIONS[activation][1:3]
    ends = [f"{bound:g}" for bound, times in ((low, at_low), (high, at_high)) if times]
    share = f"{100 * (at_low + at_high) / count:.4g} %"
    bounds = f"{' or '.join(ends)}, a bound of {activation}"
    return f"its state is within 1 % of {bounds}, in {share} of the {group.unit}"
