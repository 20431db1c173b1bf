"""The commands of `nacre bearings`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

import typer

Rate = Annotated[float | None, typer.Option(help="Samples a second.", show_default="what the files say", min=100)]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out files that are missing or damaged, and count them.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes at once.", min=1, show_default="one a processor")]

bearings = typer.Typer(help="What is left of a bearing's life.", no_args_is_help=True)


@bearings.callback()
def _bearings() -> None:
    """What is left of a bearing's life."""


@bearings.command("predict")
def bearings_predict(
    run: Annotated[Path, typer.Argument(help="Run directory, such as runs/bearings/nac/fold0-seed0.")],
    files: Annotated[
        list[Path], typer.Argument(help="Folders of recordings, MAT files, or tables of `nacre data features`.")
    ],
    out: Annotated[Path, typer.Option(help="Where curves go.")] = Path("prognosis"),
    rate: Rate = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Draw the degradation curve of new recordings, with the band of all fold models."""
    from nacre.bearings.predict import predict_bearings

    predict_bearings(run, files, out, rate, skip_bad, jobs)
