"""`nacre results`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer, echo

results = Typer(help="Finished cells as lines of text, which outlive a machine.", no_args_is_help=True)


@results.callback()
def root() -> None:
    """Finished cells as lines of text, which outlive a machine."""


@results.command()
def add(
    runs: Annotated[list[Path], Argument(help="Where runs are, or other such files.")],
    to: Annotated[Path, Option(help="Folder of the files: PROFILE/TASK.jsonl in it.")] = Path("results/cells"),
) -> None:
    """Add finished runs to files that git can merge, a line for each cell; `nacre train --known` skips them."""
    from nacre.train.report.cell_files import add_results

    added, found = add_results(runs, to)
    for line in found.damaged:
        echo(line, err=True)
    echo(f"{to}: {added}")
