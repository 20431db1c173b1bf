"""`draw_dots`: a number for every neuron and gate, by group, beside chance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from nacre.inspect.figures import style
from nacre.inspect.recording.recording import GROUPS

_GATES = "gates"  # name of the group of all that are no neurons


@dataclass(frozen=True)
class DotGroup:
    """Dots of a group of neurons in all heads, the largest first, and the mean of permutations."""

    name: str
    values: NDArray
    above: NDArray  # whether a dot is above the threshold
    null: float


def dot_groups(columns: Sequence[str], values: NDArray, above: NDArray, null: NDArray) -> list[DotGroup]:
    """Dots by group, from values [H, C] of columns such as "inter 3" or "phi"."""
    names = np.array([column.split(" ")[0] for column in columns])
    names = np.where(np.isin(names, GROUPS), names, _GATES)
    found = []
    for group in (*GROUPS, _GATES):
        some = names == group
        if some.any():
            order = np.argsort(-values[:, some].ravel(), kind="stable")
            dots = (table[:, some].ravel()[order] for table in (values, above))
            found.append(DotGroup(group, *dots, null=float(null[:, some].mean())))
    return found


def draw_dots(ax: Axes, groups: Sequence[DotGroup], label: str, threshold: float | None = None) -> None:
    """A falling row of dots for each group, all on one scale, and perhaps a line at the threshold."""
    for place, group in enumerate(groups):
        count = len(group.values)
        x = place + (np.linspace(-0.4, 0.4, count) if count > 1 else np.zeros(1))
        colour = style.GROUP_COLOURS.get(group.name, style.DARK)
        ax.plot(place + np.array([-0.44, 0.44]), [group.null] * 2, color="black", linewidth=1.0, linestyle=":")
        ax.scatter(x[~group.above], group.values[~group.above], s=7, color=style.PALE, zorder=2.5, linewidths=0)
        ax.scatter(x[group.above], group.values[group.above], s=12, color=colour, zorder=3, linewidths=0)
    ax.set_xticks(range(len(groups)), [f"{g.name}\n{g.above.sum()} of\n{len(g.values)}" for g in groups])
    handles = [
        Line2D([], [], color=style.DARK, marker="o", linestyle="", markersize=4, label="above the threshold"),
        Line2D([], [], color=style.PALE, marker="o", linestyle="", markersize=4, label="below"),
        Line2D([], [], color="black", linewidth=1.0, linestyle=":", label="mean of permutations"),
    ]
    if threshold is not None:
        line = ax.axhline(threshold, color="black", linewidth=1.1, linestyle="--", zorder=4)
        line.set_label("threshold")
        handles.insert(0, line)  # pyright: ignore[reportArgumentType]
    style.frame(ax)
    ax.grid(axis="x", visible=False)
    ax.set(xlim=(-0.5, len(groups) - 0.5), ylim=(0, None))
    ax.set_ylabel(label, fontsize=style.TEXT)
    place = {**style.LEGEND, "loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(handles)}
    ax.legend(handles=handles, columnspacing=1.0, handletextpad=0.4, borderaxespad=0.1, **place)
