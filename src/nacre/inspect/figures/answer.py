"""The panel of the answer, and of the truth."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from nacre._util.plotting import COLOURS
from nacre.data.dataset import UNSCORED
from nacre.inspect.figures import panels, style
from nacre.inspect.recording.recording import LayerRecording, Recording

_CLASSES = 12  # that have room


def over_outputs(recording: Recording, layer: LayerRecording, sample: int) -> bool:
    """Whether the answer is a row of numbers for the whole sample, as in a forecast, and no curve over time."""
    steps = recording.length("output", sample)
    once = recording.about.once or steps == 1 < layer.length(sample)
    many = recording.array("output").shape[-1] > panels.LINES or steps == 1
    return once and many and not recording.about.classes


def answer_height(recording: Recording) -> float:
    """Height of the panel: classes need a line each."""
    return max(0.95, 0.17 * min(len(recording.about.outputs), _CLASSES)) if recording.about.classes else 0.95


def draw_answer(ax: Axes, recording: Recording, layer: LayerRecording, sample: int) -> str:
    """Draw what the model answered, and what is true, and return in words what the panel shows.

    The axis is the layer's time, or, where `over_outputs` holds, the number of the output.
    """
    panels.name_row(ax, "answer")
    if over_outputs(recording, layer, sample):
        return _draw_row(ax, recording, sample)
    times = style.times_of(recording, layer, sample, "output")
    first, rows = recording.curve("output", sample, 0, len(times), style.POINTS)
    draw = _draw_classes if recording.about.classes else _draw_numbers
    return draw(ax, recording, sample, times, first, rows[:, 2].astype(float))


def _draw_classes(
    ax: Axes, recording: Recording, sample: int, times: NDArray, first: NDArray, scores: NDArray
) -> str:
    """Shares of classes over time, with a dot for the true one."""
    names = recording.about.outputs
    shares = _softmax(scores)
    truth = _truth(recording, sample)
    shown = np.sort(np.argsort(-shares.mean(0), kind="stable")[:_CLASSES])
    mesh = panels.draw_heat(ax, times[first], shares[:, shown], Normalize(0, 1), style.SEQUENTIAL)
    ax.set_yticks(range(len(shown)), [style.short(names[i], panels.LETTERS) for i in shown], fontsize=style.SMALL)
    ax.tick_params(axis="y", length=0)
    panels.colour_bar(ax, mesh, "share")
    left_out = f"; {len(shown)} of {len(names)} classes" if len(shown) < len(names) else ""
    if truth is None:
        return f"share of each class{left_out}"
    row = {int(c): i for i, c in enumerate(shown)}
    if len(truth) == 1:
        answer = scores[-1] if not recording.has("answer") else np.asarray(recording.array("answer")[sample, 0])
        said, true = int(answer.argmax()), int(truth[0])
        known = f", true is {names[true]!r}" if true != UNSCORED else ""
        return f"share of each class step by step{left_out}; the answer is {names[said]!r}{known}"
    true = truth[first]
    there = np.array([int(c) in row for c in true], bool)
    y = [row[int(c)] for c in true[there]]
    ax.plot(times[first][there], y, linestyle="", marker=".", markersize=2.5, color=COLOURS[1])
    return f"share of each class (blue){left_out}, and the true one (vermilion dots)"


def _draw_numbers(
    ax: Axes, recording: Recording, sample: int, times: NDArray, first: NDArray, values: NDArray
) -> str:
    """Numbers over time, with dots or a line for the true ones."""
    names, truth = recording.about.outputs, _truth(recording, sample)
    if truth is None or values.shape[1] > panels.LINES:
        panels.draw_many(ax, times[first], values, names)
        return "what the model gives" + (f", {len(names)} numbers" if len(names) > panels.LINES else "")
    if len(truth) == 1:
        panels.draw_lines(ax, times[first], values, names)
        for column, colour in zip(range(values.shape[1]), COLOURS, strict=False):
            ax.axhline(float(truth[0, column]), color=colour, linewidth=1.0, linestyle=":")
            if recording.has("answer"):
                answer = float(np.asarray(recording.array("answer")[sample, 0, column]))
                ax.plot(times[-1], answer, "D", color=colour, markersize=5, clip_on=False, zorder=4)
        return "step by step (lines), of the whole sample (diamonds), and the truth (dotted)"
    true = truth[first]
    scored = ~np.isnan(true).any(1)
    panels.draw_lines(ax, times[first][scored], values[scored], names)
    for column, colour in zip(range(values.shape[1]), COLOURS, strict=False):
        ax.plot(times[first][scored], true[scored, column], linestyle="", marker=".", markersize=3, color=colour)
    kind = "" if scored.all() else " where it is asked"
    return f"what the model says{kind} (lines), and the truth (dots)"


def _draw_row(ax: Axes, recording: Recording, sample: int) -> str:
    """Numbers of one answer, in their order."""
    name = "answer" if recording.has("answer") else "output"
    answer, truth = np.asarray(recording.array(name)[sample, 0], float), _truth(recording, sample)
    number = np.arange(1, len(answer) + 1)
    ax.plot(number, answer, color=COLOURS[0], linewidth=1.5, marker="o", markersize=3, label="model")
    if truth is not None:
        ax.plot(number, truth[0], color=COLOURS[1], linewidth=0, marker="D", markersize=3.5, label="truth")
    ax.set_xlabel("number of the output", fontsize=style.TEXT)
    panels.name_lines(ax)
    style.frame(ax)
    names = recording.about.outputs
    return f"numbers of the whole sample, {names[0]} to {names[-1]}" if names else "numbers of the whole sample"


def _truth(recording: Recording, sample: int) -> NDArray | None:
    if not recording.has("truth"):
        return None
    truth = np.asarray(recording.array("truth")[sample])
    return truth if len(truth) == 1 else truth[: recording.length("output", sample)]


def _softmax(scores: NDArray) -> NDArray:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
