"""What freezing does to a logit, how its error grows, and the errors that the paper reports. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nacre._util.plotting import COLOURS, DASHES, SMALL, TEXT, open_frame, png
from nacre.study.frozen.gates import REPORTED_ERROR, Regime, Strength
from nacre.study.frozen.run import SLACK

Results = Sequence[dict[str, Any]]

_STYLES = dict(zip(Regime, zip(COLOURS, DASHES, ("o", "s", "^", "D"), strict=False), strict=False))
_GUIDE = "#888888"
_BARS = 0.2  # width of a bar


def plot_frozen(results: Results) -> bytes:
    """Six panels: an oscillating logit, its error and bound, errors by regime twice, and two orders of growth."""
    results = sorted(results, key=lambda result: list(Regime).index(Regime(result["regime"])))
    figure = Figure(figsize=(15, 8.8), layout="constrained")
    panels = figure.subplots(2, 3)
    strong = [r for r in results if r["strength"] == Strength.STRONG]
    for result in strong:
        if result["regime"] == Regime.OSCILLATORY:
            _draw_evolution(panels[0, 0], result)
            _draw_error(panels[1, 0], result)
    _draw_halved(panels[0, 1], strong)
    _draw_refrozen(panels[1, 1], strong)
    _draw_bars(panels[0, 2], [r for r in results if r["strength"] == Strength.REPORTED], reported=True)
    _draw_bars(panels[1, 2], strong, reported=False)
    for ax in panels.flat:
        open_frame(ax)
    return png(figure)


def _title(ax: Axes, text: str, x: str, y: str) -> None:
    ax.set_title(text, loc="left", fontsize=TEXT)
    ax.set_xlabel(x, fontsize=TEXT)
    ax.set_ylabel(y, fontsize=TEXT)


def _draw_evolution(ax: Axes, result: dict[str, Any]) -> None:
    curve = result["curve"]
    for i, (name, label) in enumerate((("varying", "gates that change"), ("frozen", "gates frozen at t = 0"))):
        ax.plot(curve["t"], curve[name], color=COLOURS[i], linestyle=DASHES[i], linewidth=2, label=label)
    ax.plot(curve["t"], curve["phi"], color=_GUIDE, linestyle=":", linewidth=1.3, label="phi(t)")
    ax.set_ylim(bottom=0)
    _title(ax, "oscillatory gates, strong variation", "time t", "logit a(t)")
    ax.legend(frameon=False, fontsize=SMALL, loc="lower right")


def _draw_error(ax: Axes, result: dict[str, Any]) -> None:
    curve = {name: np.array(values[1:]) for name, values in result["curve"].items()}  # all are 0 at t = 0
    ax.plot(curve["t"], curve["error"], color=COLOURS[0], linewidth=2, label="error of freezing")
    ax.plot(curve["t"], curve["bound"], color=COLOURS[1], linestyle="--", linewidth=2, label="the theorem's bound")
    ax.set_yscale("log")
    ax.set_ylim(bottom=curve["error"][0] / 2)
    _title(ax, "its error, and the bound on it", "time t", "|a - frozen a|")
    ax.legend(frameon=False, fontsize=SMALL, loc="lower right")


def _draw_halved(ax: Axes, results: Results) -> None:
    for result in results:
        points = [(p["horizon"], p["error"]) for p in result["halved"]]
        _draw_line(ax, result, points, result["halved_slope"])
    _draw_guide(ax, 2)
    _title(ax, "error grows like T² (a step: like T)", "horizon T", "largest error on [0, T], strong variation")


def _draw_refrozen(ax: Axes, results: Results) -> None:
    for result in results:
        # From two intervals on a step is solved exactly, which no logarithm can show.
        points = [(p["intervals"], p["error"]) for p in result["refrozen"] if p["error"] > SLACK]
        _draw_line(ax, result, points, result["refrozen_slope"])
    _draw_guide(ax, -1)
    counts = [p["intervals"] for result in results[:1] for p in result["refrozen"]]
    ax.set_xticks(counts, [str(n) for n in counts])
    _title(ax, "gates frozen anew on n intervals", "intervals n", "largest error on [0, 1], strong variation")


def _draw_guide(ax: Axes, slope: int) -> None:
    """Both scales logarithmic, and a straight line of this slope below the lowest of the longest lines."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    curves = [np.array(line.get_xydata()).T for line in ax.lines]  # [2, points] each
    if not curves:
        return
    longest = max(curve.shape[1] for curve in curves)
    x, y = min((curve for curve in curves if curve.shape[1] == longest), key=lambda curve: curve[1].min())
    lowest = y.argmin()
    guide = y[lowest] / 2.5 * (x / x[lowest]) ** float(slope)
    ax.plot(x, guide, color=_GUIDE, linestyle=":", linewidth=1.5, label=f"slope {slope}")
    ax.legend(frameon=False, fontsize=SMALL)


def _draw_line(
    ax: Axes, result: dict[str, Any], points: Sequence[tuple[float, float]], slope: float | None
) -> None:
    colour, dash, marker = _STYLES[Regime(result["regime"])]
    label = f"{result['regime']} ({'exact from n = 2' if slope is None else f'{slope:.2f}'})"
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=colour, linestyle=dash, marker=marker, markersize=5, linewidth=1.8, label=label)


def _draw_bars(ax: Axes, results: Results, *, reported: bool) -> None:
    """Mean and max error of each regime; with the paper's two beside them."""
    by_regime = {Regime(r["regime"]): r for r in results}
    names = [regime for regime in Regime if regime in by_regime]
    groups = [
        ("mean, measured", COLOURS[0], "", [by_regime[n]["mean_error"] for n in names]),
        ("max, measured", COLOURS[5], "", [by_regime[n]["max_error"] for n in names]),
    ]
    if reported:
        groups += [
            ("mean, reported", COLOURS[1], "//", [REPORTED_ERROR[n].mean for n in names]),
            ("max, reported", COLOURS[4], "//", [REPORTED_ERROR[n].max for n in names]),
        ]
    for i, (label, colour, hatch, values) in enumerate(groups):
        places = np.arange(len(names)) + (i - (len(groups) - 1) / 2) * _BARS
        drawn = ax.barh(places, values, _BARS, color=colour, hatch=hatch, edgecolor="white", label=label)
        ax.bar_label(drawn, [f"{v:.2f}" if v < 10 else f"{v:.1f}" for v in values], fontsize=SMALL - 1, padding=3)
    ax.set_yticks(range(len(names)), [str(n) for n in names])
    ax.invert_yaxis()
    ax.set_xlim(right=1.12 * max((v for *_, values in groups for v in values), default=1))  # room for numbers
    what = "variation as the paper reports it" if reported else "strong variation"
    _title(ax, what, "error, % of max |a|", "")
    ax.legend(frameon=False, fontsize=SMALL, loc="upper right" if reported else "lower right")
