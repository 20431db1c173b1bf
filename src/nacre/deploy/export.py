"""`export`: a layer, model or network as ONNX files that run without PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from nacre._util.checks import whole
from nacre._util.extras import how_to_install
from nacre._util.files import write_atomic
from nacre._version import __version__
from nacre.deploy.signature import Signature, draw, signature
from nacre.layer.attention import NAC
from nacre.models._base import SequenceModel
from nacre.tasks.network import TaskNetwork

if TYPE_CHECKING:
    import onnx

    from nacre.deploy.compare import Difference
    from nacre.deploy.forms import StepForm

FORMAT = 1
_WINDOW_AXES = {0: "batch", 1: "length"}


@dataclass(frozen=True)
class Exported:
    """What was written, and how far its answers are from those of PyTorch.

    Attributes:
        path: The file for whole sequences.
        difference: Of its answers.
        step_path: The file for one step and its state; None if it was not asked for.
        step_difference: Of the answers of a stream from those of whole sequences.
    """

    path: Path
    difference: Difference
    step_path: Path | None = None
    step_difference: Difference | None = None


def export(
    module: nn.Module,
    path: str | os.PathLike[str],
    *,
    stream: bool = False,
    max_len: int = 1024,
    about: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a module as ONNX, for any batch size and length, after comparing its answers in onnxruntime.

    Inputs are `x` [batch, length, features], `time` [batch, length] in float64 and `key_padding_mask` [batch,
    length], and `query_only` where a network answers each step. The first output is `y`; `probability` follows
    where a network answers classes or labels. Needs the extra `export`; the package `nacre-runtime` runs files.

    Args:
        module: A NAC layer or encoder, a model of the zoo, or a task network.
        path: The file, such as model.onnx.
        stream: Whether to write a second file, such as model-step.onnx, for one step of each stream: it takes `x`
            [batch, features], `time` [batch] and a state, and gives `y` and the next state.
        max_len: Steps that NAC layers remember in a stream.
        about: What else the file's metadata shall hold, as plain data.

    Raises:
        ValueError: If the module cannot be exported; nothing is written then. It says which part, and what to use.

    Example:
        >>> model = nacre.create("sdpa", d_input=3, d_model=8, num_heads=2)
        >>> nacre.export(model, tmp / "model.onnx").difference.apart
        0
    """
    _require()
    from nacre.deploy.compare import GraphSession, compare_steps, compare_windows
    from nacre.deploy.forms import StepForm

    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"path must end in .onnx, got {os.fspath(path)!r}")
    if path.is_dir():
        raise ValueError(f"path must be a file, but {os.fspath(path)!r} is a folder")
    whole("max_len", max_len, 1)
    expected = signature(module)
    facts = {**_facts(module, expected), **(about or {})}
    with _evaluating(module):
        steps = StepForm(module, max_len) if stream else None  # what has no step is refused before the long work
        data = _with_facts(_window(module, expected), {**facts, "form": "window"})
        difference = compare_windows(module, GraphSession(data))
        if steps is None:
            return Exported(_written(path, data), difference)
        step_data = _with_facts(_step(steps, expected), {**facts, "form": "step", **_of_state(steps)})
        step_difference = compare_steps(steps, GraphSession(step_data))
    step_path = path.with_name(f"{path.stem}-step.onnx")
    return Exported(_written(path, data), difference, _written(step_path, step_data), step_difference)


def _written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, data)


def _require() -> None:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"export needs {', '.join(missing)}; {how_to_install('export')}", name=missing[0]
        )


def _window(module: nn.Module, expected: Signature) -> onnx.ModelProto:
    """The graph for whole sequences."""
    from nacre.deploy.capture import Port, capture
    from nacre.deploy.forms import WindowForm
    from nacre.deploy.recurrence import fill, marked

    ports = [Port(name, x, _WINDOW_AXES) for name, x in draw(module, 3, 20, seed=0).items()]
    try:
        with marked(module) as models:
            graph = capture(WindowForm(module), ports, expected.outputs)
        fill(graph, models)
    except ValueError as error:
        raise ValueError(f"{_culprit(module)} cannot be written as ONNX: {error}; {_INSTEAD}") from error
    return graph


_INSTEAD = "use torch.export, which docs/deploy.md shows, or another model: the same page lists what works"


def _step(stream: StepForm, expected: Signature) -> onnx.ModelProto:
    """The graph for one step."""
    from nacre.deploy.capture import Port, capture

    rows, example = {0: "batch"}, draw(stream.module, 3, 1, seed=0)
    state = stream.empty(3)
    ports = [Port(name, example[name][:, 0], rows) for name in ("x", "time")]
    ports += [Port(name, x, rows) for name, x in state.items()]
    try:
        return capture(stream, ports, [*expected.outputs, *(f"next_{name}" for name in state)])
    except ValueError as error:
        raise ValueError(f"the step of {_culprit(stream.module)} cannot be written as ONNX: {error}") from error


def _culprit(module: nn.Module) -> str:
    """The model of the zoo in a module, by name and class, or the module itself."""
    parts = [(name, part) for name, part in module.named_modules() if isinstance(part, NAC | SequenceModel)]
    name, part = parts[0] if parts else ("", module)
    return f"{type(part).__name__} ({name})" if name else type(part).__name__


def _facts(module: nn.Module, expected: Signature) -> dict[str, Any]:
    """What the runtime needs to know, and what a person wants to."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "nacre": __version__,
        "module": type(module).__name__,
        "step": list(expected.step),
        "dtype": str(expected.dtype).removeprefix("torch."),
        "inputs": list(expected.inputs),
        "outputs": list(expected.outputs),
        "each_step": expected.each_step,
        "missing": False,
    }
    if isinstance(module, TaskNetwork):
        found |= {
            "model": module.config["model"],
            "kind": str(module.kind),
            "missing": str(module.missing) != "error",
            "quantiles": module.quantiles,
            "scaler": {name: getattr(module, name).tolist() for name in ("shift", "scale", "y_shift", "y_scale")},
        }
    return found


def _of_state(stream: StepForm) -> dict[str, Any]:
    state = {name: [str(x.dtype).removeprefix("torch."), list(x.shape[1:])] for name, x in stream.empty(1).items()}
    return {"inputs": ["x", "time", *state], "state": state, "max_len": stream.max_len}


def _with_facts(graph: onnx.ModelProto, facts: dict[str, Any]) -> bytes:
    from onnx import helper

    entries = {"nacre": json.dumps(facts, allow_nan=False)}
    if isinstance(facts.get("licence"), str):
        entries["licence"] = facts["licence"]
    helper.set_model_props(graph, entries)
    return graph.SerializeToString()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, and afterwards as it was."""
    training = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, was in training.items():
            part.training = was
