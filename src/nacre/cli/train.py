"""The commands around training: names and the functions they call, no logic. Needs typer."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, echo

from nacre._util.foreign_code import trusting
from nacre.cli.options import DataDir, Trust
from nacre.tasks.recipe import Precision, Profile
from nacre.train.scale.options import Cluster, Executor, Processes, Scale

_scale = partial(Option, rich_help_panel="Scale-out")


def tasks() -> None:
    """List the tasks that nacre comes with, and their controls."""
    from nacre.tasks.listing import print_tasks

    print_tasks()


def train(
    tasks: Annotated[list[str], Argument(help="Tasks, see `nacre tasks`, or recipes of your own (.toml).")],
    model: Annotated[
        list[str] | None,
        Option(
            "--model",
            "-m",
            help="Models, patterns such as 'nac-*', or package.module:factory; repeated.",
            show_default="nac",
        ),
    ] = None,
    profile: Annotated[
        Profile,
        Option(help="quick: a smoke run; standard: small networks, minutes; paper: its sizes and epochs, hours."),
    ] = Profile.STANDARD,
    folds: Annotated[
        int | None, Option(help="How many of the folds, from the first on.", min=1, show_default="all")
    ] = None,
    seed: Annotated[
        list[int] | None, Option(help="Seeds of weights and order, repeated.", min=0, show_default="0")
    ] = None,
    out: Annotated[Path, Option(help="Where runs go.")] = Path("runs"),
    data_dir: DataDir = None,
    precision: Annotated[Precision, Option(help="As in Lightning.")] = Precision.FLOAT32,
    controls: Annotated[bool, Option(help="Run the trivial controls of each task, too.")] = True,
    known: Annotated[
        list[Path] | None,
        Option(help="Skip cells that are finished here: runs, or files of `nacre results add`; repeated."),
    ] = None,
    final: Annotated[
        bool,
        Option(
            "--final",
            help="Train each model on all data, for the median of the steps that validation chose in its finished "
            "folds; no score, no controls.",
        ),
    ] = False,
    executor: Annotated[Executor, _scale(help="serial: cell after cell; ray: many at once.")] = Executor.SERIAL,
    address: Annotated[
        str | None,
        _scale(help="Ray cluster: host:port, auto or ray://host:port.", show_default="one on this machine"),
    ] = None,
    cpus: Annotated[int, _scale(help="CPUs of each cell on Ray.", min=1)] = 1,
    gpus: Annotated[float, _scale(help="GPUs of each cell on Ray, or a share.", min=0, max=1)] = 0.0,
    devices: Annotated[int, _scale(help="Processes on each node that train one cell.", min=1)] = 1,
    nodes: Annotated[int, _scale(help="Nodes, under torchrun.", min=1)] = 1,
) -> None:
    """Train and test models on tasks, fold by fold. What is done is skipped; what was interrupted resumes."""
    from nacre.train.scale.torchrun import launch, needs_launch

    scale = Scale(executor, Cluster(address, cpus, gpus), Processes(devices, nodes))
    if needs_launch(scale.processes):
        raise Exit(launch(scale.processes))
    from nacre.train.grid import Grid, run_grid

    models, seeds = model or ["nac"], seed or [0]
    places = known or []
    run_grid(Grid(tasks, models, profile, folds, seeds, out, data_dir, precision, controls, scale, places, final))


def tune(
    task: Annotated[str, Argument(help="A task, see `nacre tasks`, or a recipe of your own (.toml).")],
    model: Annotated[str, Option("--model", "-m", help="The model.")] = "nac",
    trials: Annotated[int, Option(help="Trials in all, those already done included.", min=1)] = 30,
    profile: Annotated[Profile, Option(help="How much each trial trains.")] = Profile.STANDARD,
    folds: Annotated[int, Option(help="Folds whose validation parts judge a trial.", min=1)] = 1,
    only: Annotated[
        list[str] | None,
        Option(help="Search only this, such as lr or layer.top_k; repeated.", show_default="all"),
    ] = None,
    seed: Annotated[int, Option(help="Seed of weights and search.", min=0)] = 0,
    out: Annotated[Path | None, Option(help="Where results go.", show_default="tuning/TASK/MODEL")] = None,
    storage: Annotated[
        str | None,
        Option(
            help="URL of a database that several machines share, such as postgresql://user@host/name.",
            show_default="a file in --out",
        ),
    ] = None,
    study: Annotated[
        str | None, Option(help="Name of the study there.", show_default="TASK-MODEL-PROFILE")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Search for a better recipe for a model by Bayesian optimisation. Start it again to resume."""
    from nacre.train.tuning.tune import Tune, run_tuning

    run_tuning(Tune(task, model, trials, profile, folds, only or (), seed, out, storage, study, data_dir))


def table(
    runs: Annotated[Path, Argument(help="Where runs are, or files that `nacre results add` wrote.")] = Path(
        "runs"
    ),
    task: Annotated[str | None, Option(help="Only this task.", show_default="all")] = None,
    paper: Annotated[bool, Option("--paper", help="The nine columns of the paper's Table 1.")] = False,
    markdown: Annotated[Path | None, Option(help="Write the table here, too, in Markdown.")] = None,
    csv: Annotated[Path | None, Option(help="Write the table here, too, as CSV.")] = None,
    plots: Annotated[Path | None, Option(help="Where figures go.", show_default="plots/ among the runs")] = None,
) -> None:
    """Compare the models of finished runs: mean over folds, rank, test against NAC, the paper's value."""
    from nacre.train.report.command import Tables, show

    show(Tables(runs, task, paper, markdown, csv, plots))


def predict(
    runs: Annotated[
        list[Path],
        Argument(help="A run, such as runs/my/nac/fold0-seed0; with --ensemble several, or a folder of folds."),
    ],
    csv: Annotated[Path, Argument(help="Table with the columns of the training file; no target needed.")],
    out: Annotated[Path, Option(help="Where predictions go.")] = Path("predictions.csv"),
    ensemble: Annotated[
        bool, Option("--ensemble", help="Predict the mean of what several runs say, such as all folds of a model.")
    ] = False,
    trust: Trust = None,
) -> None:
    """Predict for a new CSV file by a run that was trained on one; score it if the file holds the target."""
    from nacre.train.predict import write_predictions

    with trusting(trust or ()):
        said = write_predictions(runs, csv, out, ensemble=ensemble)
    for line in said:
        echo(line, err=line.startswith("warning"))
    echo(f"wrote {out}")
