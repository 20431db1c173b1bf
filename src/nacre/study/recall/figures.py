"""Accuracy over training steps, and how often the selected keys hold the answer. Needs matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nacre._util.plotting import COLOURS, DASHES, TEXT, legend_below, open_frame, png
from nacre.study.recall.run import guessed

_ROWS = (("accuracy", "accuracy"), ("found", "chosen keys hold the item"))


def plot_recall(results: Sequence[dict[str, Any]]) -> bytes:
    """A column for each question, length and budget; lines are means over seeds, bands from least to most."""
    sections = sorted({(r["question"], r["length"], r["steps"]) for r in results})
    models = list(dict.fromkeys(r["model"] for r in results))
    figure = Figure(figsize=(max(6.5, 0.8 + 3.6 * len(sections)), 7.0 + 0.14 * len(models)), layout="constrained")
    panels = figure.subplots(2, len(sections), squeeze=False, sharex="col", sharey=True)
    for column, section in enumerate(sections):
        some = [r for r in results if (r["question"], r["length"], r["steps"]) == section]
        for ax, (quantity, title) in zip(panels[:, column], _ROWS, strict=True):
            _draw(ax, some, models, quantity)
            if column == 0:
                ax.set_ylabel(title, fontsize=TEXT)
        panels[0, column].set_title(f"by {section[0]}, {section[1] - 1} items", fontsize=TEXT)
        guess = guessed(*section[:2])
        panels[0, column].axhline(guess, color="#888888", linewidth=1, linestyle=":", label="most frequent value")
        panels[0, column].set_ylim(-0.03, 1.03)
        panels[1, column].set_xlabel("training steps", fontsize=TEXT)
    width = 0.6 + 0.085 * max(len(label) for ax in panels.flat for label in ax.get_legend_handles_labels()[1])
    legend_below(figure, round(figure.get_figwidth() / width))
    return png(figure)


def _draw(ax: Axes, results: Sequence[dict[str, Any]], models: Sequence[str], quantity: str) -> None:
    for i, model in enumerate(models):
        curves = [r["curve"] for r in results if r["model"] == model]
        if not curves or curves[0][-1][quantity] is None:
            continue
        steps = [point["step"] for point in curves[0]]
        values = np.array([[point[quantity] for point in curve] for curve in curves])  # [seeds, points]
        # Dashes change once all colours have been used, so that more lines than colours can be told apart.
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
        ax.plot(steps, values.mean(0), color=colour, linestyle=dash, linewidth=1.8, label=model)
        if len(values) > 1:
            ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.13, linewidth=0)
    open_frame(ax)
