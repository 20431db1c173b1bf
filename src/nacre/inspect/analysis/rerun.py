"""`Rerun`: answers to the samples of a recording again, with a model that may have lesions."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nacre.data.dataset import UNSCORED
from nacre.inspect.analysis.gate_curves import GateCurves
from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.outputs import Outputs, from_tokens, outputs_of, spans_of, windows_of
from nacre.inspect.recording.recording import Recording
from nacre.tasks.metrics import score_classes, score_numbers
from nacre.tasks.network import TaskNetwork

_AT_ONCE = 256  # windows of a drive


class Rerun:
    """Shows a sample to a model, once more and as often as wanted. What lies before the layer is computed once.

    Args:
        recording: Where the sample is; it must hold its model.
        sample: Which one.
        steps: Only so many of its first steps; None for all. For drives, and for studies that need not see all.
    """

    def __init__(self, recording: Recording, sample: int, steps: int | None = None) -> None:
        about = recording.about
        self.recording, self.sample = recording, sample
        self.model = recording.model()
        length = min(recording.length("x", sample), steps or recording.length("x", sample))
        x = torch.from_numpy(np.asarray(recording.array("x")[sample, :length]))
        time = torch.from_numpy(np.asarray(recording.array("time")[sample, :length]))
        # Where no layer was given stamps, those of the recording are made up.
        timed = isinstance(self.model, TaskNetwork) or any(seen.has("time") for seen in recording.layers.values())
        padding = None
        if recording.has("padding"):
            padding = torch.from_numpy(np.asarray(recording.array("padding")[sample, :length])).unsqueeze(0)
        self._windows = about.window > 0
        if self._windows:
            self._given = [
                windows_of(x, time, first, stop, about.window)[:3]
                for first, stop in spans_of(length, about.window, _AT_ONCE)
            ]
        else:
            weight = next(self.model.parameters())
            stamps = time.unsqueeze(0) if timed else None
            self._given = [(x.to(weight.dtype).unsqueeze(0), stamps, padding)]
        if isinstance(self.model, TaskNetwork):
            with torch.no_grad():
                self._given = [self._tokens(self.model, *given) for given in self._given]

    @staticmethod
    def _tokens(
        network: TaskNetwork, x: Tensor, time: Tensor | None, padding: Tensor | None
    ) -> tuple[Tensor, ...]:
        assert time is not None  # its layer was given stamps
        padding = torch.zeros(time.shape, dtype=torch.bool) if padding is None else padding
        return network.tokens(x, time, padding)

    def gates(self, lesions: Sequence[Lesion], layer: str) -> Tensor:
        """Means [T, H, gates] of a layer's gates over the keys of each step, of the model with these lesions."""
        model = lesioned(self.model, lesions) if lesions else self.model
        layers, parts = self.recording.layers, []
        for given in self._given:
            with watching(model, lambda name, _: GateCurves(layers[name].gates)) as seen:
                self._run(model, given)
            curves = seen[layer].curves()  # [B, T, H, gates]
            if self._windows:
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
        if self._windows:
            answers = [part.answer for part in parts if part.answer is not None]
            return Outputs(torch.cat(answers).unsqueeze(0), None)
        return parts[0]

    @staticmethod
    def _run(model: nn.Module, given: tuple[Tensor | None, ...]) -> Outputs:
        run = from_tokens if isinstance(model, TaskNetwork) else outputs_of
        return run(model, *given)  # pyright: ignore[reportArgumentType]

    def truth(self) -> NDArray | None:
        """True answers [T or 1, ...]; None where the recording has none."""
        if not self.recording.has("truth"):
            return None
        return np.asarray(self.recording.array("truth")[self.sample])


def metric_of_samples(reruns: Sequence[Rerun], lesions: Sequence[Lesion] = ()) -> tuple[float, list[Tensor]]:
    """The task's figure over samples, and the answers [T or 1, O] to each, of a model with these lesions.

    The figure is NaN where the recording has no true answers.
    """
    about = reruns[0].recording.about
    answers, scored, truths = [], [], []
    for rerun in reruns:
        outputs = rerun.outputs(lesions)
        answer = outputs.curve[0] if outputs.answer is None else outputs.answer
        answers.append(answer)
        truth = rerun.truth()
        if truth is not None:
            true = torch.from_numpy(truth[: len(answer)])
            kept = true != UNSCORED if about.classes else ~true.isnan().any(-1)
            scored.append(answer[kept])
            truths.append(true[kept])
    if not truths or not sum(map(len, truths)):
        return float("nan"), answers
    outputs, truth = torch.cat(scored), torch.cat(truths)
    if about.classes:
        return score_classes(outputs, truth)[about.metric], answers
    return score_numbers(outputs, truth, torch.tensor(about.unit))[about.metric], answers
