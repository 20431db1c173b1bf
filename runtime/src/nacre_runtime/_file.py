"""A file that nacre exported: its graph in onnxruntime, and what its metadata say."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

FORMAT = 1
Array = np.ndarray[Any, Any]


class File:
    """A graph with its facts. Use `Model` for whole sequences, `Stream` for one step after the other.

    Attributes:
        facts: What the metadata hold: kind, features, classes, scaler, where it comes from, licence.
        classes: Names of the classes; empty for numbers.
    """

    def __init__(self, path: str | os.PathLike[str], form: str, other: str, threads: int) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path} is no file; nacre export writes one")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors come as exceptions
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(
                self.path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a class for each kind, all below Exception
            raise ValueError(f"{self.path} is damaged, or no ONNX file: {_first_line(error)}") from None
        self.facts = _facts(self.path, self._session.get_modelmeta().custom_metadata_map)
        if self.facts["form"] != form:
            raise ValueError(f"{self.path} is for a {self.facts['form']}, not for a {form}; use {other}.load")
        self.classes: tuple[str, ...] = tuple(self.facts.get("classes", ()))
        self._names = [port.name for port in self._session.get_outputs()]
        self._taken = {port.name for port in self._session.get_inputs()}

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        given = {name: value for name, value in inputs.items() if name in self._taken}
        found: Any = self._session.run(None, given)
        return dict(zip(self._names, found, strict=True))

    def _answer(self, outputs: Mapping[str, Array]) -> Array:
        """Probabilities where there are any, else numbers."""
        return outputs["probability" if "probability" in outputs else "y"]

    def _numbers(self, x: object, wanted: str, dims: int) -> Array:
        """An array whose last dimensions are one step, of one of two ranks."""
        step = tuple(self.facts["step"])
        try:
            found = np.asarray(x, dtype=self.facts["dtype"])
        except (TypeError, ValueError):
            raise ValueError(f"x must be numbers of shape {wanted}, got {type(x).__name__}") from None
        if found.ndim not in (dims, dims + 1) or found.shape[-len(step) :] != step:
            raise ValueError(f"x must have shape {wanted}, got {found.shape}; {self._features()}")
        if 0 in found.shape:
            raise ValueError(f"x must have at least one row and one step, got shape {found.shape}")
        return found

    def _features(self) -> str:
        names = self.facts.get("features")
        return f"the features are {', '.join(names)}" if names else f"a step has shape {self.facts['step']}"

    def _refuse_unknown(self, x: Array, padding: Array) -> None:
        """Refuse NaN and infinity in valid steps, but NaN where the network takes missing values."""
        bad = np.isinf(x) if self.facts["missing"] else ~np.isfinite(x)
        bad = bad.reshape(*padding.shape, -1).any(-1) & ~padding
        if bad.any():
            place = ", ".join(f"{name} {i}" for name, i in zip(("row", "step"), np.argwhere(bad)[0], strict=False))
            why = "" if self.facts["missing"] else "; this network was trained without missing values"
            raise ValueError(f"x must be finite, got NaN or infinity at {place}{why}")


def _facts(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """What nacre wrote about a file."""
    try:
        facts = json.loads(metadata["nacre"])
        found = facts["format"]
    except (KeyError, ValueError, TypeError):
        raise ValueError(
            f"{path} is an ONNX file, but not one that nacre exported; run it with onnxruntime"
        ) from None
    if found != FORMAT:
        raise ValueError(f"{path} has format {found}, this nacre-runtime reads {FORMAT}; install a newer one")
    return facts


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
