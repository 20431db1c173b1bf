"""`draw_lesion`: how the answers change when groups of neurons, or single ones, are silent."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from nacre.inspect.analysis.lesion_study import LesionRow, LesionStudy
from nacre.inspect.figures import panels, style
from nacre.inspect.recording.recording import GROUPS

_STRONGEST = 5  # single neurons that the caption names
_DECADES = 1e5  # largest change over the smallest that has a colour of its own, at most
_NAMED = 5  # heads that have their number beside them
_GAP, _NARROWEST = 0.02, 0.09  # space between groups and width of the smallest, in shares of all neurons


def draw_lesion(study: LesionStudy) -> Figure:
    """Draw what silent groups do to the answers and to the task's metric, and what single silent neurons do.

    Raises:
        ValueError: If the study has neither whole groups nor single neurons.
    """
    neurons = [row for row in study.rows if row.lesion.index is not None and row.lesion.target is None]
    groups = [row for row in study.rows if row.lesion.index is None and row.lesion.target is None]
    if not neurons and not groups:
        raise ValueError(
            f"study must have lesions of groups or of neurons, got {len(study.rows)} rows without any; "
            "synapses alone are no figure"
        )
    scored = bool(study.metric) and not math.isnan(study.intact)
    kinds = ["change", "difference"] if scored else ["change"]
    heads = sorted({row.lesion.head for row in neurons}, key=lambda h: -1 if h is None else h)
    each = 0.35 + max(0.5, 0.105 * len(heads))
    height = 1.75 + 2.4 * bool(groups) + (0.35 + each * len(kinds)) * bool(neurons)
    title = "What silent neurons do to the answers"
    if scored:
        title += f"\n{study.metric} of the intact model {style.number(study.intact)}, {study.better} is better"
    figure = style.new_figure(height, title, _caption(study, neurons, groups))
    ratios = [2.0] * bool(groups) + [each] * (len(kinds) * bool(neurons))
    grid = figure.add_gridspec(len(ratios), 2, height_ratios=ratios)
    if groups:
        left = figure.add_subplot(grid[0, 0] if scored else grid[0, :])
        _draw_change(left, groups)
        if scored:
            _draw_metric(figure.add_subplot(grid[0, 1], sharey=left), groups, study)
    if neurons:
        for place, kind in enumerate(kinds):
            ax = figure.add_subplot(grid[bool(groups) + place, :])
            _draw_neurons(ax, neurons, heads, kind, study, last=kind == kinds[-1])
    return figure


def _by_group(rows: Sequence[LesionRow]) -> tuple[list[str], dict[str, LesionRow], dict[str, list[LesionRow]]]:
    """Groups that there are, the row of each in all heads, and its rows in single heads."""
    whole = {row.lesion.group: row for row in rows if row.lesion.head is None}
    single = {g: [r for r in rows if r.lesion.group == g and r.lesion.head is not None] for g in GROUPS}
    return [g for g in GROUPS if g in whole or single[g]], whole, single


def _draw_change(ax: Axes, rows: Sequence[LesionRow]) -> None:
    """Bars: all heads; dots: one head."""
    names, whole, single = _by_group(rows)
    for place, group in enumerate(names):
        ax.plot(*_spread([row.change for row in single[group]], place), ".", color=style.DARK, markersize=4)
        if group in whole:
            ax.barh(place, whole[group].change, height=0.62, color=style.GROUP_COLOURS[group])
            label, beside = f"{whole[group].change:.2g}", ("axes fraction", "data")
            ax.annotate(label, (1.02, place), xycoords=beside, va="center", fontsize=style.SMALL)
    ax.set_yticks(range(len(names)), names)
    ax.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, None))
    style.frame(ax)
    ax.tick_params(axis="y", length=0, labelsize=style.TEXT)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("change of the answer (standard deviations)", fontsize=style.TEXT)
    ax.set_title("(A) Silent groups", loc="left", fontsize=style.TEXT)


def _draw_metric(ax: Axes, rows: Sequence[LesionRow], study: LesionStudy) -> None:
    """The metric after each lesion, and a line from that of the intact model."""
    names, whole, single = _by_group(rows)
    for place, group in enumerate(names):
        colour = style.GROUP_COLOURS[group]
        if group in whole:
            ax.plot([study.intact, whole[group].metric], [place, place], color=colour, linewidth=2.2)
            ax.plot(whole[group].metric, place, "D", color=colour, markersize=7, zorder=3)
        ax.plot(*_spread([row.metric for row in single[group]], place), ".", color=style.DARK, markersize=4)
    ax.axvline(study.intact, color="black", linewidth=1.1, linestyle="--")
    style.frame(ax)
    ax.tick_params(axis="y", labelleft=False, length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"{study.metric} (dashed: intact; {study.better} is better)", fontsize=style.TEXT)


def _spread(values: Sequence[float], place: float) -> tuple[NDArray, NDArray]:
    """Dots around a row, above each other where there are several."""
    count = len(values)
    return np.array(values), place + (np.linspace(-0.22, 0.22, count) if count > 1 else np.zeros(count))


def _draw_neurons(
    ax: Axes, rows: Sequence[LesionRow], heads: Sequence[int | None], kind: str, study: LesionStudy, *, last: bool
) -> None:
    """Rows of colours: a head each, neurons side by side by group."""
    tables = _tables(rows, heads, kind)
    largest = max(max(float(np.nanmax(np.abs(table))) for table in tables.values()), 1e-12)
    scale, colours = LogNorm(_smallest(tables, largest), largest), style.SEQUENTIAL
    if kind == "difference":  # vermilion is worse, whichever way that is
        scale = Normalize(-largest, largest)
        colours = style.DIVERGING if study.better == "higher" else style.DIVERGING.reversed()
    total = sum(table.shape[1] for table in tables.values())
    left, middles = 0.0, []
    mesh = ScalarMappable(scale, colours)
    for table in tables.values():
        width = max(table.shape[1], _NARROWEST * total)
        edges = np.linspace(left, left + width, table.shape[1] + 1)
        values = np.ma.masked_invalid(table)
        ax.pcolormesh(edges, np.arange(len(heads) + 1), values, cmap=colours, norm=scale, rasterized=True)
        box = Rectangle((left, 0), width, len(heads), fill=False, edgecolor=style.PALE, linewidth=0.8)
        ax.add_patch(box).set_clip_on(False)
        middles.append(left + width / 2)
        left += width + _GAP * total
    panels.colour_bar(ax, mesh, "change" if kind == "change" else "difference")
    names = [f"{group}\n0 to {table.shape[1] - 1}" for group, table in tables.items()]
    ax.set_xticks(middles if last else [], names if last else [])
    shown = range(0, len(heads), -(-len(heads) // _NAMED))
    ax.set_yticks([i + 0.5 for i in shown], ["all" if heads[i] is None else str(heads[i]) for i in shown])
    ax.tick_params(labelsize=style.SMALL, length=0)
    ax.set_ylabel("head", fontsize=style.TEXT)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(0, left - _GAP * total), ylim=(len(heads), 0))
    title = "(B) Single silent neurons: change of the answer"
    if kind == "difference":
        title = f"(C) Single silent neurons: {study.metric}, silent minus intact"
    ax.set_title(title, loc="left", fontsize=style.TEXT)


def _tables(rows: Sequence[LesionRow], heads: Sequence[int | None], kind: str) -> dict[str, NDArray]:
    """Group -> [heads, neurons] what single lesions do; NaN where none was tried."""
    found = {}
    for group in GROUPS:
        mine = [row for row in rows if row.lesion.group == group]
        if mine:
            table = np.full((len(heads), 1 + max(row.lesion.index or 0 for row in mine)), np.nan)
            for row in mine:
                table[heads.index(row.lesion.head), row.lesion.index] = getattr(row, kind)
            found[group] = table
    return found


def _smallest(tables: dict[str, NDArray], largest: float) -> float:
    """Change at which colours begin: nearly all neurons have more."""
    values = np.concatenate([table.ravel() for table in tables.values()])
    values = values[values > largest / _DECADES]
    return min(float(np.quantile(values, 0.02)), largest / 10) if len(values) else largest / _DECADES


def _caption(study: LesionStudy, neurons: Sequence[LesionRow], groups: Sequence[LesionRow]) -> str:
    text = (
        "A silent neuron has state 0. The change of the answer is the mean absolute difference to the intact "
        "model, in standard deviations of its answers. "
    )
    if groups:
        text += "(A) Bars, with their numbers, and diamonds are a group in all heads, dots in one head alone. "
    if neurons:
        text += "(B) Each cell is one neuron of one head, on a logarithmic scale. "
        if study.metric:
            text += "(C) Vermilion is worse, blue is better. "
        best = sorted(neurons, key=lambda row: -row.change)[:_STRONGEST]
        text += f"Those that change the answer most: {'; '.join(f'{r.lesion} ({r.change:.2g})' for r in best)}. "
    synapses = sum(row.lesion.target is not None for row in study.rows)
    return text + (f"Cut synapses, of which there are {synapses}, are not shown. " if synapses else "")
