"""`RecordingWriter`: the directory of a recording, written under another name and renamed when it is whole."""

import secrets
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from torch import nn

from nacre.inspect.recording.block_writer import BlockWriter, new_array
from nacre.inspect.recording.description import About
from nacre.inspect.recording.summaries import write_levels
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
        self._temporary = out.with_name(f".{out.name}-{secrets.token_hex(8)}")
        self._temporary.mkdir(parents=True)
        self.layers: list[str] = []  # names, in the order of their first calls
        self._curves: dict[str, BlockWriter] = {}
        try:
            self.root = zarr.create_group(self._temporary / STORE)
            self.root.attrs.update({"format": FORMAT, "model": self._keep(model)})
        except BaseException:
            shutil.rmtree(self._temporary)
            raise

    def _keep(self, model: nn.Module) -> bool:
        """Whether nacre can save the model; if not, it can be looked at, but not lesioned later."""
        try:
            save(model, self._temporary / MODEL)
        except TypeError:
            return False
        return True

    def put(self, name: str, sample: int, step: int, rows: NDArray[Any], steps: int) -> None:
        """Rows [n, ...] of an array of the whole recording, of a sample, from a step on.

        Args:
            name: Name of the array.
            sample: The sample.
            step: The first of the steps.
            rows: What to write.
            steps: Steps of the longest sample.
        """
        if name not in self._curves:
            shape = (self.samples, steps, *rows.shape[1:])
            self._curves[name] = BlockWriter(new_array(self.root, name, shape, rows.dtype.name))
        self._curves[name].put(sample, step, rows)

    def finish(self, about: About, lengths: dict[str, Sequence[int]]) -> None:
        """Write what is left.

        Args:
            about: What the recording is of.
            lengths: Name of an array -> steps of each of its samples. Curves among them get summaries.
        """
        for writer in self._curves.values():
            writer.flush()
        self.root.attrs.update({"about": asdict(about), "layers": self.layers})
        self.root.attrs["length"] = {name: list(steps) for name, steps in lengths.items()}
        for name, steps in lengths.items():
            array = self._curves[name].array
            if array.ndim == 3 and np.issubdtype(array.dtype, np.floating):
                write_levels(self.root, name, list(steps))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Rename into place, or remove all that was written."""
        try:
            if kind is None:
                if self.out.exists():
                    old = self.out.with_name(f".{self.out.name}-{secrets.token_hex(8)}")
                    self.out.rename(old)
                    self._temporary.rename(self.out)
                    shutil.rmtree(old)
                else:
                    self._temporary.rename(self.out)
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)
