"""`draw_tuning`: the information of neurons and gates on a label, beside chance."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from nacre.inspect.analysis.tuning import Tuning
from nacre.inspect.figures import style
from nacre.inspect.figures.dots import dot_groups, draw_dots

BEST = 12  # neurons and gates whose means are shown
_NUMBERED = 10  # labels up to which every cell shows its mean
_ACROSS, _FEW = 66, 5  # letters that labels have room for, and labels that are rather cut than turned
_PALE = 0.05  # means that differ by less are paler
_WHAT = {"truth": "the true answer", "answer": "the model's answer"}


def draw_tuning(tuning: Tuning) -> Figure:
    """Draw the information of every neuron and gate by group, the threshold, and means of the best by label."""
    count, labels = len(tuning.information), len(tuning.names)
    best = np.argsort(-tuning.information, axis=None, kind="stable")[:BEST]
    heads = "1 head" if count == 1 else f"{count} heads"
    title = f"What neurons and gates tell about {_WHAT.get(tuning.what, tuning.what)}\n"
    title += f"layer {tuning.layer!r}, {heads}, n = {tuning.steps:,}"
    height = 5.5 + 0.235 * len(best) + (1.0 if _label_names(tuning)[1] else 0.0)
    figure = style.new_figure(height, title, _caption(tuning, labels))
    top, bottom = figure.subplots(2, 1, height_ratios=[2.6, 0.6 + 0.235 * len(best)])
    above = tuning.information > tuning.threshold
    groups = dot_groups(tuning.columns, tuning.information, above, tuning.null)
    draw_dots(top, groups, "information (bits)", tuning.threshold if math.isfinite(tuning.threshold) else None)
    top.set_title("(A) Information, neuron by neuron", loc="left", fontsize=style.TEXT, pad=20)
    _draw_means(bottom, tuning, [divmod(int(place), len(tuning.columns)) for place in best])
    bottom.set_title(f"(B) Mean by label of the {len(best)} that tell most", loc="left", fontsize=style.TEXT)
    return figure


def _draw_means(ax: Axes, tuning: Tuning, best: list[tuple[int, int]]) -> None:
    """A row for each of the best: colours show which labels are above or below the mean, numbers the means."""
    means = np.array([tuning.means[place] for place in best], float)  # [n, L]
    occur = ~np.isnan(means)
    off = np.where(occur, means - np.nanmean(means, 1, keepdims=True), 0.0)
    share = np.where(occur, off / np.abs(off).max(1, keepdims=True).clip(min=_PALE), np.nan)
    mesh = ax.pcolormesh(np.ma.masked_invalid(share), cmap=style.DIVERGING, norm=Normalize(-1.25, 1.25))
    mesh.set(edgecolor="white", linewidth=0.8)
    if means.shape[1] <= _NUMBERED:
        for (row, column), value in np.ndenumerate(means):
            if occur[row, column]:
                colour = "white" if abs(share[row, column]) > 0.75 else "black"
                digits = 2 if np.abs(off[row]).max() >= _PALE else 3
                text = ax.text(column + 0.5, row + 0.5, f"{round(value, digits) + 0.0:.{digits}f}", color=colour)
                text.set(ha="center", va="center", fontsize=style.SMALL)
    names, turned = _label_names(tuning)
    ax.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90 if turned else 0)
    rows = [f"{tuning.columns[column]}, head {head}" for head, column in best]
    bits = [f"{tuning.information[place]:.2f} bits" for place in best]
    ax.set_yticks(np.arange(len(best)) + 0.5, [f"{row}: {bit}" for row, bit in zip(rows, bits, strict=True)])
    ax.tick_params(labelsize=style.SMALL, length=0)
    ax.spines[:].set_visible(False)
    ax.invert_yaxis()


def _label_names(tuning: Tuning) -> tuple[list[str], bool]:
    """Names of labels with how often they occur, and whether they must be written upwards."""
    room = _ACROSS // len(tuning.names) - 1
    turned = max(map(len, tuning.names)) > room and len(tuning.names) > _FEW
    named = zip(tuning.names, tuning.counts, strict=True)
    if turned:
        return [f"{style.short(name, 14)} ({count:,})" for name, count in named], True
    return [f"{style.short(name, room)}\n{count:,}" for name, count in named], False


def _caption(tuning: Tuning, labels: int) -> str:
    text = (
        f"Information in bits that a state tells of {_WHAT.get(tuning.what, tuning.what)}, {labels} labels. "
        "Each dot is a neuron or a gate of one head; within a group they are sorted. "
    )
    if math.isfinite(tuning.threshold):
        text += (
            f"In 5 % of {tuning.permutations:,} permutations of the labels the best of all dots exceeds the "
            f"threshold, {tuning.threshold:.2g} bits; below the groups, how many dots do. "
        )
    else:
        text += f"{tuning.permutations:,} permutations are too few for a threshold; 19 are needed. "
    return text + (
        "(B) Blue labels lie above the mean of the row, vermilion ones below, the darker the farther; "
        "below the labels, how often they occur."
    )
