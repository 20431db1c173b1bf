"""The commands `nacre inspect` and `nacre view`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

import typer

_Data = Annotated[
    Path | None, typer.Option(help="Where data files lie.", show_default="$NACRE_DATA, then the cache")
]
_Samples = Annotated[int, typer.Option(help="Sequences or drives to record, if there is no recording yet.", min=1)]
_Again = Annotated[bool, typer.Option("--again", help="Record anew.")]


def view(
    runs: Annotated[
        list[Path],
        typer.Argument(help="A run such as runs/spiral/nac/fold0-seed0, or a recording; two to compare them."),
    ],
    host: Annotated[
        str, typer.Option(help="Address; the default is reached from this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8765,
    export: Annotated[
        Path | None, typer.Option(help="Write the page to one HTML file instead of serving it.")
    ] = None,
    sample: Annotated[int, typer.Option(help="Sample that the file shows.", min=0)] = 0,
    samples: _Samples = 8,
    again: _Again = False,
    data_dir: _Data = None,
) -> None:
    """Watch every neuron of a trained NAC in the browser, in step with its input. Ctrl-C ends it."""
    from nacre.inspect.view import ViewOptions, view

    view(ViewOptions(runs, samples, again, host, port, data_dir, export, sample))
