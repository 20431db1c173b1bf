"""The demo's pictures. Needs matplotlib."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from nacre.data.spirals import HALF

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from torch import Tensor

    from nacre.data.spirals import Spirals
    from nacre.wiring import Wiring

_SHOWN = 6
_INSIDE, _OUTSIDE = "#2166ac", "#d6604d"


def plot_spirals(data: Spirals, guess: Tensor, losses: list[float], out: Path) -> Path:
    """Six test spirals with what was seen, what is true and what NAC says, and the loss curve."""
    figure = Figure(figsize=(12, 6), layout="constrained")
    axes = figure.subplots(2, 4).ravel()
    for ax, i in zip(axes[[0, 1, 2, 4, 5, 6]], range(_SHOWN), strict=True):
        _plot_spiral(ax, data.x[i].numpy(), data.target[i].numpy(), guess[i].numpy())
    _plot_loss(axes[3], losses)
    axes[7].set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    axes[7].legend(handles, labels, loc="center", frameon=False, fontsize=12)
    figure.suptitle("Spirals seen at irregular moments of their first half, completed by NAC", fontsize=14)
    return save_figure(figure, out / "spirals.png")


def plot_circuit(wiring: Wiring, out: Path) -> Path:
    """The circuit that looks at each query-key pair."""
    return save_figure(wiring.draw(), out / "circuit.png")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG under a temporary name, then rename it, so that no half-written picture is ever left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=110)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _plot_spiral(ax: Axes, seen: np.ndarray, true: np.ndarray, guess: np.ndarray) -> None:
    ax.plot(*true.T, color="#c8c8c8", linewidth=5, solid_capstyle="round", label="true spiral")
    ax.plot(*guess[:HALF].T, color=_INSIDE, linewidth=1.4, label="NAC, between observations")
    ax.plot(*guess[HALF - 1 :].T, color=_OUTSIDE, linewidth=1.4, label="NAC, after the last one")
    ax.scatter(*seen.T, s=9, color="black", zorder=3, label="seen (with noise)")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("#dddddd")


def _plot_loss(ax: Axes, losses: list[float]) -> None:
    window = min(20, len(losses))
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    ax.semilogy(losses, color="#cccccc", linewidth=0.8)
    ax.semilogy(np.arange(window - 1, len(losses)), smooth, color="#444444")
    ax.set_title("training loss", fontsize=11)
    ax.set_xlabel("step")
    ax.spines[["top", "right"]].set_visible(False)
