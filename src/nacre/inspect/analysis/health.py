"""`health`: neurons of a recorded layer that do nothing, and how many keys its heads attend to.

Dead and saturated neurons are judged as in `nacre.certify`, while the recorded model runs on the recorded samples
again. States of pairs are not kept: memory stays constant.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre.certificates.neurons import Measures, NeuronFinding, computed_neurons, judge_neurons, measure_neurons
from nacre.inspect.analysis.labels import layer_of
from nacre.inspect.analysis.rerun import inputs_of
from nacre.inspect.recording.hooks import layers_of, watching
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.recording import LayerRecording, Recording
from nacre.layer.attention import NAC
from nacre.layer.pairs import Gates
from nacre.layer.trace import Scene, Trace, states_by_group

_AT_ONCE = 32  # moments of a drive
_READ = 2**12  # steps of a recording at a time
_MERGE = {"min": torch.minimum, "max": torch.maximum, "sum": torch.add}


@dataclass(frozen=True, eq=False)
class Health:
    """What does nothing in a layer. H heads."""

    layer: str
    neurons: dict[str, int]  # group -> how many in all heads, without those that the layer leaves out
    dead: dict[str, int]  # group -> how many cannot matter: state constant or not finite, or no outgoing weight
    saturated: dict[str, int]  # group -> how many are nearly always at a bound of their activation
    left_out: int  # neurons of the wiring that the layer does not compute, in every head
    dead_neurons: tuple[NeuronFinding, ...]  # which ones, and why
    saturated_neurons: tuple[NeuronFinding, ...]  # which ones, and why
    keys_mean: NDArray[np.float64]  # [H] effective number of keys, exp(entropy of the weights), over steps
    keys_min: NDArray[np.float64]  # [H] of the step that has the fewest
    keys_max: NDArray[np.float64]  # [H] of the step that has the most
    phi_std: NDArray[np.float64]  # [H] standard deviation over pairs: a head whose gate is flat chooses nothing
    omega_std: NDArray[np.float64]  # [H] the same of omega


def health(recording: Recording, layer: str | None = None) -> Health:
    """Look for neurons of a recorded layer that do nothing.

    The name of the layer may be left out if there is only one.

    Raises:
        ValueError: If the recording holds no model, or no such layer.

    Example:
        >>> from nacre.inspect import record
        >>> found = health(record(NAC(16, 2), torch.randn(2, 60, 16), out=tmp / "look"))
        >>> found.neurons["motor"], found.dead["motor"], bool(found.keys_max.max() <= 8)
        (4, 0, True)
    """
    chosen = layer_of(recording, layer)
    model = recording.model()
    layers = layers_of(model)
    # "#2" is a second call of the same layer.
    seen = {name: _Extremes(layers[name.partition("#")[0]]) for name in recording.layers}
    for sample in range(recording.samples):
        for given in inputs_of(recording, model, sample, _AT_ONCE):
            with watching(model, lambda name, _: seen[name]):
                outputs_of(model, *given)
    module = seen[chosen.name].layer
    dead, saturated = judge_neurons(module, seen[chosen.name].found)
    computed, wiring = computed_neurons(module), module.backbone.wiring
    backbone = Counter(wiring.groups[i] for i in computed)
    sizes = {group: size for group, size in chosen.sizes.items() if size}
    keys_mean, keys_min, keys_max = _keys(chosen)
    return Health(
        layer=chosen.name,
        neurons={group: chosen.heads * backbone.get(group, sizes[group]) for group in sizes},
        dead=_by_group(dead, sizes),
        saturated=_by_group(saturated, sizes),
        left_out=wiring.num_neurons - len(computed),
        dead_neurons=dead,
        saturated_neurons=saturated,
        keys_mean=keys_mean,
        keys_min=keys_min,
        keys_max=keys_max,
        phi_std=_std(chosen, "phi"),
        omega_std=_std(chosen, "omega"),
    )


class _Extremes:
    """Observes all calls of a layer, and keeps what `judge_neurons` needs."""

    def __init__(self, layer: NAC) -> None:
        self.layer, self.found = layer, Measures()
        self._scene: Scene | None = None

    def begin(self, scene: Scene) -> None:
        scene.require_own_steps()
        self._scene = scene

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        scene = self._scene
        assert scene is not None
        flat = scene.queries.places(rows)
        row, step = flat // scene.queries.length, flat % scene.queries.length
        names = ("index", "valid", "query", "key", "value")
        of_rows = {name: getattr(scene, name)[row, :, step].transpose(0, 1)[None] for name in names}
        groups = {name: x[None] for name, x in states_by_group(neurons, scene.wiring, gates.phi).items()}
        of_pairs = {name: None if x is None else x[None] for name, x in vars(gates).items()}  # [1, H, C, K]
        trace = Trace(**of_pairs, **groups, **of_rows, wiring=scene.wiring)  # pyright: ignore[reportArgumentType]
        steps = torch.ones(1, len(flat), dtype=torch.bool)
        found = measure_neurons(self.layer, trace, trace.valid, steps)
        self.found = {k: _MERGE[k[1]](self.found[k], v) for k, v in found.items()} if self.found else found


def _by_group(findings: tuple[NeuronFinding, ...], groups: Iterable[str]) -> dict[str, int]:
    count = Counter(finding.group for finding in findings)
    return {group: count[group] for group in groups}


def _keys(layer: LayerRecording) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, fewest and most effective keys [H], over the steps that have any."""
    column, array = layer.gates.index("keys"), layer.array("gates")
    total, count = np.zeros(layer.heads), np.zeros(layer.heads)
    least, most = np.full(layer.heads, np.inf), np.zeros(layer.heads)
    for sample, some in _blocks(layer, array.shape[0]):
        keys = np.asarray(array[sample, some, :, column], np.float64)  # [n, H]
        asked = keys > 0
        total, count = total + keys.sum(0), count + asked.sum(0)
        least = np.minimum(least, np.where(asked, keys, np.inf).min(0))
        most = np.maximum(most, keys.max(0))
    return total / count.clip(min=1), least, most


def _std(layer: LayerRecording, gate: str) -> NDArray[np.float64]:
    """[H] standard deviation of a gate over all pairs."""
    array, there = layer.array(gate), layer.array("valid")
    sums = np.zeros((3, layer.heads))  # count, sum and sum of squares
    for sample, some in _blocks(layer, array.shape[0]):
        valid = np.asarray(there[sample, some])  # [n, H, K]
        x = np.asarray(array[sample, some], np.float64)
        sums += np.stack([(x**power).sum((0, 2), where=valid) for power in range(3)])
    count, first, second = sums
    mean = first / count.clip(min=1)
    return np.sqrt((second / count.clip(min=1) - mean**2).clip(min=0))


def _blocks(layer: LayerRecording, samples: int) -> Iterator[tuple[int, slice]]:
    """Steps that are read at a time, of all samples."""
    for sample in range(samples):
        steps = layer.length(sample)
        yield from ((sample, slice(i, min(i + _READ, steps))) for i in range(0, steps, _READ))
