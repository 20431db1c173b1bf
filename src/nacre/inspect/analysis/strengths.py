"""`strengths`: the trained weight of each synapse of a layer's circuit."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nacre._util.checks import whole
from nacre.inspect.analysis.lesion import size_of
from nacre.inspect.recording.hooks import check_index, choose_layer, layers_of
from nacre.inspect.recording.recording import INPUTS, LayerRecording, Recording
from nacre.wiring.wiring import Wiring


class Synapse(NamedTuple):
    """One synapse. Inputs of the circuit are "query", "key" and "clock" neurons."""

    source_group: str
    source: int
    target_group: str
    target: int
    weight: float


@dataclass(frozen=True, eq=False)
class Strengths:
    """Signed weights of a layer's circuit. H heads, I inputs, N neurons."""

    layer: str
    wiring: Wiring
    sources: tuple[tuple[str, int], ...]  # [I] group and number of the neuron that each input is
    inputs: NDArray[np.float64]  # [H, I, N] times input scale; 0 without a synapse
    recurrent: NDArray[np.float64]  # [H, N, N] between neurons, from rows to columns
    synapses: int  # how many a head has, without those that reach no motor neuron in time
    flipped_inputs: NDArray[np.int64]  # [H] how many input synapses have another sign than the wiring gave them
    flipped_recurrent: NDArray[np.int64]  # [H] how many synapses between neurons have

    @property
    def flipped(self) -> NDArray[np.int64]:
        """[H] how many synapses have another sign than the wiring gave them."""
        return self.flipped_inputs + self.flipped_recurrent

    def strongest(self, head: int, n: int) -> list[Synapse]:
        """The n strongest synapses of a head, the strongest first.

        Raises:
            ValueError: If there is no such head.
        """
        whole("n", n, 1)
        check_index("head", head, len(self.inputs))
        table = np.concatenate([self.inputs[head], self.recurrent[head]])  # [I + N, N]
        flat = np.abs(table).reshape(-1)
        first = np.argsort(-flat, kind="stable")[: min(n, np.count_nonzero(flat))]
        return [self._synapse(table, *divmod(int(place), table.shape[1])) for place in first]

    def _synapse(self, table: NDArray[np.float64], source: int, target: int) -> Synapse:
        count = len(self.sources)
        sender = self.sources[source] if source < count else _name(self.wiring, source - count)
        return Synapse(*sender, *_name(self.wiring, target), float(table[source, target]))


@torch.no_grad()
def strengths(model: nn.Module, layer: str | None = None) -> Strengths:
    """Weights of the synapses of a layer's circuit, of any module with NAC layers, such as `recording.model()`.

    Raises:
        ValueError: If there is no such layer, or no name and several layers.

    Example:
        >>> found = strengths(NAC(16, 2))
        >>> found.inputs.shape, found.recurrent.shape, found.flipped.tolist()
        ((2, 16, 42), (2, 42, 42), [0, 0])
        >>> len(found.strongest(head=0, n=5))
        5
    """
    layers = layers_of(model)
    name = choose_layer(layers, layer, "a NAC layer of the model")
    module = layers[name]
    weights, wiring, heads = module.backbone.weights, module.backbone.wiring, module.config.num_heads

    def of_heads(table: torch.Tensor) -> NDArray[np.float64]:
        """[H or 1, ...] -> [H, ...]: heads may share one circuit."""
        return table.double().cpu().expand(heads, *table.shape[1:]).numpy().copy()

    inputs, recurrent = of_heads(weights.drive()[0]), of_heads(weights.recurrent())
    tables = (weights.input_weight, weights.recurrent_weight)
    return Strengths(
        layer=name,
        wiring=wiring,
        sources=tuple((group, i) for group in INPUTS for i in range(size_of(module, group))),
        inputs=inputs,
        recurrent=recurrent,
        synapses=sum(table.weight.shape[1] for table in tables if table is not None),
        flipped_inputs=_flipped(inputs, wiring.input_adjacency),
        flipped_recurrent=_flipped(recurrent, wiring.adjacency),
    )


@torch.no_grad()
def head_weights(recording: Recording, layer: LayerRecording, head: int) -> tuple[NDArray, NDArray]:
    """Weights of a head's synapses from its inputs [I, N] (`layer.inputs`) and between neurons [N, N].

    Without a model they are those of the wiring, +1 and -1.
    """
    if not recording.has_model:
        return layer.wiring.input_adjacency.astype(float), layer.wiring.adjacency.astype(float)
    # "#2" is a second call of the same layer.
    weights = layers_of(recording.model())[layer.name.partition("#")[0]].backbone.weights
    own = 0 if layer.shared else head
    return weights.drive()[0][own].numpy(), weights.recurrent()[own].numpy()


def _flipped(table: NDArray[np.float64], polarity: NDArray) -> NDArray[np.int64]:
    """[H] weights of [H, n, N] whose sign is not that of their polarity [n, N]; a weight of 0 has none."""
    return (table * polarity < 0).sum((1, 2))


def _name(wiring: Wiring, neuron: int) -> tuple[str, int]:
    """Group of a neuron, and its number in it."""
    group = wiring.groups[neuron]
    return group, wiring.group(group).index(neuron)
