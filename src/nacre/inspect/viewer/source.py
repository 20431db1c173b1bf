"""`ViewerSource`: what the viewer shows of a recording, as plain data, for the server and the report."""

import functools
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nacre.inspect.analysis.strengths import head_weights
from nacre.inspect.recording.recording import Recording
from nacre.layer.trace import BACKBONE

SHOWN = 8  # inputs and outputs that a chart has room for
_STAMP_DIGITS = 14  # stamps may be large, and their differences small
_MOST_DIGITS = 290  # decimal places that numpy can round to


class ViewerSource:
    """A recording, as data for the page."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        # Caches of the instance, which are freed with it.
        self._times = functools.lru_cache(8)(self._read_times)
        self.circuit = functools.lru_cache(32)(self._circuit)

    def about(self) -> dict[str, Any]:
        """What there is to choose from."""
        recording, about = self.recording, self.recording.about
        return {
            "name": about.name,
            "samples": list(about.samples),
            "features": list(about.features),
            "outputs": list(about.outputs),
            "classes": about.classes,
            "once": about.once,
            "frames": recording.has_frames,
            "timeUnit": about.time_unit,
            "lesions": recording.has_model,
            "layers": [
                {
                    "name": layer.name,
                    "heads": layer.heads,
                    "groups": [[group, size] for group, size in layer.sizes.items() if size],
                    "clock": plain(layer.clock_scales),
                    "timed": layer.has("time"),
                    "gates": list(layer.gates),
                    "shared": layer.shared,
                    "lengths": [layer.length(sample) for sample in range(recording.samples)],
                }
                for layer in recording.layers.values()
            ],
        }

    def _circuit(self, layer: str, head: int) -> dict[str, Any]:
        """Synapses of a head, strongest first: columns of source and target neurons, and weights."""
        seen = self.recording.layers[layer]
        table = np.concatenate(head_weights(self.recording, seen, head))  # [I + N, N]
        place = {neuron: i for i, neuron in enumerate(seen.neurons)}
        column = np.zeros(seen.wiring.num_neurons, int)
        for group in BACKBONE:
            column[list(seen.wiring.group(group))] = [place[group, i] for i in range(seen.sizes[group])]
        rows, columns = np.nonzero(table)
        source = np.concatenate([[place[neuron] for neuron in seen.inputs], column])[rows]
        target, weight = column[columns], table[rows, columns]
        order = np.argsort(-np.abs(weight), kind="stable")
        return {
            "source": source[order].tolist(),
            "target": target[order].tolist(),
            "weight": plain(weight[order]),
            "trained": self.recording.has_model,
        }

    def curves(self, sample: int, layer: str, head: int, start: int, stop: int, points: int) -> dict[str, Any]:
        """Gates of a head, inputs and outputs over a window of steps."""
        recording, seen = self.recording, self.recording.layers[layer]
        time, step_of = self._times(sample, layer)
        step, gates = seen.curve("gates", sample, head, start, stop, points)
        result: dict[str, Any] = {
            "start": start,
            "stop": stop,
            "gates": {**_axis(step, time), "columns": _columns(gates, range(len(seen.gates)))},
        }
        at, curve = recording.curve("output", sample, start, stop, points)
        result["output"] = {**_axis(at, time), "columns": _columns(curve, range(min(SHOWN, curve.shape[-1])))}
        if not recording.has_frames:
            first, last = int(step_of[start]), int(step_of[stop - 1]) + 1
            at, curve = recording.curve("x", sample, first, last, points)
            result["input"] = {
                **_axis(at, self._stamps(sample)),
                "columns": _columns(curve, range(min(SHOWN, curve.shape[-1]))),
            }
        return result

    def neuron(
        self, sample: int, layer: str, head: int, column: int, start: int, stop: int, points: int
    ) -> dict[str, Any]:
        """State of one neuron over a window of steps."""
        step, curve = self.recording.layers[layer].curve("states", sample, head, start, stop, points)
        return {**_axis(step, self._times(sample, layer)[0]), "columns": _columns(curve, [column])}

    def spread(self, sample: int, layer: str, head: int) -> dict[str, Any]:
        """Mean of each neuron over the sample, and how far it goes from it at most."""
        seen = self.recording.layers[layer]
        _, curve = seen.curve("states", sample, head, 0, seen.length(sample), 1000)
        mean = curve[:, 2].mean(0)
        return {
            "mean": plain(mean),
            "most": plain(np.maximum(curve[:, 1].max(0) - mean, mean - curve[:, 0].min(0))),
        }

    def steps(self, sample: int, layer: str, head: int, start: int, stop: int) -> dict[str, Any]:
        """Every neuron, gate and key of a few steps."""
        recording, seen = self.recording, self.recording.layers[layer]
        time, step_of = self._times(sample, layer)
        some = (sample, slice(start, stop), head)
        given = step_of[start:stop]
        index = np.asarray(seen.array("index")[some])
        answer: dict[str, Any] = {
            "start": start,
            "time": plain(time[start:stop], _STAMP_DIGITS),
            "states": plain(seen.array("states")[some]),
            "gates": plain(seen.array("gates")[some]),
            "index": index.tolist(),
            "keyTime": plain(time[np.minimum(index, len(time) - 1)], _STAMP_DIGITS),
            "weights": plain(np.where(seen.array("valid")[some], seen.array("weights")[some], np.nan)),
            "inputStep": given.tolist(),
            "output": plain(_rows(recording, "output", sample, start, stop)),
            "truth": self._truth(sample, given),
        }
        if not recording.has_frames:
            x = np.asarray(recording.array("x")[sample, int(given[0]) : int(given[-1]) + 1])
            answer["input"] = plain(x[given - given[0]])
        return answer

    def answer(self, sample: int) -> list[float | None] | None:
        """The answer to the whole sample, where there is one."""
        if not self.recording.has("answer"):
            return None
        return plain(np.asarray(self.recording.array("answer")[sample, 0]))

    def frame(self, sample: int, step: int) -> bytes:
        """The frame that was seen at a step, as a PNG file."""
        return to_png(np.asarray(self.recording.array("x")[sample, step]))

    def _truth(self, sample: int, given: NDArray[np.int64]) -> list[Any] | None:
        if not self.recording.has("truth"):
            return None
        truth = self.recording.array("truth")
        if truth.shape[1] == 1:
            return plain(np.repeat(np.asarray(truth[sample]), len(given), 0))
        rows = np.asarray(truth[sample, int(given[0]) : int(given[-1]) + 1])
        return plain(rows[given - given[0]])

    def _read_times(self, sample: int, layer: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Stamps [T] of a layer's steps, and for each the last step of the input that is not later."""
        seen = self.recording.layers[layer]
        time, stamps = seen.time(sample), self._stamps(sample)
        valid = int(np.flatnonzero(~self.recording.padding(sample))[-1]) + 1  # without padding at the end
        if len(time) <= len(stamps) and (len(time) == valid or not seen.has("time")):
            return stamps[: len(time)], np.arange(len(time))  # step for step; several may have one stamp
        place = np.searchsorted(stamps, time - time[0], side="right") - 1
        return time - time[0], place.clip(0, len(stamps) - 1)

    def _stamps(self, sample: int) -> NDArray[np.float64]:
        """Stamps [T] of the input, from the first step on that is not padding."""
        padding = self.recording.padding(sample)
        stamps = np.asarray(self.recording.array("time")[sample, : len(padding)])
        first = stamps[~padding][0] if not padding.all() else 0.0
        return np.where(padding, 0.0, stamps - first)


def _rows(recording: Recording, name: str, sample: int, start: int, stop: int) -> NDArray:
    """Rows of a curve; the last one again where there is one for all steps."""
    length = recording.length(name, sample)
    rows = np.asarray(recording.array(name)[sample, min(start, length - 1) : max(min(stop, length), 1)])
    return np.pad(rows, ((0, stop - start - len(rows)), (0, 0)), mode="edge")


def _axis(step: NDArray[np.int64], time: NDArray[np.float64]) -> dict[str, Any]:
    return {"step": step.tolist(), "time": plain(time[np.minimum(step, len(time) - 1)], _STAMP_DIGITS)}


def _columns(curve: NDArray, which: range | list[int]) -> list[dict[str, Any]]:
    """Smallest, largest and mean of columns of [p, 3, columns]; only the mean where all three are the same."""
    columns = []
    for i in which:
        low, high, mean = curve[:, 0, i], curve[:, 1, i], curve[:, 2, i]
        one = {"mean": plain(mean)}
        columns.append(one if np.array_equal(low, high) else {"low": plain(low), "high": plain(high), **one})
    return columns


def plain(values: Any, digits: int = 6) -> Any:  # noqa: ANN401
    """Nested lists, rounded to about so many digits of the largest number; None for NaN and infinity."""
    array = np.asarray(values)
    if array.dtype.kind not in "fc":
        return array.tolist()
    array = array.astype(np.float64)
    finite = np.isfinite(array)
    size = np.abs(array[finite]).max(initial=0.0)
    rounded = np.round(array, min(digits - math.ceil(math.log10(size)), _MOST_DIGITS)) if size > 0 else array
    if finite.all():
        return rounded.tolist()
    return np.where(finite, rounded.astype(object), np.array(None)).tolist()


def to_png(pixels: NDArray[np.uint8]) -> bytes:
    """An image [height, width, 1 or 3] as a PNG file."""
    height, width, colours = pixels.shape

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))  # 0: no filter
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[colours], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines, 3)) + part(b"IEND", b"")
