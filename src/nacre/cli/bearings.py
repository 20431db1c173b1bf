"""The commands of `nacre bearings`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from nacre._util.foreign_code import trusting
from nacre.cli.options import Jobs, Rate, SkipBad, Trust

bearings = Typer(help="What is left of a bearing's life.", no_args_is_help=True)


@bearings.callback()
def _bearings() -> None:
    """What is left of a bearing's life."""


@bearings.command("predict")
def bearings_predict(
    run: Annotated[Path, Argument(help="Run directory, such as runs/bearings/nac/fold0-seed0.")],
    files: Annotated[
        list[Path], Argument(help="Folders of recordings, MAT files, or tables of `nacre data features`.")
    ],
    out: Annotated[Path, Option(help="Where curves go.")] = Path("prognosis"),
    rate: Rate = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
    trust: Trust = None,
) -> None:
    """Draw the degradation curve of new recordings, with the band of all fold models."""
    from nacre.bearings.predict import predict_bearings

    with trusting(trust or ()):
        predict_bearings(run, files, out, rate, skip_bad, jobs)
