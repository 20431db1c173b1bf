"""`health`: neurons of a recorded layer that do nothing, and how many keys its heads attend to.

Dead and saturated neurons are judged as in `nacre.certify`, on what the layer is given when the recorded model
sees the recorded samples again. States of pairs are looked at as they come and not kept: memory stays flat.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre.certificates.neurons import Measures, NeuronFinding, computed_neurons, judge_neurons, measure_neurons
from nacre.inspect.analysis.labels import layer_of
from nacre.inspect.recording.hooks import layers_of, watching
from nacre.inspect.recording.outputs import outputs_of, spans_of, windows_of
from nacre.inspect.recording.recording import GROUPS, LayerRecording, Recording
from nacre.layer.attention import NAC
from nacre.layer.pairs import Gates
from nacre.layer.trace import Scene, Trace, states_by_group

_AT_ONCE = 32  # moments of a drive
_READ = 2**12  # steps of a recording at a time
_MERGE = {"min": torch.minimum, "max": torch.maximum, "sum": torch.add}


@dataclass(frozen=True, eq=False)
class Health:
    """What does nothing in a layer. H heads.

    Attributes:
        layer: Name of the layer.
        neurons: Group -> how many neurons it has in all heads, without those that the layer leaves out.
        dead: Group -> how many cannot matter: their state never changes or is not finite, or nothing hears them.
        saturated: Group -> how many are nearly always at a bound of their activation.
        left_out: Neurons of the wiring that the layer does not compute, in every head.
        dead_neurons: Which ones, and why.
        saturated_neurons: Which ones, and why.
        keys_mean: [H] effective number of keys, exp(entropy of the attention weights), over the recorded steps.
        keys_min: [H] of the step that has the fewest.
        keys_max: [H] of the step that has the most.
        phi_std: [H] standard deviation of phi over the recorded pairs: a head whose gate is flat chooses nothing.
        omega_std: [H] the same of omega.
    """

    layer: str
    neurons: dict[str, int]
    dead: dict[str, int]
    saturated: dict[str, int]
    left_out: int
    dead_neurons: tuple[NeuronFinding, ...]
    saturated_neurons: tuple[NeuronFinding, ...]
    keys_mean: NDArray[np.float64]
    keys_min: NDArray[np.float64]
    keys_max: NDArray[np.float64]
    phi_std: NDArray[np.float64]
    omega_std: NDArray[np.float64]


def health(recording: Recording, layer: str | None = None) -> Health:
    """Look for neurons of a recorded layer that do nothing.

    Args:
        recording: The recording; it must hold its model.
        layer: Name of the layer; None for the only one.

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
        for given in _inputs(recording, sample, next(model.parameters()).dtype):
            with watching(model, lambda name, _: seen[name]):
                outputs_of(model, *given)
    module = seen[chosen.name].layer
    dead, saturated = judge_neurons(module, seen[chosen.name].found)
    left_out = module.backbone.wiring.num_neurons - len(computed_neurons(module))
    keys, spread = _keys(chosen), {name: _std(chosen, name) for name in ("phi", "omega")}
    return Health(
        layer=chosen.name,
        neurons=_neurons(module, chosen),
        dead=_by_group(dead),
        saturated=_by_group(saturated),
        left_out=left_out,
        dead_neurons=dead,
        saturated_neurons=saturated,
        keys_mean=keys[0],
        keys_min=keys[1],
        keys_max=keys[2],
        phi_std=spread["phi"],
        omega_std=spread["omega"],
    )


class _Extremes:
    """An observer that keeps what `judge_neurons` wants to know of all calls, and nothing else."""

    def __init__(self, layer: NAC) -> None:
        self.layer, self.found = layer, Measures()
        self._scene: Scene | None = None

    def begin(self, scene: Scene) -> None:
        if scene.key.shape[2] != scene.query.shape[2]:
            raise ValueError(
                f"layer must attend to its own steps, got {scene.query.shape[2]} queries and {scene.key.shape[2]} "
                "keys; health does not know cross attention"
            )
        self._scene = scene

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        scene = self._scene
        assert scene is not None
        flat = torch.arange(rows.start, rows.stop) if scene.queries.rows is None else scene.queries.rows[rows]
        row, step = flat // scene.queries.length, flat % scene.queries.length
        names = ("index", "valid", "query", "key", "value")
        of_rows = {name: getattr(scene, name)[row, :, step].transpose(0, 1)[None] for name in names}
        groups = {name: x[None] for name, x in states_by_group(neurons, scene.wiring, gates.phi).items()}
        of_pairs = {name: None if x is None else x[None] for name, x in vars(gates).items()}  # [1, H, C, K]
        trace = Trace(**of_pairs, **groups, **of_rows, wiring=scene.wiring)  # pyright: ignore[reportArgumentType]
        steps = torch.ones(1, len(flat), dtype=torch.bool)
        found = measure_neurons(self.layer, trace, trace.valid, steps)
        self.found = {k: _MERGE[k[1]](self.found[k], v) for k, v in found.items()} if self.found else found


def _inputs(
    recording: Recording, sample: int, dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """What the model saw of a sample: x [B, T, ...], stamps and padding [B, T]; windows of a drive in batches."""
    length, window = recording.length("x", sample), recording.about.window

    def read(name: str, start: int = 0, stop: int = length) -> Tensor:
        return torch.from_numpy(np.asarray(recording.array(name)[sample, start:stop]))

    if not window:
        padding = read("padding").unsqueeze(0) if recording.has("padding") else None
        # Where no stamps were given, the recording counts steps, but the layers must not see that.
        stamped = any(layer.has("time") for layer in recording.layers.values())
        yield read("x").to(dtype).unsqueeze(0), read("time").unsqueeze(0) if stamped else None, padding
        return
    for first, stop in spans_of(length, window, _AT_ONCE):
        start = max(0, first - window + 1)
        frames, time = read("x", start, stop), read("time", start, stop)
        yield windows_of(frames, time, first - start, stop - start, window)[:3]


def _neurons(module: NAC, layer: LayerRecording) -> dict[str, int]:
    computed, wiring = computed_neurons(module), module.backbone.wiring
    backbone = Counter(wiring.groups[i] for i in computed)
    return {group: layer.heads * backbone.get(group, size) for group, size in layer.sizes.items()}


def _by_group(findings: tuple[NeuronFinding, ...]) -> dict[str, int]:
    count = Counter(finding.group for finding in findings)
    return {group: count[group] for group in GROUPS}


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
