"""The commands `nacre inspect` and `nacre view`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

import typer

from nacre.inspect.options import FigureKind, What

_Data = Annotated[
    Path | None, typer.Option(help="Where data files lie.", show_default="$NACRE_DATA, then the cache")
]
_Samples = Annotated[int, typer.Option(help="Sequences or drives to record, if there is no recording yet.", min=1)]
_Again = Annotated[bool, typer.Option("--again", help="Record anew.")]


def inspect(
    run: Annotated[Path, typer.Argument(help="A run such as runs/spiral/nac/fold0-seed0, or a recording.")],
    figure: Annotated[
        FigureKind | None, typer.Option(help="Draw this figure.", show_default="tables instead")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File of the figure (.svg, .pdf, .png), or folder of the tables.",
            show_default="FIGURE.svg, or inspect",
        ),
    ] = None,
    layer: Annotated[str | None, typer.Option(help="Name of the layer.", show_default="the only one")] = None,
    head: Annotated[int, typer.Option(help="Head of figures that show one.", min=0)] = 0,
    sample: Annotated[int, typer.Option(help="Sample of figures that show one.", min=0)] = 0,
    step: Annotated[
        int | None, typer.Option(help="Step of circuit and attention.", min=0, show_default="the middle, or none")
    ] = None,
    what: Annotated[
        What, typer.Option(help="Hold neurons against the true answers, or those of the model.")
    ] = What.TRUTH,
    output: Annotated[
        str | None,
        typer.Option(help="Of several numbers, the one whose thirds are the labels.", show_default="the first"),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Permutations of the control of tuning.", min=19)] = 200,
    steps: Annotated[
        int | None, typer.Option(help="First steps of each sample to try lesions on.", min=1, show_default="all")
    ] = None,
    samples: _Samples = 8,
    again: _Again = False,
    data_dir: _Data = None,
) -> None:
    """Draw what happens inside a trained NAC, or write tables: tuning, gates, lesions, dead neurons."""
    from nacre.inspect.command import InspectOptions, inspect_run

    inspect_run(
        InspectOptions(
            run=run,
            figure=None if figure is None else str(figure),
            out=out,
            layer=layer,
            head=head,
            sample=sample,
            step=step,
            what=what,
            output=output,
            permutations=permutations,
            samples=samples,
            steps=steps,
            again=again,
            data_dir=data_dir,
        )
    )


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
    from nacre.inspect.viewer.command import ViewOptions, view

    view(ViewOptions(runs, samples, again, host, port, data_dir, export, sample))
