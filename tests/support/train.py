"""Tiny tasks, and helpers for the tests of training."""

import csv
import json
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from nacre import cli
from nacre.data import Dataset, Kind, SplitBy, from_arrays, make_splits
from nacre.data.sets.gaps import gaps as gaps_of
from nacre.data.sets.series import Series, forecasting
from nacre.tasks.recipe import Profile, Recipe
from nacre.tasks.recipe_sections import NetworkRecipe, SplitRecipe, TrainingRecipe
from nacre.tasks.task import Task, load_task
from nacre.train.cell import Cell
from nacre.train.grid import Grid
from nacre.train.scale.options import Cluster, Executor, Scale
from support.datasets import MADE, hourly

MODEL = "cfc-fc"  # the fastest to train
TINY = Recipe(
    name="tiny",
    data={"name": "spiral", "n": 12},
    split=SplitRecipe("group", 3),
    network=NetworkRecipe(8, 2),
    training=TrainingRecipe(batch_size=4, steps=20, quick_steps=12, quick_valid=4),
)
TINY_TOML = """
data = { name = "spiral", n = 12 }
split = { by = "group", folds = 3 }
network = { d_model = 8, num_heads = 2 }
training = { batch_size = 4, quick_steps = %d, quick_valid = 4 }
"""


def spirals(network: NetworkRecipe | None = None, **training) -> Task:
    """Twelve spirals, and what the recipe's training is to be."""
    recipe = replace(TINY, training=replace(TINY.training, **training), network=network or TINY.network)
    return load_task(recipe)


def waves(n=24, seed=0, **training) -> Task:
    """Slow and fast waves of 6 to 12 steps at irregular times; which of the two is asked."""
    random = np.random.default_rng(seed)
    time = [np.sort(random.uniform(0, 6, random.integers(6, 13))) for _ in range(n)]
    fast = np.arange(n) % 2 == 0
    x = [np.sin((3 if f else 1) * t + random.uniform(0, 0.5))[:, None] for f, t in zip(fast, time, strict=True)]
    return task_of(from_arrays(x, np.where(fast, "fast", "slow"), time=time, name="waves"), **training)


def gaps(series: Series | None = None, **training) -> Task:
    """Windows of 12 hours, one a day for six weeks, of which a third is seen."""
    return task_of(gaps_of(series or hourly(42), MADE, "b", hours=12, seen=0.33, every=24, seed=0), **training)


def forecasts(series: Series | None = None, keep=1.0, **training) -> Task:
    """The next 3 values of a series, from 8 rows."""
    return task_of(forecasting(series or hourly(8), MADE, 8, 3, keep), **training)


def irregular(series: Series | None = None, **training) -> Task:
    """The same forecasts, with half of the rows lost."""
    return forecasts(series, keep=0.5, **training)


def task_of(data: Dataset, **training) -> Task:
    """A task on a data set that no recipe can name."""
    recipe = replace(TINY, name=data.name, training=replace(TINY.training, **training))
    by = SplitBy.TIME if data.kind is Kind.FORECASTING else SplitBy.GROUP
    return Task(recipe, data, make_splits(data, by, 3), None)


def noise(count=1, size=(66, 200), seed=0):
    """Random images."""
    return torch.randint(256, (count, *size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def drive(cameras=3, segments=6, each=8, size=(12, 20)):
    """Segments of random images, and steering that is never the same twice."""
    n = segments * each
    return Dataset(
        name="drive",
        kind=Kind.REGRESSION,
        values=noise(n * cameras, size),
        time=torch.arange(n).repeat(cameras).double(),
        start=torch.arange(n),
        length=torch.ones(n, dtype=torch.int64),
        y=torch.linspace(-0.7, 0.7, n).unsqueeze(1),
        group=torch.arange(segments).repeat_interleave(each),
        groups=tuple(map(str, range(segments))),
        features=("red", "green", "blue"),
        targets=("steering",),
    )


def with_data(task: Task, **changes) -> Task:
    """The same folds on data that was changed."""
    return replace(task, data=replace(task.data, **changes))


def cell(task: Task, out: Path, model=MODEL, **changes) -> Cell:
    """Fold 0, seed 0, in the quick profile."""
    return Cell(
        **{"task": task, "model": model, "fold": 0, "seed": 0, "profile": Profile.QUICK, "out": out, **changes}
    )


def steps_of_part(task: Task, part: str, fold=0) -> torch.Tensor:
    """Rows of a part: train, valid or test."""
    return task.data.rows(getattr(task.splits[fold], part))


def answers_of_part(task: Task, part: str, fold=0) -> torch.Tensor:
    """Places in `y` of the answers of a part."""
    return steps_of_part(task, part, fold) if task.data.kind.each_step else getattr(task.splits[fold], part)


def read_log(directory: Path) -> list[dict[str, float]]:
    """The rows of a training log."""
    with (directory / "log.csv").open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def result_of(directory: Path) -> dict:
    """The result file."""
    return json.loads((directory / "result.json").read_bytes())


def weights_of(directory: Path) -> bytes:
    """The weights of a run, byte by byte."""
    (path,) = (directory / "model").glob("*.safetensors")
    return path.read_bytes()


def outcome(directory: Path) -> tuple:
    """All of a run that has to be the same to the last bit when it is run again."""
    result = result_of(directory)
    log = (directory / "log.csv").read_text()
    return result["value"], result["metrics"], result["valid"], result["budget"], log, weights_of(directory)


def nacre(monkeypatch, *args) -> int:
    """Run the command line in this process; gives the exit code."""
    monkeypatch.setattr("sys.argv", ["nacre", *map(str, args)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def files_below(directory: Path) -> set[str]:
    """Names of all files, seen from the directory."""
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def tiny(tmp_path: Path, steps=6, more="") -> Grid:
    """A recipe file, and a grid of two of its folds."""
    (tmp_path / "tiny.toml").write_text(TINY_TOML % steps + more)
    return Grid([str(tmp_path / "tiny.toml")], [MODEL], Profile.QUICK, 2, out=tmp_path / "runs", controls=False)


def on(grid: Grid, address: str) -> Grid:
    """The same grid on a Ray cluster."""
    return replace(grid, scale=Scale(Executor.RAY, Cluster(address)))


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


def write_table(directory: Path, steps: int) -> Path:
    """A CSV file of slow and fast waves, and the recipe of a task that asks which is which."""
    rows = ["who,when,value,speed"]
    for number in range(20):
        fast = number % 2 == 0
        for when in range(12):
            value = np.sin((2.0 if fast else 0.5) * when + number)
            rows.append(f"p{number},{when},{value:.4f},{'fast' if fast else 'slow'}")
    (directory / "waves.csv").write_text("\n".join(rows))
    recipe = directory / "waves.toml"
    recipe.write_text(
        'data = { csv = "waves.csv", time = "when", group = "who", target = "speed", features = ["value"] }\n'
        "network = { d_model = 8, num_heads = 2 }\n"
        f"training = {{ batch_size = 8, quick_steps = {steps}, steps = 20 }}\n"
    )
    return recipe
