"""The picture of `nacre bench --selection`, as PNG bytes. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from nacre.bench.selection import SelectionRow

# Okabe and Ito's colours, which can be told apart whatever the eye, and markers besides.
_STYLES = {
    "exact": ("#000000", "^", "exact (compares with every key)"),
    "sqrt": ("#d55e00", "s", "sqrt (blocks of neighbours)"),
}


def plot_recall(rows: Sequence[SelectionRow], top_k: int) -> bytes:
    """Recall over length: a line for each method, a panel for each kind of keys, without and with causality."""
    kinds = list(dict.fromkeys(row.keys for row in rows))
    figure = Figure(figsize=(3.8 * len(kinds), 6.4), layout="constrained")
    axes = figure.subplots(2, len(kinds), squeeze=False, sharex=True, sharey=True)
    for line, causal in zip(axes, (False, True), strict=True):
        for ax, kind in zip(line, kinds, strict=True):
            _plot_panel(ax, [row for row in rows if row.keys == kind and row.causal == causal])
            ax.set_title(f"{kind}, causal" if causal else kind, loc="left", fontsize=12)
    axes[0, 0].set_ylim(0, 1.05)
    for ax in axes[:, 0]:
        ax.set_ylabel(f"recall@{top_k}", fontsize=12)
    for ax in axes[-1]:
        ax.set_xlabel("number of keys", fontsize=12)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=11.5)
    figure.suptitle(f"Share of the {top_k} best keys that a query finds", fontsize=14)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _plot_panel(ax: Axes, rows: Sequence[SelectionRow]) -> None:
    for method, (colour, marker, label) in _STYLES.items():
        points = sorted((row.length, row.recall) for row in rows if row.method == method)
        ax.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.8, label=label)
    lengths = sorted({row.length for row in rows})
    ax.set_xscale("log")
    ax.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=35)
    ax.set_xticks([], minor=True)
    ax.tick_params(labelsize=10.5)
    ax.grid(color="#e4e4e4", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)
