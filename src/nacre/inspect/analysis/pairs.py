"""`pairs_of`: states of the circuit in single pairs, with the time from key to query.

Recordings of runs keep means over keys only, so the recorded model runs on the recorded samples again. Where there
are many pairs, steps are drawn at random: memory stays bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.inspect.analysis.rerun import inputs_of
from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.layer_writer import OF_CIRCUIT
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.recording import LayerRecording, Recording
from nacre.layer.pairs import Gates
from nacre.layer.trace import Observer, Scene, states_by_group

GATES = ("phi", "omega", "logits", "effect")  # the last one only with inhibition
_AT_ONCE = 32  # moments of a drive


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of one head, step by step, in each step by the key's position. C columns."""

    elapsed: NDArray[np.float64]  # [n] time from key to query, negative for later keys
    states: NDArray[np.float64]  # [n, C] neurons by group as in `OF_CIRCUIT`, then those of `GATES` that there are
    lengths: NDArray[np.int64]  # [steps] how many pairs each step has
    sample: NDArray[np.int64]  # [steps] which sample it is of


def pairs_of(
    recording: Recording, layer: LayerRecording, most: int, seed: int = 0, lesions: Sequence[Lesion] = ()
) -> list[Pairs]:
    """Pairs of each head of a layer, about `most` of each head if there are more, of a model with these lesions.

    Time has the unit of the layer's stamps. Without stamps it is the number of valid steps from key to query, as
    it is for clock neurons.

    Raises:
        ValueError: If the recording holds no model, or the layer attends to other steps than its own.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(1, 60, 16), out=tmp / "look")
        >>> first, second = pairs_of(recording, recording.layers["nac"], most=10_000)
        >>> first.elapsed.shape, first.states.shape, int(first.lengths.sum())
        ((480,), (480, 45), 480)
    """
    model = lesioned(recording.model(), lesions)
    steps = sum(layer.length(sample) for sample in range(recording.samples))
    share = min(1.0, most / max(1, steps * layer.array("index").shape[-1]))
    mine = _Collector(layer.heads, share, last=recording.about.window > 0, seed=seed)
    others = _Blind()
    for sample in range(recording.samples):
        mine.sample = sample
        for given in inputs_of(recording, model, sample, _AT_ONCE):

            def observer(name: str, _: object) -> Observer:
                return mine if name == layer.name else others

            with watching(model, observer):
                outputs_of(model, *given)
    return mine.pairs()


class _Blind:
    """Sees nothing."""

    def begin(self, scene: Scene) -> None:
        pass

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        pass


class _Collector:
    """Keeps the pairs of a random share of the steps; of windows of a drive, those of the last frame."""

    def __init__(self, heads: int, share: float, *, last: bool, seed: int) -> None:
        self._share, self._last, self._random = share, last, np.random.default_rng(seed)
        self._parts: list[list[list[NDArray]]] = [[] for _ in range(heads)]  # what `Pairs` has
        self.sample = 0
        self._scene: Scene | None = None

    def begin(self, scene: Scene) -> None:
        scene.require_own_steps()
        self._scene = scene
        batch, length, rows = scene.queries.batch, scene.queries.length, scene.queries.rows
        valid = torch.ones(batch * length, dtype=torch.bool)
        if rows is not None:
            valid = torch.zeros_like(valid).index_fill(0, rows.cpu(), True)
        valid = valid.view(batch, length)
        rank = valid.cumsum(1)
        self._moment = rank.double() if scene.stamps is None else scene.stamps  # [B, T]
        kept = torch.from_numpy(self._random.random((batch, length)) < self._share) & valid
        if self._last:
            kept &= rank == rank[:, -1:]
        self._kept = kept.flatten()

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        scene = self._scene
        assert scene is not None
        flat = scene.queries.places(rows)
        on = self._kept[flat]
        row, step = flat[on] // scene.queries.length, flat[on] % scene.queries.length
        groups = {"clock": gates.clock, **states_by_group(neurons, scene.wiring, gates.phi)}
        columns = [x[:, on] for name in OF_CIRCUIT if (x := groups[name]) is not None]
        columns += [x[:, on].unsqueeze(-1) for name in GATES if (x := getattr(gates, name)) is not None]
        states = torch.cat([x.double() for x in columns], -1)  # [H, C, K, columns]
        for head, parts in enumerate(self._parts):
            index, valid = (x[row, head, step] for x in (scene.index, scene.valid))  # [C, K]
            elapsed = self._moment[row, step].unsqueeze(1) - self._moment[row.unsqueeze(1), index]
            lengths = valid.sum(1)
            lengths = lengths[lengths > 0]
            part = elapsed[valid], states[head][valid], lengths, torch.full_like(lengths, self.sample)
            parts.append([x.cpu().numpy() for x in part])

    def pairs(self) -> list[Pairs]:
        """What was kept, of each head."""
        return [Pairs(*(np.concatenate(x) for x in zip(*parts, strict=True))) for parts in self._parts]
