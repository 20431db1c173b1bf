"""Recordings of drives: at each moment, what the network made of the last frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.layer_writer import PAIR_GATES, SENSORY, Detail, LayerWriter
from nacre.inspect.recording.outputs import outputs_of, spans_of, windows_of
from nacre.inspect.recording.record import new_group, write_sample
from nacre.inspect.recording.writer import RecordingWriter
from nacre.layer.attention import NAC
from nacre.layer.trace import BACKBONE, Trace, TraceBuilder

if TYPE_CHECKING:
    from nacre.inspect.recording.run import Subject

AT_ONCE = 32  # moments


def record_drives(
    subject: Subject, samples: int, out: Path, detail: Detail, tell: Callable[[int, int], None]
) -> None:
    """Record drives of the test part, frame by frame.

    Args:
        subject: A network for frames; its sequences are the last frames at each moment of a drive.
        samples: How many drives, at most.
        out: Where the recording goes.
        detail: What is kept of the neurons.
        tell: Called with how many moments of how many are done.
    """
    data, network = subject.data, subject.network
    drives = data.group[subject.test].unique()[:samples].tolist()
    moments = [(data.group == drive).nonzero().squeeze(1) for drive in drives]
    lengths = [len(index) for index in moments]
    window = int(data.length.max())
    layers: dict[str, LayerWriter] = {}
    done = 0
    with RecordingWriter(out, len(drives), network) as writer:
        for sample, index in enumerate(moments):
            rows = data.start[index] + data.length[index] - 1  # the last frame of each
            frames, time = data.values[rows], data.time[rows]
            write_sample(writer, sample, frames, time, max(lengths))
            writer.put("truth", sample, 0, _truth(data.y[index], subject), max(lengths))
            for first, stop in spans_of(len(index), window, AT_ONCE):
                x, stamps, padding, start = windows_of(frames, time, first, stop, window)
                with watching(network, lambda name, layer: TraceBuilder()) as seen:
                    y = outputs_of(network, x, stamps, padding)
                assert y.answer is not None
                writer.put("output", sample, first, y.answer.float().numpy(), max(lengths))
                for name, builder in seen.items():
                    if name not in layers:
                        layer = network.get_submodule(name)
                        layers[name] = _layer_writer(writer, name, layer, detail, lengths, window)
                    part = _last(builder.trace(), padding, start)
                    part["time"] = time[first:stop] - time[0]
                    layers[name].put(sample, first, part)
                    layers[name].put_sensory(sample, first, part)
                done += stop - first
                tell(done, sum(lengths))
        for layer in layers.values():
            layer.finish()
        about = subject.about([data.groups[drive] for drive in drives], window)
        writer.finish(about, {"x": lengths, "output": lengths})


def _layer_writer(
    writer: RecordingWriter,
    name: str,
    layer: NAC | torch.nn.Module,
    detail: Detail,
    lengths: list[int],
    window: int,
) -> LayerWriter:
    made = LayerWriter(new_group(writer, name), layer, "float32", detail, len(lengths), max(lengths))  # pyright: ignore[reportArgumentType]
    made.describe(made.layer.backbone.wiring.to_dict(), max(lengths), window)
    return made


def _last(trace: Trace, padding: Tensor, start: Tensor) -> dict[str, Tensor]:
    """What happened at the last frame of each window [n, H, ...]; keys are numbered by the frames of the drive."""
    last = (~padding).sum(1) - 1  # [n]
    row = torch.arange(len(last))
    names = [*PAIR_GATES, *BACKBONE, *SENSORY, "index", "valid"]
    part = {name: x[row, :, last] for name in names if (x := getattr(trace, name)) is not None}
    part["index"] = (part["index"] + start.view(-1, 1, 1)).masked_fill(~part["valid"], 0)
    return part


def _truth(y: Tensor, subject: Subject) -> np.ndarray:
    return y.numpy().astype(np.int64 if subject.data.kind.has_classes else np.float32)
