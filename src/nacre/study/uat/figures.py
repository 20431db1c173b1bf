"""Errors over the width of a layer, and the curves that the widest layers fitted. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nacre._util.plotting import COLOURS, DASHES, TEXT, legend_below, open_frame, png
from nacre.study.uat.data import Target, controls, grid
from nacre.study.uat.run import Variant
from nacre.study.uat.table import TITLES, UatRow, rows_of

_TRUTH = "#444444"
_MARKERS = ("o", "s", "^")


def plot_uat(results: Sequence[dict[str, Any]]) -> bytes:
    """A panel of errors for each function, bands from least to most over seeds; a panel of fitted sines."""
    rows = rows_of(results)
    targets = list(dict.fromkeys(Target(row.target) for row in rows))
    fitted = [r for r in results if r["fit"] is not None]
    figure = Figure(figsize=(5.2 * (len(targets) + bool(fitted)), 4.8), layout="constrained")
    panels = figure.subplots(1, len(targets) + bool(fitted), squeeze=False)[0]
    for ax, target in zip(panels, targets, strict=False):
        _draw_errors(ax, [row for row in rows if row.target == target], target)
    if fitted:
        _draw_fits(panels[-1], fitted)
    legend_below(figure, 2 * len(panels) + 1)
    return png(figure)


def _draw_errors(ax: Axes, rows: Sequence[UatRow], target: Target) -> None:
    for i, variant in enumerate(Variant):
        some = [row for row in rows if row.variant == variant]
        if not some:
            continue
        widths = [row.width for row in some]
        style = {"color": COLOURS[i], "linestyle": DASHES[i], "marker": _MARKERS[i]}
        ax.plot(widths, [row.error for row in some], linewidth=1.8, label=str(variant), **style)
        low, high = [row.lowest for row in some], [row.highest for row in some]
        ax.fill_between(widths, low, high, color=COLOURS[i], alpha=0.15, linewidth=0)
    for dash, (name, error) in zip((":", "--", "-."), controls(target).items(), strict=False):
        ax.axhline(error, color="#888888", linewidth=1.1, linestyle=dash, label=f"{name}, no network")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    widths = sorted({row.width for row in rows})
    ax.set_xticks(widths, [str(width) for width in widths])
    _finish(ax, TITLES[target], "width d_model", "mean squared error, held out")


def _draw_fits(ax: Axes, results: Sequence[dict[str, Any]]) -> None:
    width = max(r["width"] for r in results)
    x, y = (values.flatten().tolist() for values in grid())
    ax.plot(x, y, color=_TRUTH, linewidth=3.5, alpha=0.35, label="sin x")
    for i, variant in enumerate(Variant):
        some = [r for r in results if r["variant"] == variant and r["width"] == width]
        if some:
            first = min(some, key=lambda r: r["seed"])
            ax.plot(x, first["fit"], color=COLOURS[i], linestyle=DASHES[i], linewidth=1.6, label=str(variant))
    seed = min(r["seed"] for r in results)
    _finish(ax, f"fitted by width {width}, seed {seed}", "x", "answer")


def _finish(ax: Axes, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", fontsize=TEXT)
    ax.set_xlabel(x, fontsize=TEXT)
    ax.set_ylabel(y, fontsize=TEXT)
    open_frame(ax)
