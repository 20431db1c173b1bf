"""The figure of the spiral study: heads, sparsity, keys by length, and trajectories. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from nacre._util.plotting import COLOURS, SMALL, TEXT, TITLE, open_frame, png
from nacre.study.spiral.data import PARTS
from nacre.study.spiral.grid import DEFAULT, Section, sections_of
from nacre.study.spiral.table import setting_of

Results = Sequence[dict[str, Any]]


class _Style(NamedTuple):
    """How a line looks."""

    colour: str
    dash: Literal["-", "--"]
    marker: str


_STYLES = {
    "interpolation": _Style(COLOURS[0], "-", "o"),
    "extrapolation": _Style(COLOURS[1], "--", "s"),
}
_GREY = "#777777"
_UNIT = 1e-4  # of the errors on the axes


def plot_spiral(results: Results) -> bytes:
    """Four panels from results of one budget; lines are means over seeds, bands from least to most."""
    figure = Figure(figsize=(13.5, 11.0), layout="constrained")
    panels = figure.subplot_mosaic("AABB;CCDE;CCFG", height_ratios=[2, 1, 1])
    _draw_sweep(panels["A"], _of(results, Section.HEADS), "heads")
    _draw_sweep(panels["B"], _of(results, Section.SPARSITY), "sparsity")
    _draw_keys(panels["C"], _of(results, Section.KEYS))
    _draw_trajectories(figure, [panels[name] for name in "DEFG"], [r for r in results if "trajectories" in r])
    titles = ("A  heads", "B  sparsity", "C  keys of a query (K), by length", "D  test spirals of the default")
    for name, title in zip("ABCD", titles, strict=True):
        panels[name].set_title(title, fontsize=TITLE, loc="left")
    if panels["A"].lines and panels["B"].lines:  # the same errors, so the same scale
        panels["B"].sharey(panels["A"])
        panels["A"].autoscale(axis="y")
    _explain_sweeps(figure)
    return png(figure)


def _of(results: Results, section: Section) -> Results:
    return [result for result in results if section in sections_of(setting_of(result))]


def _draw_sweep(ax: Axes, results: Results, name: str) -> None:
    """MSE of both parts over one option, with controls."""
    if not results:
        return _say_not_run(ax)
    values = sorted({result[name] for result in results})
    for part, style in _STYLES.items():
        errors = [[r["mse"][part] for r in results if r[name] == value] for value in values]
        _line(ax, values, errors, style)
        control = _mean_control(results, "direction_mean", part, DEFAULT.length)
        ax.axhline(control, color=style.colour, linestyle=":", linewidth=1.2)
    held = _mean_control(results, "persistence", "interpolation", DEFAULT.length)
    ax.axhline(held, color=_STYLES["interpolation"].colour, linestyle="-.", linewidth=1.2)
    if name == "heads":
        ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(values))
    _finish(ax, name)


def _explain_sweeps(figure: Figure) -> None:
    """One legend for both sweeps, above them, where it hides nothing."""
    handles = [_sample(style, part) for part, style in _STYLES.items()]
    held = _STYLES["interpolation"].colour
    handles += [
        Line2D([], [], color=_GREY, linestyle=":", linewidth=1.2, label="A, B: mean spiral of its direction"),
        Line2D([], [], color=held, linestyle="-.", linewidth=1.2, label="A, B: last point seen, interpolation"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=SMALL)


def _sample(style: _Style, label: str) -> Line2D:
    colour, dash, marker = style
    return Line2D([], [], color=colour, linestyle=dash, marker=marker, linewidth=1.8, markersize=5, label=label)


def _draw_keys(ax: Axes, results: Results) -> None:
    """MSE over length: a colour for each number of keys, dashed where it is extrapolation."""
    if not results:
        return _say_not_run(ax)
    lengths = sorted({result["length"] for result in results})
    handles = []
    for i, top_k in enumerate(sorted({result["top_k"] for result in results})):
        colour = COLOURS[i % len(COLOURS)]
        some = [result for result in results if result["top_k"] == top_k]
        reached = sorted({result["length"] for result in some})
        for part, style in _STYLES.items():
            errors = [[r["mse"][part] for r in some if r["length"] == length] for length in reached]
            _line(ax, reached, errors, style._replace(colour=colour))
        handles.append(Line2D([], [], color=colour, linewidth=1.8, label=f"K={top_k}"))
    handles += [_sample(style._replace(colour=_GREY), part) for part, style in _STYLES.items()]
    held = [_mean_control(results, "persistence", "interpolation", length) for length in lengths]
    handles += ax.plot(
        lengths, held, color=_GREY, linestyle="-.", linewidth=1.2, label="last point seen,\ninterpolation"
    )
    ax.legend(handles=handles, framealpha=0.85, edgecolor="none", fontsize=SMALL, ncols=2)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(lengths))
    ax.xaxis.set_minor_locator(NullLocator())
    _finish(ax, "points of a spiral, a third of them seen")


def _mean_control(results: Results, name: str, part: str, length: int) -> float:
    return float(np.mean([r["controls"][name]["mse"][part] for r in results if r["length"] == length]))


def _line(ax: Axes, x: Sequence[float], errors: Sequence[Sequence[float]], style: _Style) -> None:
    """Mean over seeds at each x, and a band from least to most; numbers of seeds may differ."""
    colour, dash, marker = style
    means = [np.mean(some) for some in errors]
    ax.plot(x, means, color=colour, linestyle=dash, marker=marker, linewidth=1.8, markersize=5)
    low, high = [min(some) for some in errors], [max(some) for some in errors]
    if low != high:
        ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)


def _finish(ax: Axes, label: str) -> None:
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / _UNIT:,.3g}"))
    # Short enough for 20k and 30k to stand side by side.
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x < 1_000 else f"{x / 1_000:g}k"))
    ax.set_ylabel(f"mean squared error (in {_UNIT:.0e})".replace("e-0", "e-"), fontsize=TEXT)
    ax.set_xlabel(label, fontsize=TEXT)
    open_frame(ax)


def _draw_trajectories(figure: Figure, panels: Sequence[Axes], results: Results) -> None:
    """Test spirals of the lowest seed, each in a square of its own size."""
    for ax in panels:
        ax.set_axis_off()
    if not results:
        return _say_not_run(panels[0])
    spirals = min(results, key=lambda result: result["seed"])["trajectories"]
    for ax, spiral in zip(panels, spirals, strict=False):
        truth, guess, seen = (np.array(spiral[name]) for name in ("truth", "guess", "seen"))
        ax.plot(*truth.T, color="#c4c4c4", linewidth=5, label="truth")
        ax.plot(*seen.T, ".", color="black", markersize=4, label="seen")
        for part, some in PARTS.items():
            colour, dash, _ = _STYLES[part]
            line = guess[max(some.start - 1, 0) : some.stop]  # the halves meet
            ax.plot(*line.T, color=colour, linestyle=dash, linewidth=1.5, label=f"network, {part}")
        low, high = truth.min(0), truth.max(0)
        middle, half = (low + high) / 2, 0.55 * (high - low).max()
        ax.set_xlim(middle[0] - half, middle[0] + half)
        ax.set_ylim(middle[1] - half, middle[1] + half)
        ax.set_aspect("equal")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower right", ncols=4, frameon=False, fontsize=SMALL
    )


def _say_not_run(ax: Axes) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, "not run", ha="center", va="center", fontsize=TEXT, color=_GREY, transform=ax.transAxes)
