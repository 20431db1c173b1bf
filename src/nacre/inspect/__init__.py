"""Looking inside: recordings of every neuron, what can be learned from them, and a page to watch them on.

Needs the extra `view` (zarr, starlette, uvicorn). Names are imported on first use: `import nacre` stays light.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.inspect.analysis.centroids import centroids
    from nacre.inspect.analysis.gates import gate_by_label
    from nacre.inspect.analysis.health import health
    from nacre.inspect.analysis.lesion import Lesion, lesioned
    from nacre.inspect.analysis.lesion_study import lesion_study
    from nacre.inspect.analysis.strengths import strengths
    from nacre.inspect.analysis.tuning import tuning
    from nacre.inspect.recording.record import record
    from nacre.inspect.recording.recording import LayerRecording, Recording
    from nacre.inspect.recording.run import record_run

_HOMES = {
    "LayerRecording": "recording.recording",
    "Lesion": "analysis.lesion",
    "Recording": "recording.recording",
    "centroids": "analysis.centroids",
    "gate_by_label": "analysis.gates",
    "health": "analysis.health",
    "lesion_study": "analysis.lesion_study",
    "lesioned": "analysis.lesion",
    "record": "recording.record",
    "record_run": "recording.run",
    "strengths": "analysis.strengths",
    "tuning": "analysis.tuning",
}

__all__ = [
    "LayerRecording",
    "Lesion",
    "Recording",
    "centroids",
    "gate_by_label",
    "health",
    "lesion_study",
    "lesioned",
    "record",
    "record_run",
    "strengths",
    "tuning",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nacre.inspect' has no attribute {name!r}")
    if find_spec("zarr") is None:
        raise ModuleNotFoundError("nacre.inspect needs zarr; pip install 'nacre[view]'", name="zarr")
    return getattr(import_module(f"nacre.inspect.{_HOMES[name]}"), name)
