"""Looking inside: recordings of every neuron, what can be learned from them, and a page to watch them on.

Needs the extra `view` (zarr, starlette, uvicorn).
"""

from importlib.util import find_spec

if find_spec("zarr") is None:
    raise ModuleNotFoundError("nacre.inspect needs zarr; pip install 'nacre[view]'", name="zarr")

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
