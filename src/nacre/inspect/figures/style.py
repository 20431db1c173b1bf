"""What the figures of a recording have in common: sizes, colours, words, and checks of arguments."""

import io
import math
import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from nacre._util.files import write_atomic
from nacre._util.plotting import COLOURS, open_frame
from nacre.inspect.analysis import labels
from nacre.inspect.recording.hooks import check_index
from nacre.inspect.recording.layer_writer import OF_CIRCUIT
from nacre.inspect.recording.recording import GROUPS, LayerRecording, Recording

WIDTH = 8.0  # inches
TITLE, TEXT, SMALL = 12, 10, 9  # points
POINTS = 1000  # about how many moments a curve shows
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": SMALL}
DARK, PALE = "#404040", "#b8b8b8"
POSITIVE, NEGATIVE = COLOURS[0], COLOURS[1]  # blue and vermilion, safe for colour-blind readers
DIVERGING = LinearSegmentedColormap.from_list(
    "nacre-diverging", ["#7f3000", NEGATIVE, "#f5bd93", "#f7f7f7", "#9fcbe6", POSITIVE, "#003f66"]
)
SEQUENTIAL = LinearSegmentedColormap.from_list("nacre-share", ["#ffffff", "#b9dcf0", POSITIVE, "#002b47"])
SUFFIXES = ("svg", "pdf", "png")
_DPI = 200  # of PNG files, and of heat maps within the others
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
GROUP_COLOURS: dict[str, str] = {
    **dict(zip([group for group in GROUPS if group != "clock"], COLOURS, strict=True)),
    "clock": "#8a6d00",  # the palette has six
}
GATES = {  # sign, and what it is in words
    "phi": ("φ", "content target"),
    "omega": ("ω", "decay rate"),
    "t": ("t", "internal time"),
    "match": ("match", "query to key"),
    "effect": ("s", "effect of the value"),
    "logits": ("a", "attention logit"),
    "keys": ("keys", "effective number"),
}


def new_figure(height: float, title: str, caption: str) -> Figure:
    """An empty figure of so many inches, with a title and a caption, which are broken into lines here."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    lines = [line for part in title.split("\n") for line in wrap(part, WIDTH, TITLE)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=TITLE)
    lines = "\n".join(wrap(caption, WIDTH, SMALL))
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=SMALL, color=DARK)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, atomically: ".svg" and ".pdf" (lines and text), or ".png" (pixels).

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


def wrap(text: str, inches: float, size: float) -> list[str]:
    """Lines of a text that fit a width at a font size."""
    font, room = FontProperties(size=size), 0.93 * inches * 72  # pixels may make letters wider
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        fits = text_to_path.get_text_width_height_descent(longer, font, ismath=False)[0] <= room
        if fits or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def short(text: str, letters: int) -> str:
    """A text of so many letters at most; the middle of a longer one is left out.

    Example:
        >>> short("a long name with a number 3", 14)
        'a long n…ber 3'
    """
    if len(text) <= letters:
        return text
    end = (letters - 1) * 2 // 5
    return f"{text[: letters - 1 - end].rstrip()}…{text[-end:].lstrip()}"


def frame(ax: Axes) -> None:
    """No box, a pale grid, small numbers."""
    open_frame(ax)
    ax.tick_params(labelsize=SMALL)


def layer_of(
    recording: Recording, layer: str | None, sample: int, head: int | None = None, step: int | None = None
) -> LayerRecording:
    """The layer that a figure shows, after a check that it has such a sample, head and step."""
    found = labels.layer_of(recording, layer)
    check_index("sample", sample, recording.samples)
    if found.length(sample) == 0:
        raise ValueError(f"sample must have steps that are no padding, got {sample}; choose another one")
    if head is not None:
        check_index("head", head, found.heads)
    if step is not None:
        check_index("step", step, found.length(sample))
    return found


def title_of(recording: Recording, layer: LayerRecording, sample: int, what: str) -> str:
    """A title: what is shown, of which layer where there are several, and of which sample."""
    of = f"{what}, {layer.name}" if len(recording.layers) > 1 else what
    return f"{of}\n{recording.about.name}; {recording.about.samples[sample]}"


def pair_states(layer: LayerRecording) -> str:
    """A sentence that says what the states of a step are where a neuron has one for each key."""
    groups = [group for group in OF_CIRCUIT if layer.sizes[group]]
    return (
        f"States of {', '.join(groups[:-1])} and {groups[-1]} neurons are means over the attended keys, "
        "by attention weight."
    )


def time_label(recording: Recording, layer: LayerRecording) -> str:
    """Label of an axis of time; steps where the layer was given no stamps."""
    if not layer.has("time"):
        return "step"
    unit = recording.about.time_unit
    return f"time ({unit})" if unit else "time"


def moment(recording: Recording, layer: LayerRecording, sample: int, step: int) -> str:
    """A step in words, with its time if it has one."""
    if not layer.has("time"):
        return f"step {step}"
    stamp = layer.time(sample, step, step + 1)[0]
    unit = recording.about.time_unit
    return f"step {step} ({number(stamp)} {unit})" if unit else f"step {step} (time {number(stamp)})"


def number(value: float) -> str:
    """A number with four digits, or without a fraction.

    Example:
        >>> number(9.10853), number(100517.3)
        ('9.109', '100,517')
    """
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def steps_of(recording: Recording, name: str, sample: int) -> int:
    """Steps of a sample of "x" or "output", without padding at the end."""
    length = recording.length(name, sample)
    if length != recording.length("x", sample):
        return length
    return int(np.flatnonzero(~recording.padding(sample)).max(initial=0)) + 1


def times_of(recording: Recording, layer: LayerRecording, sample: int, name: str) -> NDArray[np.float64]:
    """Stamps of the steps of "x" or "output" of a sample, on the layer's axis of time.

    Networks count time from the first step, and may have fewer tokens than there are steps.
    """
    own, steps = layer.time(sample), steps_of(recording, name, sample)
    if steps == len(own) or len(own) == 0:
        return own
    known = steps_of(recording, "x", sample)
    if steps != known or not layer.has("time"):
        return np.linspace(own[0], own[-1], steps)
    stamps = np.asarray(recording.array("time")[sample, :known], np.float64)
    as_given = stamps[0] <= own[0] and own[-1] <= stamps[-1]
    return stamps if as_given else stamps - stamps[0]


def edges_of(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges [n + 1] of cells around moments [n]: halfway between neighbours.

    Example:
        >>> edges_of(np.array([0.0, 1.0, 3.0])).tolist()
        [-0.5, 0.5, 2.0, 4.0]
    """
    if len(times) < 2 or times[0] == times[-1]:
        return np.linspace(times[0] - 0.5, times[0] + 0.5, len(times) + 1)
    middle = (times[1:] + times[:-1]) / 2
    first, last = max(times[1] - times[0], 1e-12), max(times[-1] - times[-2], 1e-12)
    return np.concatenate([[times[0] - first / 2], middle, [times[-1] + last / 2]])


def reach_of(values: NDArray) -> float:
    """End of a symmetric scale of colours for some states: 1, or a little more than the largest.

    Example:
        >>> reach_of(np.array([-0.3, 0.2])), reach_of(np.array([1.3]))
        (1.0, 1.5)
    """
    largest = float(np.abs(values).max(initial=0.0))
    return max(1.0, math.ceil(2 * largest) / 2)
