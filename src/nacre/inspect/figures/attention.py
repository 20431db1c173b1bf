"""`draw_attention`: which keys each step attends to."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from nacre.inspect.figures import panels, style
from nacre.inspect.recording.recording import LayerRecording, Recording

CELLS = 400  # steps, and keys, up to which each is a cell of its own
_READ = 2**14  # steps at a time
_NEAR = 8  # arcs that span less than one in so many parts of a sample are shown larger
_FLAT = 12  # rows that need little room
_ARC = np.linspace(0, np.pi, 40)


@dataclass(frozen=True)
class AttentionMap:
    """How much attention of steps goes to keys."""

    share: NDArray  # [rows, columns] mean share of the attention of a step
    back: bool  # whether rows are steps back from the query, and not numbers of keys
    first: int  # what the first row stands for
    row: int  # keys of a row
    column: int  # steps of a column


def draw_attention(
    recording: Recording, layer: str | None, sample: int, head: int, step: int | None = None
) -> Figure:
    """Draw which keys each step of a head attends to, and how much; with a step, also arcs from it to its keys."""
    seen = style.layer_of(recording, layer, sample, head, step)
    found = attention_map(seen, sample, head)
    title = style.title_of(recording, seen, sample, f"Keys that head {head} attends to")
    tall = 3.0 if len(found.share) > _FLAT else 1.4
    heights = [0.9, tall] if step is None else [0.75, 0.9, tall]
    figure = style.new_figure(1.8 + 1.2 * sum(heights), title, _caption(found, step))
    *above, heat = figure.subplots(len(heights), 1, height_ratios=heights)
    if step is None:
        inputs = style.steps_of(recording, "x", sample)
        panels.draw_input(above[0], recording, sample, np.arange(inputs) * seen.length(sample) / inputs)
        above[0].set_xlim(-0.5, seen.length(sample) - 0.5)
        above[0].tick_params(labelbottom=False)
    else:
        _draw_step(above[0], above[1], recording, seen, sample, head, step)
    _draw_map(heat, found, seen.length(sample))
    heat.set_xlabel(_steps_label(recording, seen, sample), fontsize=style.TEXT)
    if step is not None:
        heat.axvline(step, color=style.NEGATIVE, linewidth=1.0, linestyle="--")
        heat.set_title(f"All steps (dashed: step {step})", loc="left", fontsize=style.TEXT)
    figure.align_ylabels([*above, heat])
    return figure


def attention_map(layer: LayerRecording, sample: int, head: int) -> AttentionMap:
    """How much attention of steps, or bins of steps, goes to keys, or bins of keys.

    Rows are steps back where all keys are near: within a quarter of the sample.
    """
    length = layer.length(sample)
    low, high, last = 0, 0, 0
    for start in range(0, length, _READ):
        index, weights, steps = _pairs(layer, sample, head, start, min(start + _READ, length))
        on = weights > 0
        if on.any():
            distance = (steps - index)[on]
            low, high = min(low, int(distance.min())), max(high, int(distance.max()))
            last = max(last, int(index[on].max()))
    back = length > 1 and high - low < length / 4
    first, rows = (low, high - low + 1) if back else (0, max(length, last + 1))
    row, column = -(-rows // CELLS), -(-length // CELLS)
    share = np.zeros((-(-rows // row), -(-length // column)))
    for start in range(0, length, _READ):
        index, weights, steps = _pairs(layer, sample, head, start, min(start + _READ, length))
        key = (steps - index if back else index) - first
        on = weights > 0
        np.add.at(share, (key[on] // row, np.broadcast_to(steps // column, key.shape)[on]), weights[on])
    in_column = np.minimum(length, (np.arange(share.shape[1]) + 1) * column) - np.arange(share.shape[1]) * column
    return AttentionMap(share / in_column, back, first, row, column)


def _pairs(
    layer: LayerRecording, sample: int, head: int, start: int, stop: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Keys and weights [n, K] of steps, 0 where there is no key, and the steps [n, 1]."""
    index, weights, valid = (
        np.asarray(layer.array(name)[sample, start:stop, head]) for name in ("index", "weights", "valid")
    )
    return index.astype(np.int64), np.where(valid, weights, 0.0), np.arange(start, stop)[:, None]


def _draw_map(ax: Axes, found: AttentionMap, length: int) -> None:
    rows, columns = found.share.shape
    y = found.first + np.arange(rows + 1) * found.row - 0.5
    x = np.minimum(np.arange(columns + 1) * found.column, length) - 0.5
    scale = Normalize(0, max(float(found.share.max()), 1e-9))
    mesh = ax.pcolormesh(x, y, found.share, cmap=style.SEQUENTIAL, norm=scale, rasterized=True)
    panels.colour_bar(ax, mesh, "share of the\nstep's attention")
    ax.tick_params(labelsize=style.SMALL)
    for axis, cells in ((ax.xaxis, length), (ax.yaxis, rows * found.row)):
        axis.set_major_locator(MaxNLocator(integer=True) if cells > 1 else FixedLocator([0]))
    panels.name_row(ax, "key, in\nsteps back" if found.back else "key\n(step)")


def _draw_step(
    arcs: Axes, below: Axes, recording: Recording, layer: LayerRecording, sample: int, head: int, step: int
) -> None:
    """Arcs from a step to its keys, above the input around them."""
    index, weights, _ = _pairs(layer, sample, head, step, step + 1)
    keys, weights = index[0][weights[0] > 0], weights[0][weights[0] > 0]
    length = max(layer.length(sample), int(keys.max(initial=0)) + 1)
    first, last = min(step, keys.min(initial=step)), max(step, keys.max(initial=step))
    near = last - first < length / _NEAR
    span = (first - 0.6, last + 0.6) if near else (-0.5, length - 0.5)
    _draw_arcs(arcs, step, keys, weights, span)
    inputs = style.steps_of(recording, "x", sample)
    if near and recording.has_frames and inputs == length:
        count = min(panels.frames_across(recording), last - first + 1)
        shown = np.unique(np.linspace(first, last, count).astype(int))
        panels.draw_frames(below, recording, sample, shown.tolist(), shown)
        panels.name_row(below, "input")
    else:
        panels.draw_input(below, recording, sample, np.arange(inputs) * length / inputs)
    arcs.set_title(_words(step, keys, weights), loc="left", fontsize=style.TEXT)
    for ax in (arcs, below):
        ax.set_xlim(*span)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    arcs.tick_params(labelbottom=False)


def _draw_arcs(ax: Axes, step: int, keys: NDArray, weights: NDArray, span: tuple[float, float]) -> None:
    across = span[1] - span[0]
    strength = weights / max(float(weights.max(initial=0.0)), 1e-9)
    lines = []
    for key in keys:
        # An arc to the step itself is a narrow loop.
        half = (key - step) / 2 if key != step else 0.02 * across
        middle = (key + step) / 2
        height = 0.35 + 0.6 * abs(key - step) / across
        lines.append(np.column_stack([middle - half * np.cos(_ARC), height * np.sin(_ARC)]))
    colours = [(*to_rgb(style.POSITIVE), 0.15 + 0.8 * s) for s in strength]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=0.4 + 1.8 * strength))
    ax.scatter(keys, np.zeros(len(keys)), s=8 + 30 * strength, color=style.POSITIVE, zorder=3, clip_on=False)
    ax.plot([step], [0], marker="D", color=style.NEGATIVE, markersize=7, zorder=4, clip_on=False)
    ax.set_ylim(0, 1.02)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)
    panels.name_row(ax, "attention")


def _words(step: int, keys: NDArray, weights: NDArray) -> str:
    """What the arcs show."""
    if not len(keys):
        return f"Step {step} (diamond) attends to no key"
    low, high = (f"{w:.2f}" if w >= 0.01 else f"{w:.1g}" for w in (weights.min(), weights.max()))
    each = f"of weight {low}" if low == high else f"of weights {low} to {high}"
    return f"Step {step} (diamond) attends to {len(keys)} {'key' if len(keys) == 1 else 'keys'} {each}"


def _steps_label(recording: Recording, layer: LayerRecording, sample: int) -> str:
    """Label of the axis of steps, with the time that they take."""
    if not layer.has("time"):
        return "query (step)"
    first, last = layer.time(sample)[[0, -1]]
    ends = f"{style.number(first)} to {style.number(last)} {recording.about.time_unit}"
    return f"query (step; time from {ends.strip()})"


def _caption(found: AttentionMap, step: int | None) -> str:
    column = "a step" if found.column == 1 else f"the mean of {found.column} steps"
    row = "a key" if found.row == 1 else f"the sum over {found.row} keys"
    text = f"Each column is {column}, each row {row}: the darker, the more attention of the step goes to the key. "
    if step is not None:
        text += "The wider and darker an arc, the more attention it carries; a loop is the step itself. "
    return text
