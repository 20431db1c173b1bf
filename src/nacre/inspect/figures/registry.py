"""Figures of a recording, and how they become files. Needs matplotlib."""

import io
import os
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from nacre._util.files import write_atomic
from nacre.inspect.figures.activity import draw_activity
from nacre.inspect.figures.attention import draw_attention
from nacre.inspect.figures.circuit import draw_circuit
from nacre.inspect.figures.gates import draw_gates
from nacre.inspect.figures.lesion import draw_lesion
from nacre.inspect.figures.tuning import draw_tuning
from nacre.inspect.options import FigureKind

__all__ = [
    "FigureKind",
    "draw_activity",
    "draw_attention",
    "draw_circuit",
    "draw_gates",
    "draw_lesion",
    "draw_tuning",
    "save_figure",
]

SUFFIXES = ("svg", "pdf", "png")
_DPI = 200  # of PNG files, and of heat maps within the others
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file: whole, or not at all.

    Args:
        figure: The figure.
        path: Where it goes; its suffix says how: ".svg" and ".pdf" (lines and text), or ".png" (pixels). Its
            directory is made if it does not exist, and an earlier file is replaced.

    Returns:
        The path.

    Raises:
        ValueError: If the suffix is another one.

    Example:
        >>> from matplotlib.figure import Figure
        >>> save_figure(Figure(), tmp / "empty.svg").name
        'empty.svg'
    """
    path = Path(path)
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path must end in {', '.join(f'.{s}' for s in SUFFIXES)}, got {path.name!r}")
    buffer = io.BytesIO()
    # Text stays text, which can be searched and edited; the same figure is the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "nacre", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=suffix, dpi=_DPI, metadata=_UNDATED[suffix])
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, buffer.getvalue())
