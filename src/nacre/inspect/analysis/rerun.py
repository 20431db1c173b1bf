"""`Rerun`: answers to the samples of a recording again, with a model that may have lesions."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from nacre.data.dataset import UNSCORED
from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.layer_writer import PAIR_GATES, gate_means
from nacre.inspect.recording.outputs import Outputs, from_tokens, outputs_of, tokens_of, windows_of
from nacre.inspect.recording.recording import Recording
from nacre.layer.pairs import Gates
from nacre.layer.trace import Scene
from nacre.tasks.metrics import score_classes, score_numbers
from nacre.tasks.network import TaskNetwork

_AT_ONCE = 256  # windows of a drive

Inputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]
"""x [B, T, ...], stamps, padding mask, and steps that only ask, [B, T] each."""


def inputs_of(
    recording: Recording, model: nn.Module, sample: int, at_once: int, steps: int | None = None
) -> Iterator[Inputs]:
    """What the model saw of a sample, or of its first steps; windows of a drive in batches of `at_once`."""
    length, window = recording.length("x", sample), recording.about.window
    length = min(length, steps or length)

    def read(name: str, start: int = 0, stop: int = length) -> Tensor:
        return torch.from_numpy(np.asarray(recording.array(name)[sample, start:stop]))

    if not window:
        # Where no layer was given stamps, the recording counts steps, but the layers must not see that.
        timed = isinstance(model, TaskNetwork) or any(layer.has("time") for layer in recording.layers.values())
        x = read("x").to(next(model.parameters()).dtype).unsqueeze(0)
        padding, asks = (read(m).unsqueeze(0) if recording.has(m) else None for m in ("padding", "query_only"))
        yield x, read("time").unsqueeze(0) if timed else None, padding, asks
        return
    for first in range(0, length, at_once):
        start, stop = max(0, first - window + 1), min(first + at_once, length)
        frames, time = read("x", start, stop), read("time", start, stop)
        yield *windows_of(frames, time, first - start, stop - start, window)[:3], None


class Rerun:
    """Runs a model on a sample of a recording as often as wanted. What comes before the layer is computed once.

    Args:
        recording: It must hold its model.
        sample: Number of the sample.
        steps: Only so many of its first steps; None for all.
    """

    def __init__(self, recording: Recording, sample: int, steps: int | None = None) -> None:
        self.recording, self.sample = recording, sample
        self.model = model = recording.model()
        given = inputs_of(recording, model, sample, _AT_ONCE, steps)
        self._given = [tokens_of(model, *one) if isinstance(model, TaskNetwork) else one for one in given]

    def gates(self, lesions: Sequence[Lesion], layer: str) -> Tensor:
        """Means [T, H, gates] of a layer's gates over the keys of each step, of the model with these lesions."""
        model = lesioned(self.model, lesions) if lesions else self.model
        layers, parts = self.recording.layers, []
        for given in self._given:
            with watching(model, lambda name, _: GateCurves(layers[name].gates)) as seen:
                self._run(model, given)
            curves = seen[layer].curves()  # [B, T, H, gates]
            if self.recording.about.window:
                padding = given[2]
                assert padding is not None
                last = (~padding).sum(1) - 1
                parts.append(curves[torch.arange(len(last)), last])
            else:
                parts.append(curves[0])
        return torch.cat(parts)

    def outputs(self, lesions: Sequence[Lesion] = ()) -> Outputs:
        """Answers [1, T, O] of the model with these lesions; those of a drive are one for each moment."""
        model = lesioned(self.model, lesions) if lesions else self.model
        parts = [self._run(model, given) for given in self._given]
        if self.recording.about.window:
            answers = [part.answer for part in parts if part.answer is not None]
            return Outputs(torch.cat(answers).unsqueeze(0), None)
        return parts[0]

    @staticmethod
    def _run(model: nn.Module, given: tuple[Tensor | None, ...]) -> Outputs:
        run = from_tokens if isinstance(model, TaskNetwork) else outputs_of
        return run(model, *given)  # pyright: ignore[reportArgumentType]


class GateCurves:
    """Observes the gates of every step of one layer, as means over its keys.

    `names` has gates, and "keys", as in a recording.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._scene: Scene | None = None
        self._seen: list[Tensor] = []

    def begin(self, scene: Scene) -> None:
        """Forget the call before."""
        self._scene, self._seen = scene, []

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        """Keep the means of some rows."""
        scene = self._scene
        assert scene is not None
        flat = scene.valid.transpose(0, 1).flatten(1, 2)  # [H, B * T, K]
        if scene.queries.rows is not None:
            flat = flat[:, scene.queries.rows]
        valid = flat[:, rows]
        gates_of = {name: getattr(gates, name) for name in PAIR_GATES}
        values = {name: x.masked_fill(~valid, 0) for name, x in gates_of.items() if x is not None}
        self._seen.append(gate_means(self._names, values, valid))  # [H, C, names]

    def curves(self) -> Tensor:
        """[B, T, H, names], zero at padding."""
        scene = self._scene
        assert scene is not None
        x = torch.cat(self._seen, 1).transpose(0, 1)  # [R, H, names]
        batch, length = scene.queries.batch, scene.queries.length
        if (kept := scene.queries.rows) is not None:
            x = x.new_zeros(batch * length, *x.shape[1:]).index_copy(0, kept, x)
        return x.unflatten(0, (batch, length))


def metric_of_samples(reruns: Sequence[Rerun], lesions: Sequence[Lesion] = ()) -> tuple[float, list[Tensor]]:
    """The task's metric over samples, and the answers [T or 1, O] to each, of a model with these lesions.

    The metric is NaN where the recording has no true answers.
    """
    recording, about = reruns[0].recording, reruns[0].recording.about
    answers, scored, truths = [], [], []
    for rerun in reruns:
        outputs = rerun.outputs(lesions)
        answer = outputs.curve[0] if outputs.answer is None else outputs.answer
        answers.append(answer)
        if recording.has("truth"):
            true = torch.from_numpy(np.asarray(recording.array("truth")[rerun.sample]))[: len(answer)]
            kept = true != UNSCORED if about.classes else ~true.isnan().any(-1)
            scored.append(answer[kept])
            truths.append(true[kept])
    if not sum(map(len, truths)):
        return float("nan"), answers
    outputs, truth = torch.cat(scored), torch.cat(truths)
    if about.classes:
        return score_classes(outputs, truth)[about.metric], answers
    return score_numbers(outputs, truth, torch.tensor(about.unit))[about.metric], answers
