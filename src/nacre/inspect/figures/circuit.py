"""`draw_circuit`: the circuit of one head, with the states of its neurons at one step."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from nacre.inspect.analysis.strengths import head_weights
from nacre.inspect.figures import style
from nacre.inspect.recording.recording import LayerRecording, Recording
from nacre.layer.trace import BACKBONE, MOTORS

DRAWN = 320  # synapses
_TALL = 36  # neurons one above the other
_PATH = np.linspace(0, 1, 16)[:, None]  # points along a synapse
_COLUMNS = {"sensory": 0.0, "inter": 1.0, "command": 2.0, "motor": 2.85}
# Of the sensory column, from top to bottom, without and with a clock.
_BLOCKS = {"query": (1.0, 0.42), "key": (0.3, -0.28), "value": (-0.48, -0.98)}
_FOUR_BLOCKS = {"query": (1.0, 0.58), "key": (0.46, 0.04), "clock": (-0.06, -0.48), "value": (-0.62, -1.0)}
_SPREAD = 0.075  # between rows of neurons in a column


@dataclass(frozen=True)
class Pathway:
    """Synapses from one group of neurons to another."""

    source: str  # "sensory", "clock" or a group of the circuit
    target: str  # a group of the circuit
    weight: NDArray  # [n] trained weights, the weakest first; those of the wiring, +1 and -1, if there is no model
    start: NDArray  # [n] which neuron of the source
    end: NDArray  # [n] which neuron of the target


def draw_circuit(recording: Recording, layer: str | None, sample: int, head: int, step: int) -> Figure:
    """Draw the circuit of a head, with its strongest synapses and the states of all neurons at a step.

    States of neurons that have one for each key are means over the attended keys, by attention weight.
    """
    seen = style.layer_of(recording, layer, sample, head, step)
    states = dict(zip(seen.neurons, np.asarray(seen.array("states")[sample, step, head], float), strict=True))
    pathways = _pathways(recording, seen, head)
    drawn = _choose(pathways, trained=recording.has_model)
    what = f"Circuit of head {head} at {style.moment(recording, seen, sample, step)}"
    title = style.title_of(recording, seen, sample, what)
    figure = style.new_figure(6.6, title, _caption(seen, pathways, drawn, trained=recording.has_model))
    ax = figure.add_subplot()
    ax.set_axis_off()
    place = {group: _places(group, seen.sizes) for group in seen.sizes}
    places = {**place, "sensory": np.concatenate([place["query"], place["key"]])}
    for pathway in drawn:
        _draw_synapses(ax, pathway, places, trained=recording.has_model)
    largest = {group: max((abs(states[key]) for key in states if key[0] == group), default=0.0) for group in place}
    reach = style.reach_of(np.array([largest[group] for group in BACKBONE]))
    crowded = seen.sizes["clock"] > 0
    dots = [
        _draw_neurons(ax, group, place[group], states, reach, crowded=crowded)
        for group in seen.sizes
        if len(place[group])
    ]
    _label(ax, seen, place, sample, step, head)
    ax.set(xlim=(-0.42, _COLUMNS["motor"] + 0.8), ylim=(-1.22, 1.24))
    beyond = "both" if max(largest.values()) > reach else "neither"  # sensory neurons may be
    bar = figure.colorbar(dots[0], ax=ax, location="right", shrink=0.5, aspect=18, pad=0.0, extend=beyond)
    bar.set_label("state of the neuron", fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL)
    signs = [("excitatory (weight above 0)", style.POSITIVE), ("inhibitory (weight below 0)", style.NEGATIVE)]
    handles = [Line2D([], [], color=colour, linewidth=1.8, label=label) for label, colour in signs]
    ax.legend(handles=handles, loc="lower center", ncols=2, **style.LEGEND)
    return figure


def _pathways(recording: Recording, layer: LayerRecording, head: int) -> list[Pathway]:
    """All synapses with a weight, by group of source and target."""
    feeds, synapses = head_weights(recording, layer, head)
    wiring, width = layer.wiring, 2 * layer.sizes["query"]
    sources = {"sensory": feeds[:width], "clock": feeds[width:]}
    sources |= {g: synapses[list(wiring.group(g))] for g in BACKBONE}
    found = []
    for source, table in sources.items():
        for target in BACKBONE:
            block = table[:, list(wiring.group(target))]
            start, end = np.nonzero(block)
            if len(start):
                order = np.argsort(np.abs(block[start, end]), kind="stable")
                start, end = start[order], end[order]
                found.append(Pathway(source, target, block[start, end], start, end))
    return found


def _choose(pathways: list[Pathway], *, trained: bool) -> list[Pathway]:
    """The synapses that are drawn: about as many of each pathway, so that each is seen, and the strongest."""
    left, chosen = DRAWN, {}
    for place, pathway in enumerate(sorted(pathways, key=lambda p: len(p.weight))):
        size = len(pathway.weight)
        count = min(left // (len(pathways) - place), size)
        left -= count
        # Without a model all have the same size; take some of every neuron.
        which = np.arange(size - count, size) if trained else np.linspace(0, size - 1, count).round().astype(int)
        chosen[pathway.source, pathway.target] = which
    which = [(p, chosen[p.source, p.target]) for p in pathways]
    return [Pathway(p.source, p.target, p.weight[w], p.start[w], p.end[w]) for p, w in which]


def _places(group: str, sizes: dict[str, int]) -> NDArray:
    """Positions [n, 2] of the neurons of a group."""
    n = sizes[group]
    if group in BACKBONE:
        files = -(-n // _TALL) if n else 1
        height = min(1.0, 0.25 * n / files)
        y = np.linspace(height, -height, n) if n > 1 else np.zeros(n)
        x = _COLUMNS[group] + _SPREAD * (np.arange(n) % files - (files - 1) / 2)
        return np.column_stack([x, y])
    if not n:
        return np.zeros((0, 2))
    top, bottom = _blocks(sizes)[group]
    files = -(-n // (_TALL // 2))
    x = -_SPREAD * (np.arange(n) % files)
    return np.column_stack([x, top - (top - bottom) * (np.arange(n) + 0.5) / n])


def _blocks(sizes: dict[str, int]) -> dict[str, tuple[float, float]]:
    return _FOUR_BLOCKS if sizes["clock"] else _BLOCKS


def _draw_synapses(ax: Axes, pathway: Pathway, place: dict[str, NDArray], *, trained: bool) -> None:
    size = np.abs(pathway.weight)
    strength = size / size.max() if trained else np.full(size.shape, 0.6)
    colours = np.array([to_rgba(style.POSITIVE if w > 0 else style.NEGATIVE) for w in pathway.weight])
    colours[:, 3] = 0.08 + 0.72 * strength**2
    within = pathway.source == pathway.target
    lines = _curves(place[pathway.source][pathway.start], place[pathway.target][pathway.end], within=within)
    widths = 0.3 + 1.5 * strength**2
    ax.add_collection(LineCollection(list(lines), colors=list(map(tuple, colours)), linewidths=widths))


def _curves(start: NDArray, end: NDArray, *, within: bool) -> NDArray:
    """Points [n, 16, 2] of curves: from column to column they leave and arrive level, within one they bulge."""
    if within:
        bulge = 0.22 + 0.2 * np.abs(end[:, 1] - start[:, 1])
        low = high = np.column_stack([np.maximum(start[:, 0], end[:, 0]) + bulge, (start[:, 1] + end[:, 1]) / 2])
        itself = (start == end).all(1)  # a synapse onto itself is a small loop
        low[itself, 1] += 0.08
        high = np.where(itself[:, None], low - [0, 0.16], high)
    else:
        half = np.column_stack([(end[:, 0] - start[:, 0]) / 2, np.zeros(len(start))])
        low, high = start + half, end - half
    a, b, c, d = (p[:, None, :] for p in (start, low, high, end))
    s = _PATH
    return (1 - s) ** 3 * a + 3 * s * (1 - s) ** 2 * b + 3 * s**2 * (1 - s) * c + s**3 * d


def _draw_neurons(
    ax: Axes, group: str, place: NDArray, states: dict[tuple[str, int], float], reach: float, *, crowded: bool
) -> PathCollection:
    files = len(np.unique(place[:, 0]))
    room = 240 if group in BACKBONE else 62 if crowded else 85  # points
    across = 14.0 if group == "motor" else float(np.clip(room * files / len(place), 2, 7))
    scale, values = Normalize(-reach, reach), [states[group, i] for i in range(len(place))]
    dots = ax.scatter(*place.T, s=across**2, c=values, cmap=style.DIVERGING, norm=scale, zorder=3)
    dots.set(edgecolors=style.DARK, linewidths=0.6)
    return dots


def _label(ax: Axes, layer: LayerRecording, place: dict[str, NDArray], sample: int, step: int, head: int) -> None:
    """Names of columns and blocks, and of the two motor neurons with the gates that they set."""
    for group in BACKBONE:
        if len(place[group]):
            title = f"{group}\n{len(place[group])} neurons"
            ax.text(_COLUMNS[group], 1.09, title, ha="center", va="bottom", fontsize=style.TEXT)
    title = f"sensory\n3 times {layer.sizes['query']} neurons"
    if layer.sizes["clock"]:
        title = f"sensory\n3 times {layer.sizes['query']}, clock {layer.sizes['clock']}"
    ax.text(0, 1.09, title, ha="center", va="bottom", fontsize=style.TEXT)
    blocks = _blocks(layer.sizes)
    left, (top, bottom) = place["value"][:, 0].min() - 0.05, blocks["value"]
    box = Rectangle((left, bottom - 0.06), 0.05 - left, top - bottom + 0.12, color="#ececec", linewidth=0)
    ax.add_patch(box).set_zorder(0)
    for group in blocks:
        x, y = place[group][:, 0].min() - 0.09, place[group][:, 1].mean()
        ax.text(x, y, group, ha="right", va="center", rotation=90, fontsize=style.TEXT)
    gates = dict(zip(layer.gates, np.asarray(layer.array("gates")[sample, step, head], float), strict=True))
    for (x, y), gate in zip(place["motor"], MOTORS, strict=False):
        sign, words = style.GATES[gate]
        ax.text(x + 0.11, y, f"{sign} = {gates[gate]:.2f}\n{words}", va="center", fontsize=style.TEXT)


def _caption(layer: LayerRecording, pathways: list[Pathway], drawn: list[Pathway], *, trained: bool) -> str:
    total, shown = (sum(len(p.weight) for p in some) for some in (pathways, drawn))
    if shown < total:
        parts = [
            f"{len(some.weight)} of {len(every.weight):,} from {every.source} to {every.target}"
            for every, some in zip(pathways, drawn, strict=True)
        ]
        which = f"the {shown} strongest" if trained else str(shown)
        text = f"Drawn are {which} of {total:,} synapses: {', '.join(parts)}. "
    else:
        text = f"All {total:,} synapses are drawn. "
    text += (
        "The wider and darker a line, the stronger the trained weight, beside others between the same groups. "
        if trained
        else "The recording holds no weights: signs are those of the wiring, and all lines are alike. "
    )
    text += "Value neurons (grey field) have no synapses in the circuit. "
    if layer.sizes["clock"]:
        text += "Clock neurons are cosines, then sines, of the time from key to query. "
    return text + style.pair_states(layer)
