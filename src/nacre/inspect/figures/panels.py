"""Panels that several figures have: curves, heat maps and frames over time, the input, and the answer."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nacre._util.plotting import COLOURS
from nacre.inspect.figures import style
from nacre.inspect.recording.recording import LayerRecording, Recording
from nacre.tasks.controls.simple import SEEN

LINES = len(COLOURS)  # curves that a panel has room for; more are a heat map
_ROOM = 390.0  # points that a strip of frames may take
LETTERS = 14  # of a name
_MUCH = 10  # times a curve's reach that the reach of all may be, if they are to share a scale


def name_row(ax: Axes, name: str) -> None:
    """Write the name of a panel to its left."""
    ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=style.TEXT, labelpad=8)
    ax.yaxis.label.set_multialignment("right")


def draw_lines(
    ax: Axes,
    times: NDArray,
    values: NDArray,
    names: Sequence[str],
    *,
    marker: str = "",
    line: str = "-",
    letters: int = LETTERS,
) -> None:
    """Curves [p, n] over moments [p], of six at most, with their names beside the panel."""
    few = marker or ("o" if len(times) < 3 else "")
    for column, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        label = style.short(name, letters)
        (drawn,) = ax.plot(times, values[:, column], color=colour, linewidth=1.3, linestyle=line, label=label)
        drawn.set(marker=few, markersize=3)
    name_lines(ax)
    style.frame(ax)


def name_lines(ax: Axes) -> None:
    """Names of the curves of a panel, beside it."""
    columns = 2 if len(ax.get_legend_handles_labels()[0]) > 4 else 1
    space = {"handlelength": 1.2, "labelspacing": 0.3, "borderaxespad": 0.4, "columnspacing": 0.8}
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), ncols=columns, **style.LEGEND, **space)


def draw_heat(
    ax: Axes, times: NDArray, values: NDArray, scale: Normalize, colours: Colormap = style.DIVERGING
) -> QuadMesh:
    """Rows of colours: values [p, n] over moments [p], the first row on top."""
    rows = np.arange(values.shape[1] + 1) - 0.5
    edges = style.edges_of(times)
    mesh = ax.pcolormesh(edges, rows, values.T, cmap=colours, norm=scale, rasterized=True)
    ax.set(ylim=(rows[-1], rows[0]), xlim=(edges[0], edges[-1]))
    ax.tick_params(labelsize=style.SMALL)
    ax.set_yticks([])
    return mesh


def time_axis(axes: Sequence[Axes], recording: Recording, layer: LayerRecording, sample: int) -> None:
    """One axis of time for stacked panels: numbers and a label below the last one."""
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
    axes[-1].set_xlabel(style.time_label(recording, layer), fontsize=style.TEXT)
    if not layer.has("time"):
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    first, last = layer.time(sample)[[0, -1]]
    axes[0].set_xlim((first, last) if last > first else (first - 0.5, first + 0.5))


def colour_bar(ax: Axes, mesh: ScalarMappable, label: str) -> None:
    """A scale of colours beside a panel, without taking room from it."""
    place = ax.inset_axes((1.012, 0.0, 0.014, 1.0))
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(mesh, cax=place)
    bar.ax.tick_params(labelsize=style.SMALL)
    if isinstance(mesh.norm, LogNorm):
        bar.minorticks_off()
        low, high = mesh.get_clim()
        ticks = np.geomspace(low, high, 3)
        bar.set_ticks(list(ticks), labels=[f"{tick:.1g}" for tick in ticks])
    else:
        bar.ax.locator_params(nbins=3)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.set_label(label, fontsize=style.SMALL)


def draw_many(ax: Axes, times: NDArray, values: NDArray, names: Sequence[str]) -> None:
    """Curves [p, n] as lines if they are few; else as rows of colours, each in units of its own spread."""
    if values.shape[1] <= LINES:
        draw_lines(ax, times, *scaled_apart(ax, values, names), letters=2 * LETTERS)
        return
    spread = values.std(0)
    scaled = (values - values.mean(0)) / np.where(spread > 0, spread, 1.0)
    mesh = draw_heat(ax, times, scaled, Normalize(-3, 3))
    colour_bar(ax, mesh, "standard\ndeviations")


def scaled_apart(ax: Axes, values: NDArray, names: Sequence[str]) -> tuple[NDArray, Sequence[str]]:
    """Curves [p, n] and their names, as they are if one scale shows them all; else each from 0 to 1.

    One scale does not show them all if it is ten times the reach of one of them.
    """
    low, high = values.min(0), values.max(0)
    reach = high - low
    if not (reach[reach > 0] * _MUCH < high.max() - low.min()).any():
        return values, [style.short(name, LETTERS) for name in names]
    ax.set_yticks([0, 1], labels=["least", "most"])
    known = [f"{style.short(name, 8)} {a:.3g} to {b:.3g}" for name, a, b in zip(names, low, high, strict=True)]
    return (values - low) / np.where(reach > 0, reach, 1.0), known


def asked_steps(recording: Recording, layer: LayerRecording, sample: int, points: int) -> NDArray | None:
    """Which points are steps that were only asked about; None where all were seen, or points are means."""
    names, length = recording.about.features, style.steps_of(recording, "x", sample)
    if SEEN not in names or not points == length == layer.length(sample):
        return None
    return np.asarray(recording.array("x")[sample, :length, names.index(SEEN)]) <= 0


def draw_input(ax: Axes, recording: Recording, sample: int, times: NDArray) -> None:
    """What the model was shown, over moments [steps]: frames of a drive, or curves of the features."""
    name_row(ax, "input")
    length = len(times)
    if recording.has_frames:
        count = min(frames_across(recording), length)
        places = np.linspace(times[0], times[-1], 2 * count + 1)[1::2] if times[-1] > times[0] else times[:1]
        draw_frames(ax, recording, sample, [int(np.abs(times - at).argmin()) for at in places], places)
        return
    first, rows = recording.curve("x", sample, 0, length, style.POINTS)
    values, names = rows[:, 2], recording.about.features
    if SEEN in names and len(first) == length:  # other steps hold zeros, which were not measured
        seen = values[:, names.index(SEEN)] > 0
        kept = [i for i, name in enumerate(names) if name != SEEN]
        shown = scaled_apart(ax, values[seen][:, kept], [names[i] for i in kept])
        draw_lines(ax, times[seen], *shown, marker=".", line="", letters=2 * LETTERS)
        return
    draw_many(ax, times[first], values, names)
    if len(names) > LINES:
        name_row(ax, f"input,\n{len(names)} features")


def frames_across(recording: Recording) -> int:
    """How many frames there is room for, side by side."""
    height, width = recording.array("x").shape[2:4]
    return max(1, int(_ROOM / (_side(height, width) * width / height + 4)))


def draw_frames(ax: Axes, recording: Recording, sample: int, steps: Sequence[int], places: NDArray) -> None:
    """Frames of a drive at some places of the axis."""
    for step, at in zip(steps, places, strict=True):
        image = image_of(np.asarray(recording.array("x")[sample, step]))
        box = OffsetImage(image, zoom=_side(*image.shape[:2]) / image.shape[0], cmap="gray")
        frame = AnnotationBbox(box, (at, 0.54), xycoords=("data", "axes fraction"), frameon=False, pad=0)
        frame.set_in_layout(False)
        ax.add_artist(frame)
        ax.plot([at, at], [0, 0.1], color=style.DARK, linewidth=0.8, transform=ax.get_xaxis_transform())
    ax.set_yticks([])
    ax.set_ylim(0, 1)
    ax.tick_params(labelsize=style.SMALL)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _side(height: int, width: int) -> float:
    """Height of a frame on paper, in points."""
    return 45.0 if width < 1.5 * height else 33.0


def image_of(frame: NDArray) -> NDArray:
    """A frame [height, width, colours] for matplotlib: three colours, or grey, from 0 to 1."""
    values = frame.astype(np.float32)
    if frame.dtype == np.uint8:
        values /= 255
    else:
        low, high = float(values.min()), float(values.max())
        values = (values - low) / max(high - low, 1e-9)
    return values if values.shape[-1] == 3 else values.mean(-1)
