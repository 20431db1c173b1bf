"""A figure of a circuit. Needs matplotlib."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nacre.wiring.wiring import GROUPS, Wiring

_EXCITATORY, _INHIBITORY = "#2166ac", "#d6604d"  # distinguishable for colour-blind readers
_NEURONS = {"input": "#5e5e5e", "sensory": "#7b5aa6", "inter": "#1b9e77", "command": "#e6ab02", "motor": "#a6361c"}
_CURVE = np.linspace(0, 1, 12)[:, None]  # points along a synapse


def draw(wiring: Wiring) -> Figure:
    """Draw a wiring: a column for the inputs and for each group, synapses coloured by sign.

    Synapses within a group are arcs to the right of it.
    """
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    columns = [("input", np.arange(wiring.num_inputs))]
    columns += [(g, np.array(wiring.group(g))) for g in GROUPS if wiring.group(g)]
    place = {}  # group -> [n, 2] coordinates
    for x, (group, ids) in enumerate(columns):
        reach = min(1.0, 0.12 * len(ids))  # few neurons stand close together
        y = np.linspace(reach, -reach, len(ids)) if len(ids) > 1 else np.zeros(1)
        place[group] = np.column_stack([np.full(len(ids), float(x)), y])
    _synapses(axes, wiring, dict(columns), place)
    for group, ids in columns:
        size = np.clip(900 / len(ids), 8, 160)
        axes.scatter(*place[group].T, s=size, color=_NEURONS[group], edgecolor="white", linewidth=0.6, zorder=3)
        # The inputs of a backbone are sensory neurons.
        title = group if group != "input" else "inputs" if "sensory" in place else "sensory\n(inputs)"
        axes.text(place[group][0, 0], 1.13, title, ha="center", va="bottom", fontsize=12)
        axes.text(place[group][0, 0], -1.13, f"{len(ids)}", ha="center", va="top", fontsize=11, color="#555555")
    axes.set(xlim=(-0.35, len(columns) - 0.5), ylim=(-1.3, 1.42))
    signs = {"excitatory": _EXCITATORY, "inhibitory": _INHIBITORY}
    handles = [Line2D([], [], color=colour, label=sign) for sign, colour in signs.items()]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.06), ncols=2, frameon=False)
    axes.set_title(f"{wiring.name}: {wiring.num_neurons} neurons, {wiring.num_synapses:,} synapses", fontsize=13)
    return figure


def _synapses(axes: Axes, wiring: Wiring, columns: dict[str, np.ndarray], place: dict[str, np.ndarray]) -> None:
    crowd = np.sqrt(wiring.num_synapses)
    alpha, width = np.clip(14 / crowd, 0.12, 0.8), np.clip(25 / crowd, 0.3, 1.4)
    colours = np.array([_INHIBITORY, "", _EXCITATORY])
    for source, ids in columns.items():
        table = wiring.input_adjacency if source == "input" else wiring.adjacency[ids]
        for target in (g for g in columns if g != "input"):
            block = table[:, columns[target]]
            start, end = np.nonzero(block)  # by source, so that neither sign covers the other
            if len(start):
                within = source == target
                lines = _curves(place[source][start], place[target][end], within=within)
                # Synapses within a group are few: draw them stronger.
                strength = min(1.0, alpha * (3 if within else 1))
                colour = list(colours[block[start, end] + 1])
                axes.add_collection(LineCollection(list(lines), colors=colour, alpha=strength, linewidths=width))


def _curves(start: np.ndarray, end: np.ndarray, *, within: bool) -> np.ndarray:
    """Points [n, 12, 2] of lines from start to end: straight between groups, arcs within one."""
    middle = (start + end) / 2
    if within:
        middle[:, 0] += 0.16 + 0.34 * np.abs(end[:, 1] - start[:, 1])
    a, b, c = (p[:, None, :] for p in (start, middle, end))
    points = (1 - _CURVE) ** 2 * a + 2 * _CURVE * (1 - _CURVE) * b + _CURVE**2 * c
    itself = within & (start == end).all(axis=1)  # a synapse onto itself is a small loop
    angle = 2 * np.pi * _CURVE
    points[itself] = a[itself] + np.concatenate([0.04 * (1 - np.cos(angle)), 0.045 * np.sin(angle)], axis=1)
    return points
