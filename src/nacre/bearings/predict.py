"""`nacre bearings predict`: degradation curves of new recordings, with the band of all fold models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from nacre._util.files import write_atomic
from nacre._util.text import csv_text
from nacre.bearings.extract import Extraction, extract
from nacre.data.rigs.feature_table import FeatureTable
from nacre.data.rigs.labels import Label
from nacre.data.rigs.life_metrics import remaining_from_fraction
from nacre.data.sets.bearings import is_table, read_any, rows_of
from nacre.tasks.network import TaskNetwork
from nacre.train.result import RESULT
from nacre.train.run import Run

_BATCH = 256
_WORDS = {Label.FRACTION: "share of life used", Label.RUL: "minutes left", Label.PHYSICS: "degradation"}


@dataclass(frozen=True)
class Curve:
    """Predictions of the fold models for one bearing."""

    name: str  # rig and bearing
    label: Label  # what is predicted
    seconds: NDArray[np.float64]  # [n] since the first sample
    models: NDArray[np.float64]  # [n, models] predictions

    @property
    def mean(self) -> NDArray[np.float64]:
        """[n] mean of the models."""
        return self.models.mean(1)

    @property
    def band(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[n] lowest and [n] highest of the models."""
        return self.models.min(1), self.models.max(1)


def predict_bearings(
    run: Path,
    places: Sequence[Path],
    out: Path = Path("prognosis"),
    rate: float | None = None,
    skip_bad: bool = False,
    jobs: int | None = None,
) -> list[Curve]:
    """Predict, and write a CSV and a PNG for each recording.

    Args:
        run: A run of the task bearings. The runs of the same model on other folds, beside it, make the band.
        places: Folders of recordings, MAT files, or tables: those of `nacre data features`, or the authors' files.
        out: Where files go; features of raw recordings, too.
        rate: Samples a second, for MAT files that do not say.
        skip_bad: Whether missing or damaged files are left out and counted.
        jobs: Processes that extract features.

    Raises:
        FileNotFoundError: If the run or the recordings are not there.
        ValueError: If the run was trained on something else, or a recording is too short.
    """
    console = Console()
    models, data = _models(run)
    tables = [read_any(path) for path in places if is_table(path)]
    raw = [path for path in places if not is_table(path)]
    if raw:
        tables += extract(Extraction(raw, out / "features", rate, skip_bad, jobs))
    curves = [_curve(models, table, data) for table in tables]
    out.mkdir(parents=True, exist_ok=True)
    from nacre.bearings.figures import draw_curve

    for curve in curves:
        stem = curve.name.replace(" ", "-")
        write_atomic(out / f"{stem}.csv", _csv(curve).encode())
        write_atomic(out / f"{stem}.png", draw_curve(curve))
        low, high = (float(edge[-1]) for edge in curve.band)
        console.print(
            f"{curve.name}: {_WORDS[curve.label]} {curve.mean[-1]:.2f} after {curve.seconds[-1] / 3600:.2f} h "
            f"({len(models)} models: {low:.2f} to {high:.2f}); wrote {stem}.csv and {stem}.png in {out}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return curves


def _models(run: Path) -> tuple[list[TaskNetwork], dict[str, Any]]:
    """The networks of a run and of its other folds, or of a final run alone, and the recipe's data table."""
    trained = Run.open(run)
    data = trained.recipe.data
    if data.get("name") != "bearings":
        raise ValueError(f"{run} was trained on {data.get('name', 'a table')}, wanted bearings")
    if trained.result.final:
        return [trained.network()], data
    folds = sorted(path.parent for path in run.resolve().parent.glob(f"fold*-seed*/{RESULT}"))
    others = [other for other in map(Run.open, folds) if other.result.recipe == trained.result.recipe]
    return [other.network() for other in others], data


@torch.no_grad()
def _curve(models: Sequence[TaskNetwork], table: FeatureTable, data: dict[str, Any]) -> Curve:
    steps, name = data.get("steps", 32), f"{table.rig} {table.name}"
    rows = rows_of(table, data.get("average", 5))
    count = len(rows.last)
    if count < steps:
        raise ValueError(f"{name} is too short: {count} rows of features, the network reads {steps} at a time")
    values = torch.from_numpy(rows.values).float().unfold(0, steps, 1).transpose(1, 2)  # [n, steps, 16]
    time = torch.from_numpy(rows.seconds).unfold(0, steps, 1)  # [n, steps]
    answers = []
    for model in models:
        parts = [
            model(x, t, torch.zeros(t.shape, dtype=torch.bool))[:, 0]
            for x, t in zip(values.split(_BATCH), time.split(_BATCH), strict=True)
        ]
        answers.append(torch.cat(parts).double().numpy())
    return Curve(name, Label(data.get("label", "fraction")), rows.seconds[steps - 1 :], np.stack(answers, 1))


def _csv(curve: Curve) -> str:
    low, high = curve.band
    columns = {"seconds": curve.seconds, "mean": curve.mean, "lowest": low, "highest": high}
    if curve.label is Label.FRACTION:
        columns["minutes left"] = remaining_from_fraction(curve.mean, curve.seconds / 60)
    columns |= {f"model {number}": answers for number, answers in enumerate(curve.models.T)}
    rows = ([f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True))
    return csv_text(list(columns), rows)
