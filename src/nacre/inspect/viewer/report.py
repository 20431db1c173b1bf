"""`write_report`: the page of the viewer as one file that needs no server."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import whole
from nacre._util.files import write_atomic
from nacre.inspect.recording.recording import Recording
from nacre.inspect.viewer.app import SCRIPTS, page_file
from nacre.inspect.viewer.source import ViewerSource, plain

MOST_STEPS = 400  # of a sample
_NEAR = 8  # steps between two shown ones up to which they are read in blocks
_BLOCK = 64  # shown steps that are read at a time


def write_report(recordings: Sequence[Recording], path: Path, sample: int = 0) -> None:
    """Write the page with one sample of one recording, or of two to compare, atomically.

    A longer sample is thinned out to `MOST_STEPS` steps, evenly; the report says so.

    Raises:
        ValueError: If there is no such sample, or the file is not called .html.
    """
    if path.suffix != ".html":
        raise ValueError(f"export must be a file that ends with .html, got {path}")
    whole("sample", sample, 0)
    for recording in recordings:
        if sample >= recording.samples:
            raise ValueError(f"sample must be from 0 to {recording.samples - 1} in {recording.path}, got {sample}")
    data = report_data(recordings, sample)
    page = page_file("index.html").replace(
        '<link rel="stylesheet" href="page/style.css">', f"<style>\n{page_file('style.css')}</style>"
    )
    # No text of the data can end the element that holds it.
    held = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    page = page.replace("<main", f'<script type="application/json" id="report">{held}</script>\n<main', 1)
    for name in SCRIPTS:
        page = page.replace(f'<script src="page/{name}"></script>', f"<script>\n{page_file(name)}</script>")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page.encode())


def report_data(recordings: Sequence[Recording], sample: int) -> dict[str, Any]:
    """All data of one sample that the page would ask a server for."""
    runs, heads, frames = [], {}, []
    for run, recording in enumerate(recordings):
        source = ViewerSource(recording)
        about = source.about()
        about["samples"] = [about["samples"][sample]]
        about["lesions"] = False
        shown: list[NDArray[np.int64]] = []
        for number, layer in enumerate(recording.layers.values()):
            steps = _shown(layer.length(sample))
            shown.append(steps)
            about["layers"][number]["lengths"] = [len(steps)]
            for head in range(layer.heads):
                heads[f"{run}/{number}/{head}"] = _head(source, sample, layer.name, head, steps)
        longest = max(layer.length(sample) for layer in recording.layers.values())
        if longest > MOST_STEPS:
            about["name"] += f" ({len(_shown(longest))} of its {longest:,} steps)"
        runs.append(about)
        images = [source.frame(sample, int(step)) for step in shown[0]] if about["frames"] else []
        frames.append([f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images])
    return {"about": {"runs": runs}, "heads": heads, "frames": frames}


def _shown(length: int) -> NDArray[np.int64]:
    """Steps that the report has, evenly spaced."""
    return np.arange(0, length, -(-length // MOST_STEPS))


def _head(source: ViewerSource, sample: int, layer: str, head: int, steps: NDArray[np.int64]) -> dict[str, Any]:
    lists = _steps(source, sample, layer, head, steps)
    states = np.nan_to_num(np.array(lists.pop("states"), np.float64))  # [steps, neurons]; None becomes NaN
    low, high = states.min(0), states.max(0)
    width = np.where(high > low, high - low, 1)
    small = np.round(255 * (states - low) / width).astype(np.uint8)
    # The frames of a report are numbered by its own steps.
    lists["inputStep"] = list(range(len(steps)))
    return {
        "circuit": source.circuit(layer, head),
        "spread": source.spread(sample, layer, head),
        "low": plain(low),
        "high": plain(high),
        "states": base64.b64encode(small.tobytes()).decode(),
        "curves": {
            name: _curve(lists["time"], lists[name]) for name in ("gates", "output", "input") if name in lists
        },
        "steps": {"truth": None, **lists, "answer": source.answer(sample)},
    }


def _steps(
    source: ViewerSource, sample: int, layer: str, head: int, steps: NDArray[np.int64]
) -> dict[str, list[Any]]:
    """`ViewerSource.steps` of these steps; read in blocks where they are near each other."""
    gap = int(steps[1] - steps[0]) if len(steps) > 1 else 1
    size = _BLOCK if gap <= _NEAR else 1
    found: dict[str, list[Any]] = {}
    for i in range(0, len(steps), size):
        some = steps[i : i + size]
        part = source.steps(sample, layer, head, int(some[0]), int(some[-1]) + 1)
        for name, values in part.items():
            if isinstance(values, list):
                found.setdefault(name, []).extend(values[::gap] if size > 1 else values)
    return found


def _curve(time: list[float], rows: list[list[float | None]]) -> dict[str, Any]:
    columns = [{"mean": list(column)} for column in zip(*rows, strict=True)]
    return {"step": list(range(len(time))), "time": time, "columns": columns}
