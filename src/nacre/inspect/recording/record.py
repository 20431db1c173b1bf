"""`record`: run a model once, and keep what every neuron of its NAC layers did."""

import os
from pathlib import Path

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.inspect.recording.description import Description
from nacre.inspect.recording.hooks import watching
from nacre.inspect.recording.layer_writer import Detail, LayerWriter
from nacre.inspect.recording.outputs import outputs_of
from nacre.inspect.recording.recording import Recording
from nacre.inspect.recording.writer import RecordingWriter
from nacre.layer.attention import NAC
from nacre.layer.inputs import time_stamps

DTYPES = ("float32", "float16")


def record(
    model: nn.Module,
    x: Tensor,
    time: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    query_only: Tensor | None = None,
    *,
    out: str | os.PathLike[str],
    dtype: str = "float32",
    detail: str = "pairs",
) -> Recording:
    """Run a model once, in evaluation mode, and write what its NAC layers did to disk, in constant memory.

    What is written is what this very forward pass computed. In float32 it has the same bits.

    Args:
        model: Any module with NAC layers that takes x and, as far as they are given, the next three by name.
        x: [B, T, F] sequences.
        time: [B, T] stamps, or [T] for all sequences.
        key_padding_mask: [B, T] bool, True = padding.
        query_only: [B, T] bool, steps that ask and are never attended to.
        out: Directory of the recording; an earlier recording there is replaced.
        dtype: "float32", or "float16" for half the size.
        detail: "pairs" keeps states of every pair of a step and a key, "means" their means over keys by attention.

    Returns:
        The recording: `recording.layers["layer"]` and so on, by the names of the layers in the model.

    Raises:
        ValueError: If the model has no NAC layer, or none of them ran.

    Example:
        >>> layer = NAC(16, 2)
        >>> recording = record(layer, torch.randn(1, 50, 16), torch.rand(1, 50).cumsum(1), out=tmp / "look")
        >>> recording.layers["nac"].array("inter").shape
        (1, 50, 2, 8, 24)
    """
    choice("dtype", dtype, DTYPES)
    choice("detail", detail, Detail)
    if not isinstance(x, torch.Tensor) or x.dim() != 3:
        got = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [batch, steps, features], got {got}")
    if time is not None:
        time = time_stamps("time", time, (x.shape[0], x.shape[1]))
    samples, steps = x.shape[:2]
    with RecordingWriter(Path(out), samples, model) as writer:

        def new(name: str, layer: NAC) -> LayerWriter:
            return LayerWriter(writer.new_layer(name), layer, dtype, Detail(detail), samples)

        with watching(model, new) as layers:
            y = outputs_of(model, x, time, key_padding_mask, query_only)
        for layer in layers.values():
            layer.finish()
        curve = y.curve.shape[1]
        for sample in range(samples):
            writer.put_inputs(sample, x[sample], None if time is None else time[sample], steps)
            for name, mask in (("padding", key_padding_mask), ("query_only", query_only)):
                if mask is not None:
                    writer.put(name, sample, 0, mask[sample].numpy(), steps)
            writer.put("output", sample, 0, y.curve[sample].float().numpy(), curve)
        about = Description(
            name=type(model).__name__,
            samples=tuple(f"sample {i}" for i in range(samples)),
            features=tuple(f"x{i}" for i in range(x.shape[2])),
            outputs=tuple(f"y{i}" for i in range(y.curve.shape[2])),
        )
        writer.finish(about, {"x": [steps] * samples, "output": [curve] * samples})
    return Recording(out)
