"""Looking inside: recordings of every neuron, what can be learned from them, and a page to watch them on.

Needs the extra `view` (zarr, starlette, uvicorn).
"""

from nacre.inspect.lesion import Lesion, lesioned
from nacre.inspect.record import record
from nacre.inspect.recording import LayerRecording, Recording

__all__ = ["LayerRecording", "Lesion", "Recording", "lesioned", "record"]
