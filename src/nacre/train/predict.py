"""`nacre predict`: answers of finished runs to a table that they have never seen, warnings, and a score."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.progress import bars
from nacre.data.dataset import Dataset, Kind
from nacre.data.tables.arrays import numbered
from nacre.data.tables.columns import Clock, Columns
from nacre.data.tables.csv_unlabelled import read_new
from nacre.data.tables.given import Sequences, read_new_given
from nacre.data.tables.reading import Reading
from nacre.tasks.further_metrics import middle
from nacre.tasks.network import TaskNetwork
from nacre.train.evaluate import all_outputs
from nacre.train.predict_score import score_line
from nacre.train.ranges import far_outside
from nacre.train.result import RESULT
from nacre.train.run import Run

if TYPE_CHECKING:
    import pandas as pd

ROWS = 50_000  # of a table that are written at once
Told = Callable[[int, int], None]  # gets how many answers of how many came with each batch


@dataclass(frozen=True)
class Predictions:
    """Answers to a table.

    Attributes:
        table: A row for each answer: who and when, and `prediction` with the probability `p(class)` of each class,
            the numbers under the names of the target columns, or for each label 0 or 1, and its probability.
            Quantiles are further columns, such as `load q0.9`; the middle one stands under the name of the target.
        warnings: Features that lie far outside of what training saw, a line each.
        score: Metrics in words, if the table holds the target; else empty.
    """

    table: pd.DataFrame
    warnings: tuple[str, ...]
    score: str


def predict_csv(run: Path, path: Path) -> pd.DataFrame:
    """Predictions of a run for the rows, or sequences, of a CSV file: the table of `Predictions`."""
    return predictions([run], path).table


def predictions(runs: Sequence[Path], path: Path, told: Told = lambda done, total: None) -> Predictions:
    """Predict for a CSV file by a run, or by several as the mean of their probabilities, or of their numbers.

    Args:
        runs: Directories of runs that were trained on a CSV file: one, or those of an ensemble, such as folds.
        path: The file; its columns are those of the training file, the target may be missing.
        told: Gets the number of sequences of each batch when it is done, and of all.
    """
    opened = [Run.open(run) for run in runs]
    columns = _columns(opened)
    data, table = read_new(path, columns)
    total = len(data) * len(opened)
    answers = [_answers(run, data, lambda done: told(done, total)) for run in opened]
    levels = _levels(opened)
    mean = torch.stack([answer.double() for answer in answers]).mean(0).to(answers[0].dtype)
    fill(table, columns, mean, levels)
    lines = (line for run in opened for line in far_outside(run.directory, data))
    warned = {line.partition(" lies ")[0]: line for line in lines}  # of an ensemble, once for each feature
    score = score_line(path, columns, table, mean, levels)
    return Predictions(table.sort_index(), tuple(warned.values()), score)


def predict_given(run: Run, x: Sequences, time: object = None) -> pd.DataFrame:
    """Predictions of a run for sequences in memory: the table of `Predictions`; see `Run.predict`."""
    columns = columns_of(run)
    data, table = read_new_given(x, time, columns)
    fill(table, columns, _answers(run, data, lambda done: None), _levels([run]))
    return table.sort_index()


def columns_of(run: Run) -> Columns:
    """What the columns are that a run reads: of a named data set, as far as its network knows."""
    _refuse_moments(run)
    if run.columns is not None:
        return run.columns
    if run.result.control:
        raise ValueError(f"{run.directory} is a control on no table of your own; choose the run of a model")
    network, place = run.network(), os.fspath(run.directory)
    if network.eye is not None or network.kind is Kind.FORECASTING or network.one_hot:
        what = "sees images" if network.eye else f"is of {run.result.record['data']['name']}"
        raise ValueError(f"{place} {what}, whose rows are made by nacre; use its network, nacre.load({place!r})")
    features = numbered("x", len(network.shift))
    return Columns(
        kind=network.kind,
        time="time",
        target=tuple(run.result.record["targets"]) or ("y",),
        group="sequence",
        features=features,
        classes=run.result.classes,
        lookback=48,
        horizon=24,
        pieces=False,
        clock=Clock(),
        step=1.0,
        reading=Reading(missing=network.missing, static=tuple(features[place] for place in network.static)),
    )


def ensemble_of(places: Sequence[Path]) -> list[Path]:
    """The runs at some places: runs, or folders that hold the folds of a model.

    Raises:
        FileNotFoundError: If there is none at one of the places.
    """
    found: list[Path] = []
    for place in places:
        here = [place] if (place / RESULT).is_file() else sorted(p.parent for p in place.glob(f"fold*/{RESULT}"))
        if not here:
            raise FileNotFoundError(f"{place} holds no finished runs; give runs, or a folder such as runs/my/nac")
        found += here
    return list(dict.fromkeys(found))


def _columns(runs: Sequence[Run]) -> Columns:
    """What the columns of a table are to these runs, which must agree."""
    first = runs[0]
    for run in runs:
        _refuse_moments(run)
        if run.columns is None:
            place = os.fspath(run.directory)
            raise ValueError(
                f"{place} was not trained on a CSV file; predict from its model with nacre.load({place!r})"
            )
        if run.columns != first.columns:
            raise ValueError(
                f"{run.directory} and {first.directory} were trained on other columns or classes; an ensemble is "
                "of runs on one file, such as the folds of a model"
            )
    assert first.columns is not None
    return first.columns


def _refuse_moments(run: Run) -> None:
    """Refuse a run that answers at moments, which a table does not name."""
    if run.result.record.get("estimator", {}).get("moments"):
        place = os.fspath(run.directory)
        raise ValueError(
            f"{place} answers at moments that one asks for; use nacre.Forecaster.load({place!r})"
            ".predict(X, time=..., at=...)"
        )


def _levels(runs: Sequence[Run]) -> list[float]:
    """The quantiles that these runs answer; controls answer none."""
    found = {() if run.result.control else run.recipe.training.levels for run in runs}
    if len(found) > 1:
        raise ValueError("an ensemble must be of runs that answer the same quantiles")
    return [*found.pop()]


def _answers(run: Run, data: Dataset, done: Callable[[int], None]) -> Tensor:
    """What a network or control says of all answers: probabilities, numbers, or their quantiles."""
    index = torch.arange(len(data))
    if run.result.control:
        asked = replace(data, y=torch.zeros_like(data.y))  # controls answer what is scored
        return run.control().predict(asked, index)
    return network_answers(run.network(), data, done)


def network_answers(
    network: TaskNetwork, data: Dataset, done: Callable[[int], None] = lambda count: None
) -> Tensor:
    """What a network says of all answers: probabilities of classes or labels, numbers, or their quantiles."""
    outputs = all_outputs(network, data, torch.arange(len(data)), done)
    if data.kind.has_classes:
        return outputs.softmax(-1)
    return outputs.sigmoid() if data.kind is Kind.MULTI_LABEL else outputs


def fill(table: pd.DataFrame, columns: Columns, outputs: Tensor, levels: list[float]) -> None:
    """Write answers into a table with a row for each."""
    if columns.kind.has_classes:
        table["prediction"] = [columns.classes[i] for i in outputs.argmax(1).tolist()]
        for number, name in enumerate(columns.classes):
            table[f"p({name})"] = outputs[:, number].float().numpy()
    elif columns.kind is Kind.MULTI_LABEL:
        for number, name in enumerate(columns.targets):
            table[name] = (outputs[:, number] >= 0.5).long().numpy()
            table[f"p({name})"] = outputs[:, number].float().numpy()
    else:
        _numbers(table, columns, outputs, levels)


def _numbers(table: pd.DataFrame, columns: Columns, outputs: Tensor, levels: list[float]) -> None:
    """Columns of numbers [n, D], or of their quantiles [n, D * Q]; a forecast has a row for each number."""
    point = middle(outputs, len(columns.targets), levels)
    each = outputs.unflatten(-1, (len(columns.targets), -1))  # [n, D, Q or 1]
    if columns.kind is Kind.FORECASTING:  # [n, horizon], a row for each
        point, each = point.reshape(-1, 1), each.flatten(0, 1).unsqueeze(1)
    for number, name in enumerate(columns.target):
        table[name] = point[:, number].numpy()
        for at, level in enumerate(levels):
            table[f"{name} q{level:g}"] = each[:, number, at].numpy()


def write_predictions(runs: Sequence[Path], path: Path, out: Path, *, ensemble: bool = False) -> list[str]:
    """Predict and write a CSV file, whole or not at all; gives warnings and the score, in words."""
    if not ensemble and len(runs) > 1:
        raise ValueError(f"{len(runs)} runs are given; --ensemble predicts the mean of what they say")
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():
        raise ValueError(f"{out} is a folder; give a file, such as {out / 'predictions.csv'}")
    chosen = ensemble_of(runs) if ensemble else runs
    console = Console(stderr=True)
    progress = bars(console)
    progress.disable = not console.is_terminal
    with progress:
        bar = progress.add_task("predict", total=None, unit="sequences", loss="")
        found = predictions(chosen, path, lambda done, total: progress.update(bar, advance=done, total=total))
    write_atomic(out, csv_blocks(found.table))
    said = [f"warning: {line}" for line in found.warnings]
    if ensemble:
        count = "1 run" if len(chosen) == 1 else f"{len(chosen)} runs"
        said.append(f"the mean of {count}: {', '.join(run.name for run in chosen)}")
    return [*said, *([found.score] if found.score else [])]


def csv_blocks(table: pd.DataFrame) -> Iterator[bytes]:
    """A table as the text of a CSV file, some rows at a time."""
    for first in range(0, max(len(table), 1), ROWS):
        yield table[first : first + ROWS].to_csv(index=False, header=first == 0).encode()
