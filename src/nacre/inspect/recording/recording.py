"""`Recording`: what `record` wrote, read piece by piece."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import zarr
from numpy.typing import NDArray
from torch import nn

from nacre._util.checks import choice
from nacre.inspect.recording.arrays import Arrays, read_curve
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.layer_writer import OF_CIRCUIT, SENSORY
from nacre.inspect.recording.writer import FORMAT, MODEL, STORE, layer_key
from nacre.io import load
from nacre.wiring.wiring import Wiring

GROUPS = (*SENSORY, *OF_CIRCUIT)
INPUTS = ("query", "key", "clock")
"""Groups that are inputs of the circuit, in the order of its wiring."""


class Recording:
    """A recording on disk. Arrays are read on demand, a piece at a time.

    Args:
        path: Directory that `record` wrote.

    Attributes:
        about: What it is of.
        layers: NAC layers by name, in the order in which they ran.

    Raises:
        FileNotFoundError: If there is no recording.
        ValueError: If it is damaged, or of another format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not (self.path / STORE).is_dir():
            raise FileNotFoundError(f"{self.path} is no recording; make one with nacre.inspect.record")
        try:
            root = zarr.open_group(self.path / STORE, mode="r")
            attributes: dict[str, Any] = dict(root.attrs)
            self._arrays = Arrays(root)
            form = attributes["format"]
            self.about = Description.from_dict(attributes["about"])
            names: list[str] = attributes["layers"]
            self.layers = {
                name: LayerRecording(name, cast(zarr.Group, root[layer_key(i, name)]))
                for i, name in enumerate(names)
            }
            self._length: dict[str, list[int]] = attributes["length"]
            self.has_model = bool(attributes["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is damaged ({error!r}); record it again (--again)") from None
        if form != FORMAT:
            raise ValueError(
                f"{self.path} has format {form!r}, this nacre reads {FORMAT}; record it again (--again)"
            )

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.about.samples)

    @property
    def has_frames(self) -> bool:
        """Whether the inputs are camera frames."""
        return self.array("x").ndim == 5

    def model(self) -> nn.Module:
        """The model as it was recorded, in evaluation mode.

        Raises:
            ValueError: If it was none that nacre can save.
        """
        if not self.has_model:
            raise ValueError(f"{self.path} holds no model, because nacre cannot save its class; lesions need one")
        return load(self.path / MODEL, allow_nonfinite=True)

    def has(self, name: str) -> bool:
        """Whether there is an array "x", "time", "padding", "query_only", "output", "answer" or "truth"."""
        return name in self._arrays

    def length(self, name: str, sample: int) -> int:
        """Steps of a sample of "x" or "output"."""
        return self._length[name][sample]

    def array(self, name: str) -> zarr.Array:
        """An array of the whole recording: "x", "time", "output", "truth" [B, T, ...] or "answer" [B, 1, O]."""
        return self._arrays[name]

    def padding(self, sample: int) -> NDArray[np.bool_]:
        """[T] steps of the input of a sample that are padding."""
        length = self.length("x", sample)
        return (
            np.asarray(self.array("padding")[sample, :length], bool)
            if self.has("padding")
            else np.zeros(length, bool)
        )

    def curve(self, name: str, sample: int, start: int, stop: int, points: int) -> tuple[NDArray, NDArray]:
        """Summaries of steps of "x" or "output"; see `LayerRecording.curve`."""
        choice("name", name, self._length)
        length = self.length(name, sample)
        return read_curve(self._arrays, name, sample, start, min(stop, length), points, length)


class LayerRecording:
    """What one layer did. H heads, D sensory neurons a head for each of query, key and value.

    Attributes:
        name: The layer's.
        heads: Number of heads H.
        gates: Names of the columns of the array `gates`.
        sizes: Neurons of each group; 0 where the layer has none of it.
        shared: Whether all heads share one circuit.
        starts: Whether logits start at the match, which otherwise is added to phi.
    """

    def __init__(self, name: str, group: zarr.Group) -> None:
        attributes: dict[str, Any] = dict(group.attrs)
        self.name, self._arrays = name, Arrays(group)
        self.heads: int = attributes["heads"]
        self.gates: tuple[str, ...] = tuple(attributes["gates"])
        width, backbone = attributes["width"], attributes["neurons"]
        # Recordings of layers that could not have clock neurons do not mention them.
        self._scales: list[float] = attributes.get("clock", [])
        self._time_scale: float = attributes.get("time_scale", 1.0)
        sizes = (width, width, width, 2 * len(self._scales), *backbone)
        self.sizes: dict[str, int] = dict(zip(GROUPS, sizes, strict=True))
        self.shared: bool = attributes["shared"]
        self.starts: bool = attributes.get("starts", False)
        self._length: list[int] = attributes["length"]
        self._wiring = attributes["wiring"]

    @cached_property
    def wiring(self) -> Wiring:
        """Wiring of the circuit."""
        return Wiring.from_dict(self._wiring)

    @property
    def clock_scales(self) -> list[float]:
        """Scales of the clock, in units of the stamps, or in steps: the time in which a hand turns by 1 (rad)."""
        unit = self._time_scale if self.has("time") else 1.0
        return [unit * scale for scale in self._scales]

    @cached_property
    def inputs(self) -> list[tuple[str, int]]:
        """Group and number in it of each input of the wiring."""
        return [(group, i) for group in INPUTS for i in range(self.sizes[group])]

    @cached_property
    def neurons(self) -> list[tuple[str, int]]:
        """Group and number in it of each column of the array `states`."""
        return [(group, i) for group, size in self.sizes.items() for i in range(size)]

    def column(self, group: str, index: int) -> int:
        """Column of a neuron in the array `states`."""
        return self.neurons.index((group, index))

    def has(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self._arrays

    def length(self, sample: int) -> int:
        """Steps of a sample."""
        return self._length[sample]

    def array(self, name: str) -> zarr.Array:
        """An array of the layer, samples and steps first.

        Of pairs: `phi`, `omega`, `t`, `match`, `effect`, `logits`, `weights`, `index`, `valid` [B, T, H, K] and,
        if kept, `clock`, `inter`, `command`, `motor` [B, T, H, K, n]. Of steps: `query`, `key`, `value`
        [B, T, H, D] and `time` [B, T]. Means over the attended keys by attention weight: `states`
        [B, T, H, neurons] and `gates` [B, T, H, gates].
        """
        return self._arrays[name]

    def time(self, sample: int, start: int = 0, stop: int | None = None) -> NDArray[np.float64]:
        """Stamps of steps; their numbers where the layer was given none."""
        stop = self.length(sample) if stop is None else min(stop, self.length(sample))
        if not self.has("time"):
            return np.arange(start, stop, dtype=np.float64)
        return np.asarray(self.array("time")[sample, start:stop])

    def curve(
        self, name: str, sample: int, head: int, start: int, stop: int, points: int
    ) -> tuple[NDArray, NDArray]:
        """Summaries of the steps from `start` to before `stop`, at least about as many as `points`.

        Args:
            name: "states" or "gates".
            sample: Number of the sample.
            head: Number of the head.
            start: First step.
            stop: Step after the last one.
            points: A summary stands for several steps, if there are more steps than points.

        Returns:
            First step of each summary [p], and its smallest, largest and mean [p, 3, columns].
        """
        length = self.length(sample)
        return read_curve(self._arrays, name, sample, start, min(stop, length), points, length, head)
