"""Figures from the files of single runs, forecasts and training logs, as PNG bytes. Needs matplotlib."""

import csv
import math
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from nacre._util.plotting import COLOURS, DASHES, SMALL, TEXT, TITLE, legend_below, open_frame, png
from nacre.train.report.compare import REFERENCE, Block, rows_of
from nacre.train.result import Result

_WINDOWS = 5  # consecutive test windows whose mean is shown, as in the paper's figure,
_FIRST = 100  # from this one on
_TRUTH = "#444444"
SHOWN = len(COLOURS)  # lines that a panel has room for


class NothingToDraw(ValueError):
    """The runs do not hold what a figure shows; the message says what is missing."""


def leading(block: Block, having: set[str]) -> list[str]:
    """Models for the lines of a panel: NAC and the best of the others, then controls, of those that have data."""
    names = [row.model for row in rows_of(block) if row.model in having]
    return sorted(sorted(names, key=lambda name: name != REFERENCE)[:SHOWN], key=lambda name: name != REFERENCE)


class Forecast(NamedTuple):
    """Consecutive test windows of a run: [m, D] prediction and truth, [m] first rows, time of a step."""

    prediction: NDArray[np.float64]
    truth: NDArray[np.float64]
    start: NDArray[np.int64]
    step: float
    unit: str


def forecast_curves(block: Block) -> bytes:
    """Forecasts of one fold beside the truth: the mean of five consecutive test windows, and the first of them.

    The mean is what the paper shows; it hides errors that differ between windows, so one window stands beside it.

    Raises:
        NothingToDraw: If no run has predictions.
    """
    forecasts = _comparable(block)
    names = leading(block, set(forecasts))
    if not names:
        raise NothingToDraw("no run has predictions of forecasts")
    one = forecasts[names[0]]
    count = min(_WINDOWS, len(one.start))
    first = min(_FIRST, len(one.start) - count)
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    _plot_forecasts(panels[0], forecasts, names, slice(first, first + count))
    panels[0].set_title(f"mean of {count} windows (from {first:,})", loc="left", fontsize=TITLE)
    _plot_forecasts(panels[1], forecasts, names, slice(first, first + 1))
    panels[1].set_title(f"window {first:,} alone", loc="left", fontsize=TITLE)
    panels[0].set_ylabel(f"{block.setting.task}, raw units", fontsize=TEXT)
    legend_below(figure, 4)
    return png(figure)


def loss_curves(block: Block) -> bytes:
    """Training and validation loss against steps: mean over runs, and the range from the lowest to the highest.

    Raises:
        NothingToDraw: If no run has a log.
    """
    logs: dict[str, list[dict[int, tuple[float, float]]]] = {}
    for r in block.results:
        log = _log(r.directory / "log.csv")
        if log:
            logs.setdefault(r.model, []).append(log)
    names = leading(block, set(logs))
    if not names:
        raise NothingToDraw("no run has a training log")
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for part, (ax, title) in enumerate(zip(panels, ("training", "validation"), strict=True)):
        drawn = [_plot_losses(ax, logs[name], part, name, i) for i, name in enumerate(names)]
        ax.set_title(f"{title} loss", loc="left", fontsize=TITLE)
        ax.set_xlabel("step", fontsize=TEXT)
        open_frame(ax)
        if all((losses > 0).all() for losses in drawn):
            _logarithmic(ax)
    legend_below(figure, 4)
    several = any(len(logs[name]) > 1 for name in names)
    band = "mean over runs, shaded from lowest to highest" if several else "one run a model"
    figure.suptitle(f"{block.setting.task}, {block.setting.profile}: {band}", fontsize=TITLE)
    return png(figure)


def _comparable(block: Block) -> dict[str, Forecast]:
    """Forecasts of the fold and seed for which most models predicted the same windows."""
    groups: dict[tuple[int, int, bytes], dict[str, Forecast]] = {}
    for r in block.results:
        forecast = _forecast(r)
        if forecast is not None:
            windows = forecast.start.tobytes() + forecast.truth.tobytes()
            groups.setdefault((r.fold, r.seed, windows), {})[r.model] = forecast
    # Of groups with equally many, the first fold and seed.
    return min(groups.items(), key=lambda item: (-len(item[1]), item[0]))[1] if groups else {}


def _forecast(r: Result) -> Forecast | None:
    """The forecasts of a run; None if it has none, diverged, or left a damaged file."""
    path = r.directory / "predictions.npz"
    if r.kind != "forecasting" or not path.is_file():
        return None
    try:
        # Opened here because np.load leaves a file open that it finds damaged.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            parts = Forecast(
                file["prediction"], file["truth"], file["start"], float(file["step"]), str(file["unit"])
            )
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile):
        return None
    fits = parts.prediction.shape == parts.truth.shape and parts.truth.ndim == 2 and parts.truth.size > 0
    return parts if fits and len(parts.start) == len(parts.truth) and np.isfinite(parts.prediction).all() else None


def _plot_forecasts(ax: Axes, forecasts: dict[str, Forecast], names: list[str], windows: slice) -> None:
    one = forecasts[names[0]]
    ahead = one.step * np.arange(1, one.truth.shape[1] + 1)  # [D]
    ax.plot(ahead, one.truth[windows].mean(0), color=_TRUTH, linewidth=3.2, alpha=0.5, label="truth")
    for i, name in enumerate(names):
        curve = forecasts[name].prediction[windows].mean(0)  # [D]
        ax.plot(ahead, curve, color=COLOURS[i], linestyle=DASHES[i], linewidth=1.8, label=name)
    ax.set_xlabel(f"{one.unit or 'time'} ahead", fontsize=TEXT)
    open_frame(ax)


def _log(path: Path) -> dict[int, tuple[float, float]] | None:
    """Training and validation loss by step; None where there is no log, or a damaged one."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {int(row["step"]): (_loss(row["train_loss"]), _loss(row["valid_loss"])) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _loss(text: str) -> float:
    return float(text) if text else math.nan


def _plot_losses(
    ax: Axes, logs: list[dict[int, tuple[float, float]]], part: int, name: str, i: int
) -> NDArray[np.float64]:
    """One model: steps at which all its runs have a loss. Returns the losses [runs, steps]."""
    common = sorted(
        step for step in logs[0] if all(step in log and math.isfinite(log[step][part]) for log in logs)
    )
    losses = np.array([[log[step][part] for step in common] for log in logs])  # [runs, steps]
    ax.plot(common, losses.mean(0), color=COLOURS[i], linestyle=DASHES[i], linewidth=1.8, label=name)
    if len(logs) > 1:
        ax.fill_between(common, losses.min(0), losses.max(0), color=COLOURS[i], alpha=0.18, linewidth=0)
    return losses


def _logarithmic(ax: Axes) -> None:
    """Plain numbers on a logarithmic axis; between powers of ten only where there is room."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_major_formatter(plain)
    ax.yaxis.set_minor_formatter(plain if high < 10 * low else NullFormatter())
    ax.tick_params(which="minor", labelsize=SMALL)
