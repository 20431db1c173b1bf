"""Looking inside: recordings of every neuron, their analysis, and a page that shows them.

Needs the extra `view` (zarr, starlette, uvicorn). Names are imported on first use: `import nacre` stays light.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nacre._util.extras import how_to_install

if TYPE_CHECKING:
    from nacre.inspect.analysis.centroids import centroids as centroids
    from nacre.inspect.analysis.gates import gate_by_label as gate_by_label
    from nacre.inspect.analysis.health import health as health
    from nacre.inspect.analysis.lesion import Lesion as Lesion
    from nacre.inspect.analysis.lesion import lesioned as lesioned
    from nacre.inspect.analysis.lesion_study import lesion_study as lesion_study
    from nacre.inspect.analysis.strengths import strengths as strengths
    from nacre.inspect.analysis.time_tuning import time_tuning as time_tuning
    from nacre.inspect.analysis.tuning import tuning as tuning
    from nacre.inspect.recording.record import record as record
    from nacre.inspect.recording.recording import LayerRecording as LayerRecording
    from nacre.inspect.recording.recording import Recording as Recording
    from nacre.inspect.recording.run import record_run as record_run

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
    "time_tuning": "analysis.time_tuning",
    "tuning": "analysis.tuning",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nacre.inspect' has no attribute {name!r}")
    if find_spec("zarr") is None:
        raise ModuleNotFoundError(f"nacre.inspect needs zarr; {how_to_install('train,view')}", name="zarr")
    return getattr(import_module(f"nacre.inspect.{_HOMES[name]}"), name)
