"""`RecordingWriter`: the directory of a recording, written under another name and renamed when it is complete."""

import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
import zarr
from numpy.typing import NDArray
from torch import Tensor, nn

from nacre.inspect.recording.arrays import BlockWriter, new_array, write_levels
from nacre.inspect.recording.description import Description
from nacre.io import save

FORMAT = 1
STORE = "trace.zarr"
MODEL = "model"


class RecordingWriter(AbstractContextManager):
    """Makes a recording; leaves nothing behind if that fails.

    Args:
        out: Directory; an earlier recording there is replaced.
        samples: How many there are.
        model: Kept for lesions, if nacre can save it.
    """

    def __init__(self, out: Path, samples: int, model: nn.Module) -> None:
        out = Path(out)
        if out.exists() and not (out / STORE).is_dir():
            raise ValueError(f"out must be a new directory or an earlier recording, but {out} is neither")
        self.out, self.samples = out, samples
        self._temporary = self._hidden()
        self._temporary.mkdir(parents=True)
        self._layers: list[str] = []  # names, in the order of their first calls
        self._curves: dict[str, BlockWriter] = {}
        try:
            self._root = zarr.create_group(self._temporary / STORE)
            self._root.attrs.update({"format": FORMAT, "model": self._keep(model)})
        except BaseException:
            shutil.rmtree(self._temporary)
            raise

    def _hidden(self) -> Path:
        return self.out.with_name(f".{self.out.name}-{secrets.token_hex(8)}")

    def _keep(self, model: nn.Module) -> bool:
        """Whether nacre can save the model; if not, it can be looked at, but not lesioned later."""
        try:
            save(model, self._temporary / MODEL)
        except TypeError:
            return False
        return True

    def new_layer(self, name: str) -> zarr.Group:
        """A group for the arrays of a layer."""
        self._layers.append(name)
        return self._root.create_group(layer_key(len(self._layers) - 1, name))

    def put(self, name: str, sample: int, step: int, rows: NDArray[Any], steps: int) -> None:
        """Write rows [n, ...] of an array of the whole recording, from a step of a sample on.

        `steps` is the length of the longest sample.
        """
        if name not in self._curves:
            shape = (self.samples, steps, *rows.shape[1:])
            self._curves[name] = BlockWriter(new_array(self._root, name, shape, rows.dtype.name))
        self._curves[name].put(sample, step, rows)

    def put_inputs(self, sample: int, x: Tensor, time: Tensor | None, steps: int) -> None:
        """Write the inputs of a sample: x [T, ...] and stamps [T]; `steps` is the length of the longest sample."""
        values = x.detach().cpu()
        self.put("x", sample, 0, (values if values.dtype == torch.uint8 else values.float()).numpy(), steps)
        stamps = np.arange(len(x), dtype=np.float64) if time is None else time.detach().double().cpu().numpy()
        self.put("time", sample, 0, stamps, steps)

    def finish(self, about: Description, lengths: dict[str, Sequence[int]]) -> None:
        """Flush all arrays and write the description.

        `lengths` has the steps of each sample by name of the array. Curves among these arrays get summaries.
        """
        for writer in self._curves.values():
            writer.flush()
        self._root.attrs.update({"about": asdict(about), "layers": self._layers})
        self._root.attrs["length"] = {name: list(steps) for name, steps in lengths.items()}
        for name, steps in lengths.items():
            array = self._curves[name].array
            if array.ndim == 3 and np.issubdtype(array.dtype, np.floating):
                write_levels(self._root, name, list(steps))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Rename into place, or remove all that was written."""
        try:
            if kind is None:
                if self.out.exists():
                    old = self._hidden()
                    self.out.rename(old)
                    self._temporary.rename(self.out)
                    shutil.rmtree(old)
                else:
                    self._temporary.rename(self.out)
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)


def layer_key(number: int, name: str) -> str:
    """Where the arrays of a layer are. The number tells apart names that differ in odd characters only."""
    return f"layers/{number}-{re.sub(r'[^A-Za-z0-9_.#-]', '_', name)}"
