"""Looking inside: recordings of every neuron, what can be learned from them, and a page to watch them on.

Needs the extra `view` (zarr, starlette, uvicorn).
"""

from importlib.util import find_spec

if find_spec("zarr") is None:
    raise ModuleNotFoundError("nacre.inspect needs zarr; pip install 'nacre[view]'", name="zarr")

from nacre.inspect.centroids import centroids
from nacre.inspect.gates import gate_by_label
from nacre.inspect.health import health
from nacre.inspect.lesion import Lesion, lesioned
from nacre.inspect.lesion_study import lesion_study
from nacre.inspect.record import record
from nacre.inspect.recording import LayerRecording, Recording
from nacre.inspect.run import record_run
from nacre.inspect.strengths import strengths
from nacre.inspect.tuning import tuning

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
