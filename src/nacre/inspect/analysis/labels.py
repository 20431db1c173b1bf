"""`labels_of`: what each step of a layer is about, as a few classes that analyses can compare.

Labels are the true answers, or the model's. Numbers are cut into "low", "middle" and "high" at their terciles.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice, there_are
from nacre.data.dataset import UNSCORED
from nacre.inspect.options import What
from nacre.inspect.recording.hooks import choose_layer
from nacre.inspect.recording.recording import LayerRecording, Recording

THIRDS = ("low", "middle", "high")
UNLABELLED = -1
_READ = 2**14  # steps at a time
_SLACK = 1e-7  # share of a sample's duration by which stamps may be off


@dataclass(frozen=True)
class Labels:
    """A label for every step of a layer."""

    names: tuple[str, ...]
    of_step: list[NDArray[np.int64]]  # for each sample, [T] labels of the layer's steps; -1 where there is none
    per_sample: bool  # whether all steps of a sample have the same label

    @property
    def counts(self) -> NDArray[np.int64]:
        """[L] how many steps have each label."""
        total = np.zeros(len(self.names), np.int64)
        for x in self.of_step:
            total += np.bincount(x[x >= 0], minlength=len(self.names))
        return total


def layer_of(recording: Recording, name: str | None) -> LayerRecording:
    """A layer of a recording; None for its only one.

    Raises:
        ValueError: If there is no such layer, or several to choose from.
    """
    return recording.layers[choose_layer(recording.layers, name, "a layer of the recording")]


def labels_of(
    recording: Recording, layer: str | None = None, what: str = "truth", output: str | None = None
) -> Labels:
    """Labels of all steps of a layer.

    Where a layer has other steps than its input, because of strided convolutions, a step has the label of the last
    step of the input that is not later.

    Args:
        recording: Made by `record` or `record_run`.
        layer: Name of the layer; None for the only one.
        what: "truth" for the true answers, "answer" for those of the model.
        output: For numbers, the name of the one that is cut into thirds; None for the first.

    Raises:
        ValueError: If the recording has no such answers, or the steps of the layer cannot be matched with them.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(2, 30, 16), out=tmp / "look")
        >>> labels_of(recording, what="answer", output="y3").counts.tolist()
        [20, 20, 20]
    """
    choice("what", what, What)
    about, chosen = recording.about, layer_of(recording, layer)
    column = _column(recording, output)
    given = [_given(recording, sample, What(what), column) for sample in range(recording.samples)]
    names = about.outputs
    if not about.classes:
        names, given = THIRDS, _thirds(given)
    of_step = []
    for sample, label in enumerate(given):
        place = _input_steps(recording, chosen, sample)  # [T]
        steps = _places(recording, chosen, sample, len(label), place)
        of_step.append(np.where(recording.padding(sample)[place], UNLABELLED, label[steps]).astype(np.int64))
    return Labels(names, of_step, per_sample=all(len(label) == 1 for label in given))


def _column(recording: Recording, output: str | None) -> int | None:
    """Column of the output; None for classes."""
    about = recording.about
    if about.classes:
        if output is not None:
            raise ValueError(f"output chooses one of several numbers, got {output!r}, but the answers are classes")
        return None
    if output is None:
        return 0
    if output not in about.outputs:
        raise ValueError(f"output must name an output, got {output!r}; {there_are(output, about.outputs)}")
    return about.outputs.index(output)


def _given(recording: Recording, sample: int, what: What, column: int | None) -> NDArray:
    """[n] classes, -1 for none, or numbers, NaN for none: one for each step, or one for the sample."""
    about = recording.about
    if what is What.TRUTH:
        if not recording.has("truth"):
            raise ValueError('what must be "answer", got "truth", but the recording has no true answers')
        array, steps = recording.array("truth"), 1 if about.once else recording.length("x", sample)
        if column is None:
            classes = np.asarray(array[sample, :steps], np.int64)
            return np.where(classes == UNSCORED, UNLABELLED, classes)
    elif about.once:
        array, steps = recording.array("answer"), 1
    else:
        array, steps = recording.array("output"), recording.length("output", sample)
    if column is not None:
        values = np.asarray(array[sample, :steps, column], np.float64)
        if len(values) == recording.length("x", sample):
            values[recording.padding(sample)] = np.nan
        return values
    blocks = range(0, steps, _READ)
    return np.concatenate([np.asarray(array[sample, i : min(i + _READ, steps)]).argmax(-1) for i in blocks])


def _thirds(values: list[NDArray]) -> list[NDArray]:
    """Cut numbers at their terciles over all samples; where both are one number, the middle is that number."""
    known = np.concatenate(values)
    known = known[~np.isnan(known)]
    first, second = np.quantile(known, [1 / 3, 2 / 3]) if len(known) else (0.0, 0.0)
    found = []
    for x in values:
        low = x < first if first == second else x <= first
        found.append(np.select([np.isnan(x), low, x > second], [UNLABELLED, 0, 2], 1))
    return found


def _input_steps(recording: Recording, layer: LayerRecording, sample: int) -> NDArray[np.int64]:
    """[T] the step of the input that each step of a layer belongs to."""
    steps, valid = layer.length(sample), np.flatnonzero(~recording.padding(sample))
    inputs = int(valid[-1]) + 1 if len(valid) else 0  # padding at the end is no step of the layer
    if steps == inputs:
        return np.arange(steps)
    if not layer.has("time"):
        raise ValueError(
            f"layer {layer.name!r} has no stamps and {steps} steps in sample {sample}, where its input has "
            f"{inputs}; its steps cannot be matched, record it with time"
        )
    time, stamps = np.asarray(recording.array("time")[sample, :inputs]), layer.time(sample)
    # Task networks count time from the first stamp on, a layer by itself has the stamps as they are.
    origin = min(time[0], 0.0, key=lambda start: abs(stamps[-1] + start - time[-1]))
    latest = stamps + _SLACK * (time[-1] - time[0])
    return (np.searchsorted(time - origin, latest, side="right") - 1).clip(min=0)


def _places(
    recording: Recording, layer: LayerRecording, sample: int, count: int, place: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[T] which of `count` answers each step of a layer has."""
    steps, inputs = layer.length(sample), recording.length("x", sample)
    if count == 1:
        return np.zeros(steps, np.int64)
    if count == inputs:
        return place
    if count == steps:
        return np.arange(steps)
    raise ValueError(
        f"the model gives {count} answers to sample {sample}, which has {inputs} steps and {steps} in layer "
        f"{layer.name!r}; wanted an answer for each step, or one for the sample"
    )
