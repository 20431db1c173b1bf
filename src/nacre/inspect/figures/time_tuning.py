"""`draw_time_tuning`: what neurons and gates of the circuit do over the time from key to query."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nacre._util.plotting import COLOURS, DASHES
from nacre.inspect.analysis.pairs import GATES
from nacre.inspect.analysis.time_tuning import TimeTuning
from nacre.inspect.figures import panels, style
from nacre.inspect.figures.dots import dot_groups, draw_dots

BEST = 4  # neurons of a group that are drawn
HEADS = len(COLOURS)  # that are drawn; of more, the best tuned
_WIDE = 10  # times as long as the median: then both ends of the axis are logarithmic


def draw_time_tuning(tuning: TimeTuning) -> Figure:
    """Draw how strongly all neurons and gates are tuned, and curves of some of them over elapsed time."""
    shown = {name: found for name in ("clock", _last_group(tuning), *GATES) if (found := _best(tuning, name))}
    count = len(tuning.strength)
    title = "What the circuit knows of the time from key to query\n"
    title += f"layer {tuning.layer!r}, {'1 head' if count == 1 else f'{count} heads'}, {tuning.pairs:,} pairs"
    figure = style.new_figure(4.4 + 1.25 * len(shown), title, _caption(tuning))
    top, *rest = figure.subplots(1 + len(shown), 1, height_ratios=[2.0, 1.5] + [1.2] * (len(shown) - 1))
    above = dot_groups(tuning.columns, 100 * tuning.strength, tuning.above, 100 * tuning.null)
    draw_dots(top, above, "variance that\ntime explains (%)")
    top.set_title("(A) Strength, neuron by neuron", loc="left", fontsize=style.TEXT, pad=20)
    for ax, (name, places) in zip(rest, shown.items(), strict=True):
        _draw_curves(ax, tuning, name, places)
        ax.sharex(rest[0])
        ax.tick_params(labelbottom=ax is rest[-1])
    rest[0].set_title("(B) Neurons that change most with time, and gates", loc="left", fontsize=style.TEXT)
    _time_axis(rest[-1], tuning)
    figure.align_ylabels(rest)
    return figure


def _last_group(tuning: TimeTuning) -> str:
    """The last group before the motor neurons that the circuit has."""
    names = {column.partition(" ")[0] for column in tuning.columns}
    return "command" if "command" in names else "inter"


def _best(tuning: TimeTuning, name: str) -> list[tuple[int, int]]:
    """Head and column of what is drawn of a group or a gate: the curves with the largest variance.

    Clock neurons are the same in all heads: each is shown once. Of a gate, each head is shown.
    """
    columns = [i for i, column in enumerate(tuning.columns) if column.partition(" ")[0] == name]
    places = [(head, column) for head in range(len(tuning.strength)) for column in columns]
    places.sort(key=lambda place: -_swing(tuning, *place))
    if name in GATES:
        return sorted(places[:HEADS])
    if name == "clock":
        places = list({column: (head, column) for head, column in reversed(places)}.values())[::-1]
    return places[:BEST]


def _swing(tuning: TimeTuning, head: int, column: int) -> float:
    """Variance of a tuning curve over pairs."""
    share = tuning.counts[head] / tuning.counts[head].sum()
    curve = np.nan_to_num(tuning.means[head, column])  # bins without a pair have no share
    return float(share @ (curve - share @ curve) ** 2)


def _draw_curves(ax: Axes, tuning: TimeTuning, name: str, places: Sequence[tuple[int, int]]) -> None:
    """A line for each, and how far states lie from it: one standard deviation to both sides."""
    for (head, column), colour, dash in zip(places, COLOURS, DASHES, strict=False):
        mean, spread = tuning.means[head, column], tuning.spread[head, column]
        ax.fill_between(tuning.elapsed, mean - spread, mean + spread, color=colour, alpha=0.1, linewidth=0)
        (line,) = ax.plot(tuning.elapsed, mean, color=colour, linewidth=1.4, marker=".", markersize=3.5)
        line.set(linestyle=dash, label=_name(tuning, head, column))
    ax.axvline(0, color=style.PALE, linewidth=0.8, zorder=0.5)
    panels.name_lines(ax)
    sign, words = style.GATES.get(name, (name, "neurons"))
    panels.name_row(ax, f"{sign}\n{words}")
    style.frame(ax)


def _name(tuning: TimeTuning, head: int, column: int) -> str:
    name, strength = tuning.columns[column], f"{100 * tuning.strength[head, column]:.0f} %"
    group, _, index = name.partition(" ")
    if group == "clock":
        wave, scale = divmod(int(index), len(tuning.clock_scales))
        turn = f"{style.number(2 * math.pi * tuning.clock_scales[scale])} {tuning.unit}".strip()
        return f"{name}: {strength}\n({('cosine', 'sine')[wave]}, {turn})"
    return f"head {head}: {strength}" if group in GATES else f"{name}, head {head}: {strength}"


def _time_axis(ax: Axes, tuning: TimeTuning) -> None:
    """Elapsed time; logarithmic to both sides of its median where a few pairs are very far apart."""
    size = np.abs(tuning.elapsed)
    weight = tuning.counts.sum(0)
    order = np.argsort(size)
    middle = size[order][np.searchsorted(weight[order].cumsum(), weight.sum() / 2)]
    if size.max() > _WIDE * middle > 0:
        ax.set_xscale("symlog", linthresh=10.0 ** round(math.log10(middle)))  # ticks are powers of ten
        ax.xaxis.set_major_formatter(lambda value, _: style.number(value))
    unit = f" ({tuning.unit})" if tuning.unit else ""
    ax.set_xlabel(f"time from key to query{unit}; left of 0, keys are later than the query", fontsize=style.TEXT)


def _caption(tuning: TimeTuning) -> str:
    text = (
        "Each dot is a neuron or a gate of one head: the share of its variance over pairs that lies between "
        f"{len(tuning.elapsed)} bins of elapsed time. "
    )
    if math.isfinite(tuning.threshold):
        text += (
            f"In 5 % of {tuning.permutations:,} permutations, which flip the sign of some runs of steps, the "
            f"best of all dots is further than {tuning.threshold:.2g} standard deviations above their mean; "
            "coloured dots are. "
        )
    else:
        text += f"{tuning.permutations:,} permutations are too few for a threshold; 19 are needed. "
    if tuning.silent is not None:
        before, after = (np.nanmean(x[:, ~np.isnan(tuning.silent[0])]) for x in (tuning.strength, tuning.silent))
        text += (
            f"With all clock neurons silent, the mean strength of the others falls from {100 * before:.0f} % to "
            f"{100 * after:.0f} %. "
        )
    return text + (
        "(B) Lines are means of bins (dots on them), pale fields one standard deviation to both sides; behind the "
        "names, their strengths, and of clock neurons the time of a turn."
    )
