"""What all pictures have in common. Needs matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def png(figure: Figure) -> bytes:
    """A figure as a PNG file in memory."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def open_frame(ax: Axes) -> None:
    """No box, a pale grid behind."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=11)
    ax.grid(color="#e4e4e4", linewidth=0.7)
    ax.set_axisbelow(True)
