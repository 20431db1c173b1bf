"""`draw_gates`: the gates and the logit of every head over time."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nacre._util.plotting import COLOURS, DASHES
from nacre.inspect.figures import panels, style
from nacre.inspect.recording.recording import LayerRecording, Recording

HEADS = len(COLOURS)  # drawn as lines; more are rows of colours
_CALM = 400  # moments up to which lines are bold
_WORDS = {
    "phi": "φ is the target of the attention logit a",
    "omega": "ω is the rate at which a goes there",
    "t": "the internal time t, from 0 to 1, says how far it has come",
    "match": "match is what query and key add to the target directly",
    "effect": "the effect s multiplies the value: below 0, it inhibits",
    "keys": "the effective number of keys is 1 if all attention is on one key, and n if it is even on n keys",
}


def draw_gates(recording: Recording, layer: str | None, sample: int) -> Figure:
    """Draw phi, omega, t, match, effect (those that there are), logit and effective number of keys over time.

    All are means over the attended keys, by attention weight. Heads are lines, or rows of colours if there are
    more than six.
    """
    seen = style.layer_of(recording, layer, sample)
    first, _ = seen.curve("gates", sample, 0, 0, seen.length(sample), style.POINTS)
    heads = "the only head" if seen.heads == 1 else f"all {seen.heads} heads"
    title = style.title_of(recording, seen, sample, f"Gates of {heads}, over time")
    figure = style.new_figure(2.0 + 1.1 * (1 + len(seen.gates)), title, _caption(recording, seen, sample, first))
    top, *rest = figure.subplots(1 + len(seen.gates), 1, sharex=True)
    panels.draw_input(top, recording, sample, style.times_of(recording, seen, sample, "x"))
    curves = [
        seen.curve("gates", sample, h, 0, seen.length(sample), style.POINTS)[1][:, 2] for h in range(seen.heads)
    ]
    values = np.stack(curves, -1)  # [p, gates, heads] means of the steps that a point stands for
    times = seen.time(sample)[first]
    asked = panels.asked_steps(recording, seen, sample, len(first))
    for column, (ax, gate) in enumerate(zip(rest, seen.gates, strict=True)):
        sign, words = style.GATES[gate]
        panels.name_row(ax, f"{sign}\n{words}")
        if seen.heads > HEADS:
            _draw_rows(ax, times, values[:, column], gate)
        else:
            _draw_heads(ax, times, values[:, column], asked)
        if gate == "keys" and seen.heads <= HEADS:
            ax.set_ylim(0.8, 1.05 * max(float(values[:, column].max()), 1.2))  # not only noise, if all is even
    if seen.heads <= HEADS:
        panels.name_lines(rest[0])
    panels.time_axis([top, *rest], recording, seen, sample)
    figure.align_ylabels([top, *rest])
    return figure


def _draw_heads(ax: Axes, times: NDArray, values: NDArray, asked: NDArray | None) -> None:
    """A line for each head, with dots at steps that were observed where others are only asked about."""
    keep = slice(None) if asked is None else asked
    width = 1.4 if len(times) <= _CALM else 0.9
    for head, (colour, dash) in enumerate(zip(COLOURS, DASHES, strict=True)):
        if head == values.shape[1]:
            break
        (line,) = ax.plot(times[keep], values[keep, head], color=colour, linewidth=width, label=f"head {head}")
        line.set_linestyle(dash if len(times) <= _CALM else "-")
        if len(times) < 3:
            line.set_marker("o")
        if asked is not None:
            ax.plot(times[~asked], values[~asked, head], ".", color=colour, markersize=2.5)
    style.frame(ax)


def _draw_rows(ax: Axes, times: NDArray, values: NDArray, gate: str) -> None:
    """A row of colours for each head."""
    low, high = 1.0 if gate == "keys" else float(values.min()), float(values.max())
    scale = Normalize(low, high if high > low else low + 1e-6)
    mesh = panels.draw_heat(ax, times, values, scale, matplotlib.colormaps["cividis"])
    heads = values.shape[1]
    ax.set_yticks(range(0, heads, max(1, -(-heads // 5))))
    panels.colour_bar(ax, mesh, style.GATES[gate][0])


def _caption(recording: Recording, layer: LayerRecording, sample: int, first: NDArray) -> str:
    words = _WORDS | ({"match": "match, of query and key, is where a starts"} if layer.starts else {})
    words = "; ".join(words[gate] for gate in layer.gates if gate in words)
    text = f"For each attended key, {words}. All are means over the attended keys, by attention weight. "
    if layer.heads > HEADS:
        text += "Each row of colours is a head; numbers at the left are heads. "
    if len(first) < layer.length(sample):
        text += f"Each point is the mean of {first[1] - first[0]} steps. "
    if layer.heads <= HEADS and panels.asked_steps(recording, layer, sample, len(first)) is not None:
        text += "Lines are steps that are asked about, dots are steps that were observed. "
    return text
