"""Runs the ONNX files that nacre exports, with numpy and onnxruntime alone."""

from nacre_runtime._model import Model as Model
from nacre_runtime._stream import Stream as Stream

__version__ = "0.1.0.dev0"
