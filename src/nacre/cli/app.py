"""The commands of `nacre`: names and the functions they call, no logic. Needs typer."""

from pathlib import Path
from typing import Annotated

import typer

from nacre._version import __version__
from nacre.cli.bearings import Jobs, Rate, SkipBad, bearings
from nacre.cli.drive import drive
from nacre.cli.inspect import inspect, view
from nacre.cli.study import study
from nacre.tasks.recipe import Precision, Profile
from nacre.train.scale.options import Cluster, Executor, Processes, Scale

_SCALE = "Scale-out"  # panel of the help

_DataDir = Annotated[
    Path | None, typer.Option(help="Where data files lie.", show_default="$NACRE_DATA, then the cache")
]

app = typer.Typer(
    help="Continuous-time attention wired like the nervous system of C. elegans.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nacre {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Continuous-time attention wired like the nervous system of C. elegans."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put report and pictures.")] = Path("nacre-demo"),
    steps: Annotated[int, typer.Option(help="Training steps of each model.", min=1)] = 600,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.", min=1, max=99)] = 1,
    spread: Annotated[float, typer.Option(help="How much spirals differ.", min=0.0, max=0.1)] = 0.02,
) -> None:
    """Train NAC, dot-product attention and CfC on irregular spirals, and write a report of what they learned."""
    from nacre.demo.run import run_demo

    run_demo(out, steps, seed, spread)


@app.command()
def models(
    pattern: Annotated[str, typer.Argument(help="Only names that match, such as 'nac-*'.")] = "*",
) -> None:
    """List the models that nacre.create knows."""
    from nacre.models._listing import print_models

    print_models(pattern)


@app.command()
def bench(
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Names or patterns such as 'nac-*', by commas or repeated.",
            show_default="all; sweep: nac and a few others",
        ),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(help="Steps, by commas or repeated.", show_default="1024; sweep: 256, 512, ... 131072"),
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences at a time.", min=1)] = 1,
    d_model: Annotated[int, typer.Option(help="Features.", min=2)] = 64,
    heads: Annotated[int, typer.Option(help="Attention heads.", min=1)] = 4,
    threads: Annotated[
        int | None, typer.Option(help="Threads of torch.", min=1, show_default="torch's own choice")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each forward pass or training step, all its rounds together.")
    ] = 120.0,
    out: Annotated[Path, typer.Option(help="Where to put figures and plots.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Keep what an earlier run finished.")] = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="How cost grows with length.")] = False,
    selection: Annotated[bool, typer.Option("--selection", help="Recall and cost of key selection.")] = False,
) -> None:
    """Measure time and memory of the models beside torch.nn.MultiheadAttention, each in its own process."""
    from nacre.bench.run import Options, run

    lists = (tuple(models or ()), tuple(lengths or ()))
    run(Options(*lists, batch, d_model, heads, threads, time_limit, out, resume, sweep, selection))


@app.command()
def tasks() -> None:
    """List the tasks that nacre comes with, and their controls."""
    from nacre.tasks.listing import print_tasks

    print_tasks()


@app.command()
def train(
    tasks: Annotated[list[str], typer.Argument(help="Tasks, see `nacre tasks`, or recipes of your own (.toml).")],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Models or patterns such as 'nac-*', repeated.", show_default="nac"),
    ] = None,
    profile: Annotated[Profile, typer.Option(help="paper: all epochs; quick: few steps.")] = Profile.PAPER,
    folds: Annotated[
        int | None, typer.Option(help="How many of the folds, from the first on.", min=1, show_default="all")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seeds of weights and order, repeated.", min=0, show_default="0")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where runs go.")] = Path("runs"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data files lie.", show_default="$NACRE_DATA, then the cache")
    ] = None,
    precision: Annotated[Precision, typer.Option(help="As in Lightning.")] = Precision.FLOAT32,
    controls: Annotated[bool, typer.Option(help="Run the trivial controls of each task, too.")] = True,
    executor: Annotated[
        Executor, typer.Option(help="serial: cell after cell; ray: many at once.", rich_help_panel=_SCALE)
    ] = Executor.SERIAL,
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster: host:port, auto or ray://host:port.",
            show_default="one of this machine's CPUs",
            rich_help_panel=_SCALE,
        ),
    ] = None,
    cpus: Annotated[int, typer.Option(help="CPUs of each cell on Ray.", min=1, rich_help_panel=_SCALE)] = 1,
    gpus: Annotated[
        float, typer.Option(help="GPUs of each cell on Ray, or a share.", min=0, max=1, rich_help_panel=_SCALE)
    ] = 0.0,
    devices: Annotated[
        int, typer.Option(help="Processes on each node that train one cell.", min=1, rich_help_panel=_SCALE)
    ] = 1,
    nodes: Annotated[int, typer.Option(help="Nodes, under torchrun.", min=1, rich_help_panel=_SCALE)] = 1,
) -> None:
    """Train and test models on tasks, fold by fold. What is done is skipped; what was interrupted goes on."""
    from nacre.train.scale.torchrun import launch, needs_launch

    scale = Scale(executor, Cluster(address, cpus, gpus), Processes(devices, nodes))
    if needs_launch(scale.processes):
        raise typer.Exit(launch(scale.processes))
    from nacre.train.grid import Grid, run_grid

    run_grid(Grid(tasks, model or ["nac"], profile, folds, seed or [0], out, data_dir, precision, controls, scale))


@app.command()
def tune(
    task: Annotated[str, typer.Argument(help="A task, see `nacre tasks`, or a recipe of your own (.toml).")],
    model: Annotated[str, typer.Option("--model", "-m", help="The model.")] = "nac",
    trials: Annotated[int, typer.Option(help="Trials in all, those already done included.", min=1)] = 30,
    profile: Annotated[Profile, typer.Option(help="How much each trial trains.")] = Profile.PAPER,
    folds: Annotated[int, typer.Option(help="Folds whose validation parts judge a trial.", min=1)] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Search only this, such as lr or layer.top_k; repeated.", show_default="all"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and search.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Where results go.", show_default="tuning/TASK/MODEL")] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="URL of a database that several machines share, such as postgresql://user@host/name.",
            show_default="a file in --out",
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of the study there.", show_default="TASK-MODEL-PROFILE")
    ] = None,
    data_dir: _DataDir = None,
) -> None:
    """Search for a better recipe for a model by Bayesian optimisation. Start it again to go on with it."""
    from nacre.train.tuning.tune import Tune, run_tuning

    run_tuning(Tune(task, model, trials, profile, folds, only or (), seed, out, storage, study, data_dir))


@app.command()
def table(
    runs: Annotated[Path, typer.Argument(help="Where runs are.")] = Path("runs"),
    task: Annotated[str | None, typer.Option(help="Only this task.", show_default="all")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="The nine columns of the paper's Table 1.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Write the table here, too, in Markdown.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table here, too, as CSV.")] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Where pictures go.", show_default="plots/ among the runs")
    ] = None,
) -> None:
    """Compare the models of finished runs: mean over folds, rank, test against NAC, the paper's figure."""
    from nacre.train.report.command import Tables, show

    show(Tables(runs, task, paper, markdown, csv, plots))


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Directory of a run, such as runs/my/nac/fold0-seed0.")],
    csv: Annotated[Path, typer.Argument(help="Table with the columns of the training file; no target needed.")],
    out: Annotated[Path, typer.Option(help="Where predictions go.")] = Path("predictions.csv"),
) -> None:
    """Predict for a new CSV file with a run that was trained on one."""
    from nacre.train.predict import write_predictions

    write_predictions(run, csv, out)
    typer.echo(f"wrote {out}")


data = typer.Typer(help="List, fetch and check data sets.", no_args_is_help=True)
app.add_typer(data, name="data")


@data.command("list")
def data_list(data_dir: _DataDir = None) -> None:
    """List the data sets, and which of them are there."""
    from nacre.data.files.listing import print_data

    print_data(data_dir)


@data.command("get")
def data_get(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets.", show_default="all")] = None,
    data_dir: _DataDir = None,
) -> None:
    """Fetch data sets from their official sources, and check them."""
    from nacre.data.files.listing import get_data

    get_data(names or [], data_dir)


@data.command("check")
def data_check(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets.", show_default="all")] = None,
    data_dir: _DataDir = None,
) -> None:
    """Check the files of data sets, and say what is in them."""
    from nacre.data.files.listing import check_data

    check_data(names or [], data_dir)


@data.command("features")
def data_features(
    places: Annotated[
        list[Path],
        typer.Argument(help="Folders with recordings of bearings (PRONOSTIA, XJTU-SY), or MAT files (HUST)."),
    ],
    out: Annotated[Path, typer.Option(help="Where tables go.")] = Path("bearings-features"),
    rate: Rate = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Describe recordings of bearings by features, window by window. Start it again to go on with it."""
    from nacre.bearings.extract import Extraction, extract

    extract(Extraction(places, out, rate, skip_bad, jobs))


app.add_typer(study, name="study")
app.add_typer(drive, name="drive")
app.add_typer(bearings, name="bearings")
app.command()(inspect)
app.command()(view)
