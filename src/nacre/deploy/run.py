"""`nacre export`: a finished run as ONNX files that know what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nacre.deploy.export import Exported, export
from nacre.train.run import Run

if TYPE_CHECKING:
    from nacre.deploy.compare import Difference


def export_run(
    run: Run, path: Path, *, stream: bool = False, max_len: int = 1024, licence: str | None = None
) -> Exported:
    """Write the network of a run, and in the files' metadata what it was trained on and what its answers mean.

    Raises:
        ValueError: If the run has no network, or its network cannot be exported.
    """
    return export(run.network(), path, stream=stream, max_len=max_len, about=about(run, licence))


def about(run: Run, licence: str | None = None) -> dict[str, Any]:
    """What a run knows of its inputs, its answers, and where it comes from."""
    result, columns = run.result, run.columns
    found: dict[str, Any] = {
        "task": result.task,
        "model": result.model,
        "model_version": result.version,
        "fold": result.fold,
        "seed": result.seed,
        "data": result.data,
        "weights": run.weights,
        "classes": list(result.classes),
        "trained": result.record.get("provenance"),
    }
    if columns is not None:
        found |= {
            "features": list(columns.inputs),
            "targets": list(columns.targets),
            "time": columns.time,
            "time_origin": columns.clock.origin,
            "time_unit": "seconds" if columns.clock.origin else None,
        }
    return found if licence is None else {**found, "licence": licence}


def command(
    directory: Path, out: Path, stream: bool, max_len: int, licence: str | None, trust: Sequence[str]
) -> Iterator[str]:
    """Export a run; gives a line for each file."""
    found = export_run(Run.open(directory, trust=trust), out, stream=stream, max_len=max_len, licence=licence)
    yield _line(found.path, found.difference)
    if found.step_path is not None and found.step_difference is not None:
        yield _line(found.step_path, found.step_difference)


def _line(path: Path, found: Difference) -> str:
    size = path.stat().st_size
    apart = f"; {found.apart} of them chose other keys by rounding" if found.apart else ""
    return f"wrote {path}, {size:,} bytes: {found.answers} answers within {found.largest:.1g} of PyTorch's{apart}"
