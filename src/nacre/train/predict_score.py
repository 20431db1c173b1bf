"""The score of predictions for a table that holds the target."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from nacre.data.dataset import Kind
from nacre.data.tables.cells import Table, read_table
from nacre.tasks.further_metrics import middle, score_labels, score_probabilities, score_quantities
from nacre.tasks.metrics import score_classes

if TYPE_CHECKING:
    from nacre.data.tables.columns import Columns

_OF_NUMBERS = ("raw mae", "raw rmse", "r2")


def score_line(
    path: str | os.PathLike[str], columns: Columns, answers: pd.DataFrame, outputs: Tensor, levels: list[float]
) -> str:
    """Metrics of predictions in words, over the answers whose target the file holds; empty if it holds none.

    Forecasts are of moments after the file's end, so they have no score; nor have steps of long tables, in which a
    row is no step.

    Args:
        path: The file.
        columns: What its columns are.
        answers: A row for each answer; of steps, its index is the row of the file.
        outputs: [n, ...] probabilities or numbers, in the same order.
        levels: The quantiles among them.
    """
    reading = columns.reading
    if columns.kind is Kind.FORECASTING or (columns.kind.each_step and reading.variable):
        return ""
    table = read_table(path, columns.group, reading.texts, reading.decimal, reading.gaps)
    if not set(columns.target) <= set(table.frame.columns):
        return ""
    truth = pd.DataFrame({name: _cells(table, columns, name) for name in columns.target})
    if columns.kind.each_step:
        truth = truth.loc[answers.index]
    elif columns.group is not None:
        by = truth.groupby(table.cells(columns.group).astype(str).to_numpy(), sort=False).first()
        truth = by.loc[answers[columns.group].astype(str)]
    known = torch.tensor(truth.notna().all(axis=1).to_numpy())
    count = int(known.sum())
    if not count:
        return ""
    y = torch.tensor(truth.to_numpy(float))[known]
    metrics = _metrics(columns, outputs[known], y, levels)
    left = len(known) - count
    rest = f" ({left:,} without a known target)" if left else ""
    return f"score of {count:,} answers{rest}: " + ", ".join(
        f"{name} {value:.4g}" for name, value in metrics.items()
    )


def _cells(table: Table, columns: Columns, name: str) -> pd.Series:
    """A target as numbers, classes by their place among the classes; NaN where the file does not say."""
    if not columns.kind.has_classes:
        return pd.Series(table.maybe_numbers(name))
    place = {known: number for number, known in enumerate(columns.classes)}
    return table.cells(name).map(lambda cell: place.get(_class_name(cell))).astype(float).reset_index(drop=True)


def _class_name(cell: object) -> str:
    """A class as training named it: whole numbers without a point."""
    text = str(cell).strip()
    try:
        return str(int(number)) if (number := float(text)) == int(number) else text
    except (ValueError, OverflowError):
        return text


def _metrics(columns: Columns, outputs: Tensor, y: Tensor, levels: list[float]) -> dict[str, float]:
    if columns.kind.has_classes:
        classes = y[:, 0].long()
        return score_classes(outputs, classes) | score_probabilities(outputs, classes, columns.classes).metrics
    if columns.kind is Kind.MULTI_LABEL:
        return score_labels(outputs, y, columns.targets).metrics
    found = score_quantities(outputs, y, torch.ones(y.shape[1]), levels).metrics
    error = middle(outputs, y.shape[1], levels).double() - y
    found["raw rmse"] = error.square().mean().sqrt().item()
    return {name: found[name] for name in _OF_NUMBERS}
