"""The command `nacre` and its groups of commands: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer, echo

from nacre._version import __version__
from nacre.cli.bearings import bearings
from nacre.cli.data import data
from nacre.cli.drive import drive
from nacre.cli.inspect import inspect, view
from nacre.cli.options import DataDir
from nacre.cli.results import results
from nacre.cli.study import study
from nacre.cli.train import predict, table, tasks, train, tune

app = Typer(
    help="Continuous-time attention wired like the nervous system of C. elegans.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"nacre {__version__}")
        raise Exit


_Version = Annotated[bool, Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


@app.callback()
def root(version: _Version = False) -> None:
    """Continuous-time attention wired like the nervous system of C. elegans."""


@app.command()
def demo(
    out: Annotated[Path, Option(help="Where to put report and figures.")] = Path("nacre-demo"),
    steps: Annotated[int, Option(help="Training steps of each model, rounded up to 20s.", min=1)] = 1000,
    seed: Annotated[int, Option(help="Seed of data and weights.", min=1, max=99)] = 1,
    spread: Annotated[float, Option(help="How much spirals differ.", min=0.0, max=0.1)] = 0.02,
) -> None:
    """Train NAC+, dot-product attention, CfC and NAC on irregular spirals, and report what they learned."""
    from nacre.demo.run import run_demo

    run_demo(out, steps, seed, spread)


@app.command()
def models(pattern: Annotated[str, Argument(help="Only names that match, such as 'nac-*'.")] = "*") -> None:
    """List the models that nacre.create knows."""
    from nacre.models._listing import print_models

    print_models(pattern)


@app.command()
def doctor(
    data_dir: DataDir = None,
    json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at versions, kernels, machine and data, and say what to mend; exit code 1 if there is a problem."""
    from nacre.doctor.run import run_doctor

    if run_doctor(data_dir, json):
        raise Exit(1)


@app.command()
def bench(
    models: Annotated[
        list[str] | None,
        Option(
            help="Names or patterns such as 'nac-*', by commas or repeated.",
            show_default="all; sweep, training: nac and a few others",
        ),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        Option(help="Steps, by commas or repeated.", show_default="1024; sweep: 256, 512, ... 131072"),
    ] = None,
    batch: Annotated[int, Option(help="Sequences at a time.", min=1)] = 1,
    d_model: Annotated[int, Option(help="Features.", min=2)] = 64,
    heads: Annotated[int, Option(help="Attention heads.", min=1)] = 4,
    threads: Annotated[
        int | None, Option(help="Threads of torch.", min=1, show_default="torch's own choice")
    ] = None,
    time_limit: Annotated[
        float, Option(help="Seconds for each forward pass or training step, all its rounds together.")
    ] = 120.0,
    out: Annotated[Path, Option(help="Where to put tables and figures.")] = Path("results"),
    resume: Annotated[bool, Option("--resume", help="Keep what an earlier run finished.")] = False,
    sweep: Annotated[bool, Option("--sweep", help="How cost grows with length.")] = False,
    selection: Annotated[bool, Option("--selection", help="Recall and cost of key selection.")] = False,
    training: Annotated[
        bool, Option("--training", help="At the shapes of the tasks, with time stamps, beside sdpa.")
    ] = False,
) -> None:
    """Measure time and memory of the models beside torch.nn.MultiheadAttention, each in its own process."""
    from nacre.bench.run import Options, run

    lists = (tuple(models or ()), tuple(lengths or ()))
    run(Options(*lists, batch, d_model, heads, threads, time_limit, out, resume, sweep, selection, training))


for _command in (tasks, train, tune, table, predict, inspect, view):
    app.command()(_command)
_GROUPS = {"data": data, "results": results, "study": study, "drive": drive, "bearings": bearings}
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
