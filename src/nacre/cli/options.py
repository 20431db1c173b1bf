"""Options that several commands share. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Option

DataDir = Annotated[Path | None, Option(help="Where data files are.", show_default="$NACRE_DATA, then the cache")]
Results = Annotated[Path, Option(help="Where results go.")]
Jobs = Annotated[int | None, Option(help="Processes at once.", min=1, show_default="one for each CPU")]
Host = Annotated[str, Option(help="Address; the default is reached from this machine only.")]
Trust = Annotated[
    list[str] | None,
    Option("--trust", help="Package whose model the run may import; repeated.", show_default="installed ones"),
]

# Of recordings of bearings.
Rate = Annotated[float | None, Option(help="Samples a second.", show_default="what the files say", min=100)]
SkipBad = Annotated[
    bool, Option("--skip-bad", help="Leave out files that are missing or damaged, and count them.")
]
