"""`Lesion`: silence a neuron, a synapse or a whole group, and leave everything else as it is."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.inspect.recording.hooks import check_index, choose_layer, layers_of
from nacre.inspect.recording.layer_writer import OF_CIRCUIT
from nacre.inspect.recording.recording import GROUPS, INPUTS
from nacre.layer.attention import NAC
from nacre.layer.trace import BACKBONE


@dataclass(frozen=True)
class Lesion:
    """What is silenced in one head of one layer.

    A silent neuron has state 0 at every settle step, like the mask of the paper's Algorithm 1. Its output map
    keeps its constants: the gate of a silent motor neuron is flat. A trace shows the activation of 0, which for
    "sigmoid" is 0.5; it acts on nothing. Of a silent clock neuron it shows the time, which then acts on nothing.

    Attributes:
        group: "query", "key", "value" (sensory neurons), "clock", "inter", "command" or "motor".
        index: Number of the neuron in its group; None for all of the group.
        head: The head; None for all. Where heads share one circuit, its neurons are those of all heads.
        target: For a synapse: group and number of the postsynaptic neuron. Only this synapse is cut then. Sensory
            neurons of the value have none.
        layer: Name of the layer; None for the only one.

    Example:
        >>> str(Lesion("command", 3, head=0, target=("motor", 1)))
        'the synapse from command 3 to motor 1 of head 0'
    """

    group: str
    index: int | None = None
    head: int | None = None
    target: tuple[str, int] | None = None
    layer: str | None = None

    def __str__(self) -> str:
        """In words."""
        who = f"all {self.group} neurons" if self.index is None else f"{self.group} {self.index}"
        if self.target is not None:
            who = f"the synapse from {who} to {self.target[0]} {self.target[1]}"
        return f"{who} of {'all heads' if self.head is None else f'head {self.head}'}"


def lesioned(model: nn.Module, lesions: Iterable[Lesion]) -> nn.Module:
    """A copy of a model, any module with NAC layers, in which something is silent.

    Raises:
        ValueError: If a lesion names what the model does not have.

    Example:
        >>> layer = NAC(16, 2).eval()
        >>> quiet = lesioned(layer, [Lesion("motor", 0, head=1)])
        >>> _, trace = quiet(torch.randn(1, 20, 16), return_trace=True)
        >>> bool(trace.phi[:, 1].std() < 1e-6), bool(trace.phi[:, 0].std() > 1e-3)
        (True, True)
    """
    model = copy.deepcopy(model)
    layers = layers_of(model)
    with torch.no_grad():
        for lesion in lesions:
            _silence(layers[choose_layer(layers, lesion.layer)], lesion)
    return model


def size_of(layer: NAC, group: str) -> int:
    """Neurons of a group."""
    if group == "clock":
        return 2 * layer.config.clock
    return layer.config.d_head if group not in BACKBONE else len(layer.backbone.wiring.group(group))


def is_shared(layer: NAC, group: str) -> bool:
    """Whether the neurons of a group are those of all heads."""
    return layer.config.share_backbone and group in OF_CIRCUIT


def _silence(layer: NAC, lesion: Lesion) -> None:
    choice("group", lesion.group, GROUPS)
    heads = layer.config.num_heads
    if lesion.head is not None:
        check_index("head", lesion.head, heads)
    _check_index(layer, lesion.group, lesion.index)
    if lesion.target is not None:
        _cut(layer, lesion, lesion.target)
    elif lesion.group in BACKBONE:
        _silence_backbone(layer, lesion)
    elif lesion.group == "clock":  # what is left is the shift of the circuit's input map
        rows = _input_rows(layer, "clock", lesion.index)
        scale = layer.backbone.weights.input_scale
        _zero(scale.weight, _circuits(layer, lesion), torch.isin(scale.index, torch.tensor(rows)))
    else:  # state 0: what is left is the shift of the output map
        gate = {"query": layer.query_gate, "key": layer.key_gate, "value": layer.value_gate}[lesion.group]
        scale = gate.weights.output_scale.view(heads, -1)
        scale[_heads(lesion), slice(None) if lesion.index is None else lesion.index] = 0


def _check_index(layer: NAC, group: str, index: int | None) -> None:
    size = size_of(layer, group)
    if not size:
        raise ValueError(f"the layer has no {group} neurons")
    if index is not None and (type(index) is not int or not 0 <= index < size):
        raise ValueError(f"index must be from 0 to {size - 1} among the {group} neurons, got {index}")


def _silence_backbone(layer: NAC, lesion: Lesion) -> None:
    backbone, weights = layer.backbone, layer.backbone.weights
    ids = backbone.wiring.group(lesion.group)
    ids = ids if lesion.index is None else (ids[lesion.index],)
    heads = _circuits(layer, lesion)
    if weights.recurrent_weight is not None:
        table = weights.recurrent_weight
        neurons = table.shape[1]
        source, target = table.index // neurons, table.index % neurons
        silent = torch.isin(source, torch.tensor(ids)) | torch.isin(target, torch.tensor(ids))
        _zero(table.weight, heads, silent)
    # No input reaches the neuron, so that a trace shows its resting state, too.
    feeds = weights.input_weight
    _zero(feeds.weight, heads, torch.isin(feeds.index % feeds.shape[1], torch.tensor(ids)))
    if weights.bias is not None:
        _zero(weights.bias.weight, heads, torch.isin(weights.bias.index, torch.tensor(ids)))
    read = [i for i, neuron in enumerate(backbone.outputs) if neuron in ids]
    if read:
        weights.output_scale[heads, read] = 0


def _cut(layer: NAC, lesion: Lesion, target: tuple[str, int]) -> None:
    """Set the weight of one synapse to 0."""
    weights, wiring = layer.backbone.weights, layer.backbone.wiring
    group, index = target
    choice("target", group, BACKBONE)
    _check_index(layer, group, index)
    if lesion.index is None or index is None:
        raise ValueError("a synapse leads from one neuron to another; give both of their numbers")
    to = wiring.group(group)[index]
    if lesion.group in BACKBONE:
        table, source = weights.recurrent_weight, wiring.group(lesion.group)[lesion.index]
    else:
        if lesion.group == "value":
            raise ValueError("value neurons have no synapses in the circuit; silence the neuron instead")
        table, (source,) = weights.input_weight, _input_rows(layer, lesion.group, lesion.index)
    there = None if table is None else table.index == source * table.shape[1] + to
    if table is None or there is None or not there.any():
        raise ValueError(f"there is no synapse from {lesion.group} {lesion.index} to {group} {index}")
    _zero(table.weight, _circuits(layer, lesion), there)


def _input_rows(layer: NAC, group: str, index: int | None) -> list[int]:
    """Which inputs of the circuit a neuron is, or all of a group are."""
    first = sum(size_of(layer, before) for before in INPUTS[: INPUTS.index(group)])
    return [first + i for i in range(size_of(layer, group)) if index in (None, i)]


def _circuits(layer: NAC, lesion: Lesion) -> slice:
    """Circuits in which something is silenced: those of the heads, or the only one."""
    return slice(None) if layer.config.share_backbone else _heads(lesion)


def _heads(lesion: Lesion) -> slice:
    return slice(None) if lesion.head is None else slice(lesion.head, lesion.head + 1)


def _zero(weight: Tensor, heads: slice, where: Tensor) -> None:
    """Zeros in columns of [heads, columns]."""
    weight[heads] = weight[heads].masked_fill(where.to(weight.device), 0)
