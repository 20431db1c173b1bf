"""Figures of a search: how it went, what mattered, and where good values lie. Needs optuna and matplotlib."""

import math
from typing import Any

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial

from nacre._util.plotting import COLOURS, TEXT, TITLE, legend_below, open_frame, png
from nacre.train.tuning.storage import TrialOutcome, finished, loss_of, outcome, quietly

_FEWEST = 4  # finished trials for which importance is computed, at least
_SLICES = 6  # panels of values, the most important first
_GOOD, _OTHER = COLOURS[1], COLOURS[0]


def figures_of(study: optuna.Study, start: dict[str, Any]) -> dict[str, bytes]:
    """PNG files by name: `history.png`, and, from four finished trials on, `importance.png` and `slices.png`.

    The study has at least one finished trial; `start` holds the values of the recipe that it began with.
    """
    figures = {"history.png": _history(study, start)}
    shares = _importance(study)
    if shares:
        figures |= {"importance.png": _bars(shares), "slices.png": _slices(study, list(shares)[:_SLICES])}
    return figures


def _importance(study: optuna.Study) -> dict[str, float]:
    """Share of each value in how much trials differ, most first; empty if there are too few trials."""
    done = finished(study)
    if len(done) < _FEWEST or len({loss_of(t) for t in done}) < 2:
        return {}
    with quietly():
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        try:
            return optuna.importance.get_param_importances(study, evaluator=evaluator)
        except (RuntimeError, ValueError):  # its trees found no difference worth a split
            return {}


def _history(study: optuna.Study, start: dict[str, Any]) -> bytes:
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    ax = figure.subplots()
    done = finished(study)
    number, value = [t.number for t in done], [loss_of(t) for t in done]
    ax.scatter(number, value, s=34, color=_OTHER, label="finished", zorder=3)
    pruned = [t for t in study.get_trials(deepcopy=False) if outcome(t) is TrialOutcome.PRUNED]
    if pruned:
        x, y = [t.number for t in pruned], [loss_of(t) for t in pruned]
        ax.scatter(x, y, s=34, marker="x", color="#888888", label="pruned, best loss until then")
    ax.step(number, np.minimum.accumulate(value), where="post", color=_GOOD, linewidth=1.8, label="best so far")
    own = [loss_of(t) for t in done if t.params == start]
    if own:
        ax.axhline(own[0], color="#444444", linestyle=":", linewidth=1.2, label="the recipe as it was")
    if min(value) > 0 and max(value) > 3 * min(value):
        ax.set_yscale("log")
        for axis_formatter in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            axis_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("trial", fontsize=TEXT)
    ax.set_ylabel("validation loss", fontsize=TEXT)
    ax.set_title("how the search went", fontsize=TITLE, loc="left")
    open_frame(ax)
    legend_below(figure, 4)
    return png(figure)


def _bars(shares: dict[str, float]) -> bytes:
    figure = Figure(figsize=(8.0, 1.2 + 0.3 * len(shares)), layout="constrained")
    ax = figure.subplots()
    names = list(shares)[::-1]
    ax.barh(names, [shares[name] for name in names], color=_OTHER, height=0.7)
    ax.set_xlabel("share in how much the losses of trials differ (fANOVA)", fontsize=TEXT)
    ax.set_title("what mattered", fontsize=TITLE, loc="left")
    open_frame(ax)
    ax.grid(axis="y", visible=False)
    return png(figure)


def _slices(study: optuna.Study, names: list[str]) -> bytes:
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(3.6 * columns + 0.6, 3.0 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for ax, name in zip(panels.flat, names, strict=False):
        _slice(ax, finished(study), name)
    for ax in panels.flat[len(names) :]:
        ax.set_visible(False)
    for ax in panels[:, 0]:
        ax.set_ylabel("validation loss", fontsize=TEXT)
    return png(figure)


def _slice(ax: Axes, done: list[FrozenTrial], name: str) -> None:
    """One value of all finished trials against their loss; the best trial stands out."""
    distribution = done[0].distributions[name]
    values = [t.params[name] for t in done]
    if isinstance(distribution, CategoricalDistribution):
        places = {option: i for i, option in enumerate(distribution.choices)}
        ax.set_xticks(range(len(places)), [str(option) for option in places])
        values = [places[value] for value in values]
        ax.margins(x=0.2)  # room for words
    elif distribution.log:  # pyright: ignore[reportAttributeAccessIssue]
        ax.set_xscale("log")
    losses = [loss_of(t) for t in done]
    best = int(np.argmin(losses))
    ax.scatter(values, losses, s=26, color=_OTHER)
    ax.scatter(values[best], losses[best], s=60, color=_GOOD, marker="D", zorder=3)
    ax.set_xlabel(name, fontsize=TEXT)
    open_frame(ax)
