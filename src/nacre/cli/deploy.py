"""The command `nacre export`: name and the function it calls, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from nacre._util.foreign_code import trusting
from nacre.cli.options import Trust


def export(
    run: Annotated[Path, Argument(help="A run, such as runs/my/nac/fold0-seed0.")],
    out: Annotated[Path, Option(help="The file; its steps go to a second one, such as model-step.onnx.")] = Path(
        "model.onnx"
    ),
    stream: Annotated[
        bool, Option("--stream", help="Also write one step with its state, for answers while data come in.")
    ] = False,
    max_len: Annotated[int, Option(help="Steps that NAC layers remember in a stream.", min=1)] = 1024,
    licence: Annotated[
        str | None, Option(help="Licence of the weights, for the file's metadata.", show_default="none")
    ] = None,
    trust: Trust = None,
) -> None:
    """Write the network of a run as ONNX, which runs without PyTorch, after comparing its answers."""
    from nacre.deploy.run import command

    with trusting(trust or ()):
        for line in command(run, out, stream, max_len, licence, trust or ()):
            echo(line)
