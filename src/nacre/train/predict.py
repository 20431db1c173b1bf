"""`nacre predict`: answers of a finished run to a table that it has never seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from nacre._util.files import write_atomic
from nacre.data.dataset import Kind
from nacre.data.tables.csv_unlabelled import read_new
from nacre.train.evaluate import outputs_of
from nacre.train.run import Run

if TYPE_CHECKING:
    import pandas as pd


def predict_csv(run: Path, path: Path) -> pd.DataFrame:
    """Predictions for the rows, or sequences, of a CSV file.

    Args:
        run: Directory of a run that was trained on a CSV file.
        path: The file; its columns are those of the training file, the target may be missing.

    Returns:
        A row for each answer: who and when, and `prediction` with the probability `p(class)` of each class, or the
        numbers under the names of the target columns.
    """
    trained = Run.open(run)
    columns = trained.columns
    if columns is None:
        raise ValueError(
            f"{run} was not trained on a CSV file; predict from its model with nacre.load({str(run)!r})"
        )
    network = trained.network()
    data, table = read_new(path, columns)
    outputs = torch.cat(outputs_of(network, data, torch.arange(len(data))))
    if columns.kind.has_classes:
        table["prediction"] = [columns.classes[i] for i in outputs.argmax(1).tolist()]
        for number, name in enumerate(columns.classes):
            table[f"p({name})"] = outputs.softmax(1)[:, number].numpy()
    elif columns.kind is Kind.FORECASTING:  # [n, horizon], a row for each
        table[columns.target[0]] = outputs.flatten().numpy()
    else:
        for number, name in enumerate(columns.targets):
            table[name] = outputs[:, number].numpy()
    return table.sort_index()


def write_predictions(run: Path, path: Path, out: Path) -> None:
    """Predict and write a CSV file, whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():
        raise ValueError(f"{out} is a folder; give a file, such as {out / 'predictions.csv'}")
    table = predict_csv(run, path)
    write_atomic(out, table.to_csv(index=False).encode())
