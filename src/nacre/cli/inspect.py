"""The commands `nacre inspect` and `nacre view`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from nacre._util.foreign_code import trusting
from nacre.cli.options import DataDir, Host, Trust
from nacre.inspect.options import FigureKind, What

_Samples = Annotated[int, Option(help="Sequences or drives to record, if there is no recording yet.", min=1)]
_Again = Annotated[bool, Option("--again", help="Record again, even if there is a recording.")]


def inspect(
    run: Annotated[Path, Argument(help="A run such as runs/spiral/nac/fold0-seed0, or a recording.")],
    figure: Annotated[FigureKind | None, Option(help="Draw this figure.", show_default="tables instead")] = None,
    out: Annotated[
        Path | None,
        Option(
            help="File of the figure (.svg, .pdf, .png), or folder of the tables.",
            show_default="FIGURE.svg, or inspect",
        ),
    ] = None,
    layer: Annotated[str | None, Option(help="Name of the layer.", show_default="the only one")] = None,
    head: Annotated[int, Option(help="Head of figures that show one.", min=0)] = 0,
    sample: Annotated[int, Option(help="Sample of figures that show one.", min=0)] = 0,
    step: Annotated[
        int | None, Option(help="Step of circuit and attention.", min=0, show_default="the middle, or none")
    ] = None,
    what: Annotated[
        What, Option(help="Compare neurons with the true answers, or with those of the model.")
    ] = What.TRUTH,
    output: Annotated[
        str | None,
        Option(help="Which output, cut into low, middle and high, gives the labels.", show_default="the first"),
    ] = None,
    permutations: Annotated[int, Option(help="Permutations of the control of tuning.", min=19)] = 200,
    steps: Annotated[
        int | None, Option(help="First steps of each sample to try lesions on.", min=1, show_default="all")
    ] = None,
    samples: _Samples = 8,
    again: _Again = False,
    data_dir: DataDir = None,
    trust: Trust = None,
) -> None:
    """Draw what happens inside a trained NAC, or write tables: tuning, gates, lesions, dead neurons."""
    from nacre.inspect.command import InspectOptions, inspect_run

    shown = (figure and str(figure), out, layer, head, sample, step)
    with trusting(trust or ()):
        inspect_run(InspectOptions(run, *shown, what, output, permutations, samples, steps, again, data_dir))


def view(
    runs: Annotated[
        list[Path],
        Argument(help="A run such as runs/spiral/nac/fold0-seed0, or a recording; two to compare them."),
    ],
    host: Host = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8765,
    export: Annotated[Path | None, Option(help="Write the page to one HTML file instead of serving it.")] = None,
    sample: Annotated[int, Option(help="Sample that the file shows.", min=0)] = 0,
    samples: _Samples = 8,
    again: _Again = False,
    data_dir: DataDir = None,
    trust: Trust = None,
) -> None:
    """Watch every neuron of a trained NAC in the browser, in step with its input. Ctrl-C ends it."""
    from nacre.inspect.viewer.command import ViewOptions, view

    with trusting(trust or ()):
        view(ViewOptions(runs, samples, again, host, port, data_dir, export, sample))
