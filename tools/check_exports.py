"""Export models and compare their answers, into results/exports.json: python tools/check_exports.py [MODEL ...].

Windows of 4 lengths and 3 batch sizes, and streams of the same lengths where a model has a step; NAC layers stream
in their causal form. `--latency` measures instead what a step of a stream takes in onnxruntime and in nacre, in
turns, into results/exports-latency.json: on an idle machine, please.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from measured import RESULTS, in_turns, provenance, write_result
from torch import nn

import nacre
from nacre._util.files import read_object
from nacre.deploy.compare import BATCHES, LENGTHS, Difference, GraphSession
from nacre.deploy.forms import StepForm
from nacre.deploy.signature import draw

FILE = "exports.json"
SIZE = {"d_input": 8, "d_model": 32, "num_heads": 4}
ROUNDS, MAX_LEN = 200, 256


def made(name: str, **options: Any) -> nn.Module:  # noqa: ANN401
    """A model with its weights moved away from where they begin, so that nothing is zero or one by chance."""
    torch.manual_seed(0)
    model = nacre.create(name, **SIZE, **options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model


def streams(name: str) -> dict[str, Any] | None:
    """Options with which a model streams; None where it cannot."""
    kind = nacre.model_info(name).kind
    return {"causal": True} if kind == "NAC" else {} if kind == "CT-RNN" else None


def checked(name: str, folder: Path) -> dict[str, Any]:
    """What became of one model."""
    path, options = folder / f"{name}.onnx", streams(name)
    try:
        found = nacre.export(made(name), path, stream=options == {}, max_len=MAX_LEN)
        row: dict[str, Any] = {"window": _facts(path, found.difference)}
        if options:
            found = nacre.export(made(name, **options), path, stream=True, max_len=MAX_LEN)
    except ValueError as error:
        return {"window": {"error": str(error)}}
    if found.step_path is not None and found.step_difference is not None:
        row["step"] = _facts(found.step_path, found.step_difference)
    return row


def _facts(path: Path, found: Difference) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, **vars(found)}


def latency(names: list[str], folder: Path) -> dict[str, Any]:
    """Microseconds of a step of one stream, in onnxruntime and in nacre."""
    result = {}
    for name in names:
        options = streams(name)
        if options is None:
            continue
        model, path = made(name, **options), folder / f"{name}.onnx"
        exported = nacre.export(model, path, stream=True, max_len=MAX_LEN)
        assert exported.step_path is not None
        session = GraphSession(exported.step_path.read_bytes())
        inputs = draw(model, 1, MAX_LEN - ROUNDS - 2, seed=0)
        x, time = inputs["x"], inputs["time"]
        form = StepForm(model, MAX_LEN)
        after, kept = form.empty(1), model.init_state(1)  # pyright: ignore[reportCallIssue]
        for i in range(x.shape[1]):
            found = session.run({"x": x[:, i], "time": time[:, i], **after})
            after = {key: found[f"next_{key}"] for key in after}
            _, kept = model.step(x[:, i], kept, time=time[:, i])  # pyright: ignore[reportCallIssue]
        newest = {"x": x[:, -1], "time": time[:, -1]}

        def ours(model: Any = model, kept: Any = kept, newest: dict[str, Any] = newest) -> None:  # noqa: ANN401
            model.step(newest["x"], kept, time=newest["time"])

        def graph(session: GraphSession = session, after: Any = after, newest: dict[str, Any] = newest) -> None:  # noqa: ANN401
            session.run({**newest, **after})

        times = in_turns({"onnxruntime": graph, "nacre": ours}, ROUNDS)
        result[name] = {key: round(1e6 * seconds) for key, seconds in times.items()}
    return result


def main() -> None:
    """Check or measure, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="names; all, if none is given; others of the file are kept")
    parser.add_argument("--latency", action="store_true", help="measure steps instead, one thread")
    options = parser.parse_args()
    names = options.model or nacre.list_models()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.latency:
            size = {**SIZE, "max_len": MAX_LEN, "rounds": ROUNDS, "filled": MAX_LEN - ROUNDS - 2}
            write_result(
                "exports-latency.json", provenance() | {"size": size, "models": latency(names, Path(folder))}
            )
            return
        kept = read_object(RESULTS / FILE)["models"] if options.model and (RESULTS / FILE).is_file() else {}
        head = provenance() | {"size": SIZE, "lengths": list(LENGTHS), "batches": list(BATCHES)}
        for name in names:
            kept[name] = checked(name, Path(folder))
            write_result(FILE, head | {"models": {n: kept[n] for n in nacre.list_models() if n in kept}})


if __name__ == "__main__":
    main()
