"""Figures of a grid of runs, as PNG bytes: ranks, confusions, forecasts, losses. Needs matplotlib."""

import os
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from rich.console import Console

from nacre._util.files import write_atomic
from nacre._util.plotting import COLOURS, SMALL, TEXT, TITLE, open_frame, png
from nacre.data.dataset import Kind
from nacre.train.report.compare import Block, blocks_of, mean_ranks, rows_of
from nacre.train.report.results import find_results
from nacre.train.report.run_figures import NothingToDraw, forecast_curves, loss_curves
from nacre.train.report.statistics import critical_difference

_ACROSS = 4  # panels side by side
_NUMBERED = 12  # most classes for which every cell shows its share


def rank_diagram(blocks: Sequence[Block]) -> bytes:
    """Mean ranks over tasks; shaded: not significantly different from the best (Nemenyi's test).

    Raises:
        NothingToDraw: If no two models have results on a common task.
    """
    found = mean_ranks(blocks)
    if found is None:
        raise NothingToDraw("no task has complete results of two models")
    models = list(found.ranks)
    means = [found.mean(m) for m in models]
    figure = Figure(figsize=(7.2, 1.9 + 0.3 * len(models)), layout="constrained")
    ax = figure.add_subplot()
    reach = critical_difference(len(models), len(found.tasks))
    ax.axvspan(means[0], min(means[0] + reach, len(models) + 0.5), color="#56b4e9", alpha=0.2, linewidth=0)
    for y, (model, mean) in enumerate(zip(models, means, strict=True)):
        ax.plot(found.ranks[model], [y] * len(found.tasks), "o", color="#9a9a9a", markersize=4, clip_on=False)
        ax.plot(mean, y, "D", color=COLOURS[0], markersize=7, clip_on=False)
        ax.annotate(f"{mean:.1f}", (1.02, y), xycoords=("axes fraction", "data"), va="center", fontsize=SMALL)
    ax.set_yticks(range(len(models)), models)
    ax.set(ylim=(len(models) - 0.5, -0.5), xlim=(0.5, len(models) + 0.5))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(f"rank among {len(models)} models (1 is best)", fontsize=TEXT)
    open_frame(ax)
    title = f"Diamonds: mean rank over {_list(found.tasks)}; shaded: not told apart from the best at 5%."
    figure.suptitle("\n".join(textwrap.wrap(title, 70)), x=0.01, ha="left", fontsize=TEXT)
    return png(figure)


def confusion_matrices(block: Block) -> bytes:
    """Confusion matrices in % of each true class, summed over folds; a panel for each model.

    Raises:
        NothingToDraw: If no run has classes.
    """
    counts = _confusions(block)
    if not counts:
        raise NothingToDraw("no run has a confusion matrix")
    names = [row.model for row in rows_of(block) if row.model in counts]
    classes = next(r.classes for r in block.results if r.model == names[0])
    across = min(_ACROSS, len(names))
    down = -(-len(names) // across)
    side = 1.4 + 0.28 * min(len(classes), 12)
    longest = 0.085 * max(map(len, classes))  # room for the names of classes, in inches
    size = (max(4.5, across * side + longest + 0.5), down * (side + 0.35) + longest + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for ax, name in zip(axes.flat, names, strict=False):
        _plot_confusion(ax, counts[name], classes)
        ax.set_title(name, fontsize=TEXT)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    for ax in axes.flat[max(0, len(names) - across) : len(names)]:
        ax.tick_params(labelbottom=True)
    figure.supxlabel("answer", fontsize=TEXT)
    figure.supylabel("truth", fontsize=TEXT)
    figure.suptitle(f"{block.setting.task}: % of each true class", fontsize=TITLE)
    return png(figure)


def write_plots(directory: str | os.PathLike[str], out: str | os.PathLike[str]) -> list[Path]:
    """Draw what the runs under a directory allow into `out`, print what is left out and why; returns the files."""
    found = find_results(directory)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    blocks = blocks_of(found.results)
    jobs = [(f"ranks-{name}", partial(rank_diagram, chosen)) for name, chosen in _one_a_task(blocks).items()]
    for stem, block in _stems(blocks).items():
        jobs += [(f"{name}-{stem}", partial(draw, block)) for name, draw in _plots_of(block).items()]
    written = []
    for stem, draw in jobs:
        path = out / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', stem)}.png"
        try:
            written.append(write_atomic(path, draw()))
        except NothingToDraw as reason:
            console.print(f"{path.name} is not drawn: {reason}", markup=False, soft_wrap=True)
    return written


def _plots_of(block: Block) -> dict[str, Callable[[Block], bytes]]:
    """Figures that make sense for the kind of task."""
    kind = block.results[0].kind
    plots: dict[str, Callable[[Block], bytes]] = {"loss": loss_curves}
    if kind in (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION):
        plots["confusion"] = confusion_matrices
    if kind == Kind.FORECASTING:
        plots["forecast"] = forecast_curves
    return plots


def _one_a_task(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """Of each profile, for each task the block with the most runs."""
    chosen: dict[str, dict[str, Block]] = {}
    for block in blocks:
        tasks = chosen.setdefault(block.setting.profile, {})
        known = tasks.get(block.setting.task)
        if known is None or len(block.results) > len(known.results):
            tasks[block.setting.task] = block
    return {profile: list(tasks.values()) for profile, tasks in chosen.items()}


def _stems(blocks: Sequence[Block]) -> dict[str, Block]:
    """A short name for each block: task and profile, and a number where that is not enough."""
    stems: dict[str, Block] = {}
    for block in blocks:
        stem = f"{block.setting.task}-{block.setting.profile}"
        taken = sum(name == stem or name.startswith(f"{stem}-") for name in stems)
        stems[f"{stem}-{taken + 1}" if taken else stem] = block
    return stems


def _confusions(block: Block) -> dict[str, NDArray[np.int64]]:
    """Counts [classes, classes] of each model, summed over its runs."""
    counts: dict[str, NDArray[np.int64]] = {}
    for r in block.results:
        if r.confusion:
            mine = np.array(r.confusion, dtype=np.int64)
            counts[r.model] = counts[r.model] + mine if r.model in counts else mine
    return counts


def _plot_confusion(ax: Axes, counts: NDArray[np.int64], classes: Sequence[str]) -> None:
    total = counts.sum(1, keepdims=True)  # [classes, 1]
    share = np.divide(100 * counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
    ax.imshow(share, vmin=0, vmax=100, cmap="Blues")
    ax.set_facecolor("#e4e4e4")  # a class that never occurs stays grey
    ax.set_xticks(range(len(classes)), classes, rotation=90, fontsize=9)
    ax.set_yticks(range(len(classes)), classes, fontsize=9)
    ax.tick_params(length=0)
    if len(classes) <= _NUMBERED:
        for (i, j), value in np.ndenumerate(share):
            if value >= 0.5:
                colour = "w" if value > 55 else "k"
                ax.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=7, color=colour)


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
