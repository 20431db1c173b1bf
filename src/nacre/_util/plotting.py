"""The style that all figures share. Needs matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, safe for colour-blind readers, and dashes besides.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
TITLE, TEXT, SMALL = 13, 12, 11


def png(figure: Figure) -> bytes:
    """A figure as a PNG file in memory."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def open_frame(ax: Axes) -> None:
    """Axes without a box, a pale grid behind."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    ax.grid(color="#e4e4e4", linewidth=0.7)
    ax.set_axisbelow(True)


def legend_below(figure: Figure, columns: int, size: float = SMALL) -> None:
    """One legend below all panels: each label once, as its first panel shows it."""
    drawn: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn.setdefault(label, handle)
    columns = max(1, min(columns, len(drawn)))
    place = "outside lower center"
    figure.legend(drawn.values(), drawn.keys(), loc=place, ncols=columns, frameon=False, fontsize=size)
