"""`draw_activity`: what a head's neurons do over time, from the input to the answer."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nacre.inspect.figures import panels, style
from nacre.inspect.figures.answer import answer_height, draw_answer, over_outputs
from nacre.inspect.recording.layer_writer import OF_CIRCUIT
from nacre.inspect.recording.recording import LayerRecording, Recording
from nacre.layer.trace import MOTORS

THIN = 24  # single neurons that are lines; more are a heat map
_CALM = 400  # moments up to which a line is bold
_NAMED = ("query", "motor")  # panels that say what their lines are
_SIGNS = {"query": "query q", "key": "key k", "value": "value v"}


def draw_activity(recording: Recording, layer: str | None, sample: int, head: int) -> Figure:
    """Draw the input, the centroid and the single neurons of each group, and the answer, all over time."""
    seen = style.layer_of(recording, layer, sample, head)
    groups = [group for group, size in seen.sizes.items() if size]
    rows = [("input", 0.9)]
    for group in groups:
        rows += [(group, 0.62), (f"{group} heat", 0.78)] if seen.sizes[group] > THIN else [(group, 0.7)]
    rows.append(("answer", answer_height(recording)))
    heat = any(seen.sizes[group] > THIN for group in groups)
    figure = style.new_figure(
        2.1 + 1.12 * sum(height for _, height in rows),
        style.title_of(recording, seen, sample, f"Neurons of head {head}, from the input to the answer"),
        _caption(recording, seen, sample, heat=heat),
    )
    grid = figure.add_gridspec(len(rows), 1, height_ratios=[height for _, height in rows])
    axes: dict[str, Axes] = {}
    for i, (name, _) in enumerate(rows):
        apart = name == "answer" and over_outputs(recording, seen, sample)
        axes[name] = figure.add_subplot(grid[i], sharex=None if i == 0 or apart else axes["input"])
    _draw_neurons(axes, recording, seen, sample, head)
    panels.draw_input(axes["input"], recording, sample, style.times_of(recording, seen, sample, "x"))
    said = draw_answer(axes["answer"], recording, seen, sample)
    _label(axes, recording, seen, sample, said)
    figure.align_ylabels(list(axes.values()))
    return figure


def _draw_neurons(
    axes: dict[str, Axes], recording: Recording, layer: LayerRecording, sample: int, head: int
) -> None:
    """A panel for each group, and one more for the single neurons of a large one."""
    first, rows = layer.curve("states", sample, head, 0, layer.length(sample), style.POINTS)
    times = layer.time(sample)[first]
    states = rows[:, 2]  # [p, neurons] means of the steps that a point stands for
    asked = panels.asked_steps(recording, layer, sample, len(first))
    start = 0
    for group, size in layer.sizes.items():
        part, start = slice(start, start + size), start + size
        if not size:
            continue
        if size > THIN:
            heat, of_group = axes[f"{group} heat"], states[:, part]
            reach = style.reach_of(of_group)
            mesh = panels.draw_heat(heat, times, of_group[:, _order(of_group)], Normalize(-reach, reach))
            panels.name_row(heat, f"{size} {group}\nneurons")
            panels.colour_bar(heat, mesh, "state")
        else:
            _draw_thin(axes[group], times, rows[:, :, part], group, asked)
        _draw_centroid(axes[group], times, states[:, part].mean(1), group, asked)


def _order(states: NDArray) -> NDArray:
    """Neurons in the order of their loading on the first principal component."""
    centred = states - states.mean(0)
    if not centred.any():
        return np.arange(states.shape[1])
    share = np.linalg.svd(centred.astype(float), full_matrices=False)[2][0]
    return np.argsort(-share * np.sign(share.sum() or 1.0), kind="stable")


def _draw_thin(ax: Axes, times: NDArray, rows: NDArray, group: str, asked: NDArray | None) -> None:
    """Single neurons, and how far they reach where points are means of several steps."""
    keep = slice(None) if asked is None else asked
    few = "." if len(times) < 3 else None
    if not np.array_equal(rows[:, 0], rows[:, 1]):
        low, high = rows[:, 0].min(1), rows[:, 1].max(1)
        ax.fill_between(times, low, high, color="#e9e9e9", linewidth=0, zorder=1.2)
    lines = ax.plot(times[keep], rows[keep, 2], color=style.PALE, linewidth=0.7, marker=few, zorder=1.5)
    if group == "motor":
        for line, gate, dash in zip(lines, MOTORS, ("-", "--", ":"), strict=False):
            line.set(color=style.DARK, linestyle=dash, linewidth=0.9, label=f"neuron of {style.GATES[gate][0]}")


def _draw_centroid(ax: Axes, times: NDArray, centroid: NDArray, group: str, asked: NDArray | None) -> None:
    """A line; dots at steps that were observed, where other steps are only asked about."""
    colour = style.GROUP_COLOURS[group]
    keep = slice(None) if asked is None else asked
    width = 1.7 if len(times) <= _CALM else 1.1
    (line,) = ax.plot(times[keep], centroid[keep], color=colour, linewidth=width, label="centroid")
    if len(times) < 3:
        line.set_marker("o")
    if asked is not None:
        ax.plot(times[~asked], centroid[~asked], ".", color=colour, markersize=3, label="observed")
    if group in _NAMED:
        panels.name_lines(ax)
    panels.name_row(ax, _SIGNS.get(group, group))
    style.frame(ax)


def _caption(recording: Recording, layer: LayerRecording, sample: int, *, heat: bool) -> str:
    text = f"A centroid is the mean over the neurons of a group. {style.pair_states(layer)} "
    if heat:
        text += "Rows of colours are single neurons, sorted so that those that change together lie side by side. "
    length = layer.length(sample)
    first, _ = layer.curve("gates", sample, 0, 0, length, style.POINTS)
    if len(first) < length:
        text += (
            f"Each point is the mean of {first[1] - first[0]} steps; grey fields reach from the smallest state of "
            "these steps to the largest. "
        )
    if panels.asked_steps(recording, layer, sample, len(first)) is not None:
        text += "Lines are steps that are asked about, dots are steps that were observed. "
    return text


def _label(axes: dict[str, Axes], recording: Recording, layer: LayerRecording, sample: int, said: str) -> None:
    """Letters and titles of the parts, and the axis of time below the last panel that has it."""
    sizes = layer.sizes
    shown = "frames" if recording.has_frames else "features"
    titles = {
        "input": f"(A) Input: {shown}",
        "query": f"(B) Sensory neurons, {sizes['query']} in each group: centroid (bold) and single neurons",
        next(g for g in OF_CIRCUIT if sizes[g]): "(C) Neurons of the circuit: centroid (bold) and single neurons",
        "answer": f"(D) Answer: {said}",
    }
    for name, title in titles.items():
        axes[name].set_title("\n".join(style.wrap(title, 6.2, style.TEXT)), loc="left", fontsize=style.TEXT)
    last = ["answer"] if over_outputs(recording, layer, sample) else []  # which has an axis of its own
    panels.time_axis([ax for name, ax in axes.items() if name not in last], recording, layer, sample)
