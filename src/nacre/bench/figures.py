"""The figures of the bench, as PNG bytes. Needs matplotlib."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from nacre._util.plotting import COLOURS, legend_below, open_frame, png
from nacre.bench.entries import REFERENCE
from nacre.bench.fit import ENOUGH, FROM, Quantity, growth
from nacre.bench.record import ACTIONS, Action, BenchResult
from nacre.bench.tables import TITLES, number
from nacre.bench.training import SHAPES, TRAINING_REFERENCE, by_shape

# With markers, more models than colours can be told apart.
_COLOURS = (*COLOURS, "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_BARS: dict[Action, tuple[str, str, float]] = {  # name, colour, place beside the middle of a row
    "forward": ("forward pass", "#0072b2", -0.2),
    "step": ("training step", "#e69f00", 0.2),
}
_PANELS: tuple[tuple[Quantity, float, str], ...] = (
    ("seconds", 1.0, "time of a forward pass (s)"),
    ("added_bytes", 1e6, "peak memory that it adds (MB)"),
)


def plot_ratios(results: Sequence[BenchResult]) -> bytes:
    """Bars of time divided by that of the reference, one panel a length."""
    lengths = list(dict.fromkeys(r.entry.length for r in results))
    models = list(dict.fromkeys(r.entry.model for r in results))
    figure = Figure(figsize=(max(8.0, 1.7 + 4.3 * len(lengths)), 1.5 + 0.36 * len(models)), layout="constrained")
    panels = figure.subplots(1, len(lengths), squeeze=False, sharey=True)[0]
    for ax, length in zip(panels, lengths, strict=True):
        rows = {r.entry.model: r for r in results if r.entry.length == length}
        _plot_bars(ax, models, rows)
        ax.set_title(f"length {length:,}", fontsize=12)
        ax.set_xlabel(f"time ÷ time of {REFERENCE} (lower is faster)", fontsize=12)
    panels[0].set_yticks(range(len(models)), models, fontsize=11)
    panels[0].invert_yaxis()
    legend_below(figure, 2, 12)
    return png(figure)


def plot_training(results: Sequence[BenchResult]) -> bytes:
    """Time divided by that of dot-product attention, shape by shape, of training steps and of forward passes."""
    rows = by_shape(results)
    models = [m for m in dict.fromkeys(r.entry.model for r in results) if m != TRAINING_REFERENCE]
    figure = Figure(figsize=(10, 1.9 + 0.42 * len(rows)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, action in zip(panels, reversed(ACTIONS), strict=True):
        for i, model in enumerate(models):
            costs = [found[model].cost(action).ratio if model in found else None for found in rows.values()]
            places = [(ratio, y) for y, ratio in enumerate(costs) if ratio is not None]
            x, y = np.array(places).reshape(-1, 2).T
            colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
            ax.scatter(x, y, s=60, color=colour, marker=marker, label=model, zorder=3)
        ax.axvline(1.0, color="#444444", linewidth=1)
        ax.set_xscale("log")
        ax.set_title(TITLES[action], loc="left", fontsize=13)
        ax.set_xlabel(f"time ÷ time of {TRAINING_REFERENCE} (lower is faster)", fontsize=12)
        ax.xaxis.set_major_formatter(FuncFormatter(_plain))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(axis="y", color="#dddddd", linewidth=0.8)
        open_frame(ax)
    panels[0].set_yticks(range(len(rows)), [f"{name}\n{SHAPES[name]}" for name in rows], fontsize=10)
    panels[0].invert_yaxis()
    legend_below(figure, min(len(models), 4), 12)
    return png(figure)


def plot_sweep(results: Sequence[BenchResult]) -> bytes:
    """Time and memory of a forward pass over length, both logarithmic, with fitted exponents."""
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for ax, (quantity, unit, title) in zip(figure.subplots(1, 2), _PANELS, strict=True):
        for i, row in enumerate(growth(results)):
            fit = row.fits["forward", quantity]
            costs = [(r.entry.length, getattr(r.forward, quantity)) for r in results if r.entry.model == row.model]
            x, y = np.array([(n, cost / unit) for n, cost in costs if cost]).reshape(-1, 2).T
            label = row.model if fit is None else f"{row.model}: $n^{{{fit.exponent:.2f}}}$"
            colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
            ax.plot(x, y, color=colour, marker=marker, markersize=6, linewidth=1.8, label=label)
        ax.set(xscale="log", yscale="log")
        ax.set_title(title, loc="left", fontsize=13)
        ax.set_xlabel("length n", fontsize=13)
        _label_lengths(ax, sorted({r.entry.length for r in results}))
        ax.yaxis.set_major_formatter(FuncFormatter(_plain))
        open_frame(ax)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False, fontsize=11.5)
    fitted = (
        f"Exponents: fitted to lengths from {FROM:,} on, or to all where there are fewer than {ENOUGH} of those."
    )
    figure.supxlabel(fitted, fontsize=11)
    return png(figure)


def _plot_bars(ax: Axes, models: Sequence[str], rows: dict[str, BenchResult]) -> None:
    ratios = [r.cost(a).ratio for r in rows.values() for a in ACTIONS]
    known = [ratio for ratio in ratios if ratio] or [1.0]
    ax.set_xscale("log")
    ax.set_xlim(min(0.7, *known) / 1.3, max(1.5, *known) * 2.6)  # on the right, room for the numbers
    for action, (label, colour, shift) in _BARS.items():
        costs = [rows[m].cost(action) if m in rows else None for m in models]
        widths = [c.ratio - 1 if c and c.ratio else 0.0 for c in costs]
        ax.barh(np.arange(len(models)) + shift, widths, 0.38, left=1.0, color=colour, label=label)
        for i, cost in enumerate(costs):
            if cost is not None:
                text = number(cost.ratio) if cost.ratio else cost.state.partition(":")[0]
                at = (max(cost.ratio or 1.0, 1.0), i + shift)
                ax.annotate(text, at, (3, 0), textcoords="offset points", va="center", fontsize=9)
    ax.axvline(1.0, color="#444444", linewidth=1)
    ax.margins(y=0.02)
    ax.xaxis.set_major_formatter(FuncFormatter(_plain))
    ax.xaxis.set_minor_formatter(NullFormatter())
    open_frame(ax)


def _label_lengths(ax: Axes, lengths: list[int]) -> None:
    shown = lengths[:: max(1, -(-len(lengths) // 5))]
    ax.set_xticks(shown, [f"{n:,}" for n in shown])
    ax.set_xticks([], minor=True)


def _plain(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
