"""Predictions of a network, and their metrics."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nacre.data.batches import by_length
from nacre.data.dataset import Dataset
from nacre.tasks.metrics import (
    answers_of,
    confusion,
    is_scored,
    score_classes,
    score_numbers,
    scored_steps,
    steps_of,
)
from nacre.tasks.network import TaskNetwork

BATCH = 256


@dataclass(frozen=True)
class Scores:
    """Metrics by name and, for classes, counts [C, C] whose rows are true classes."""

    metrics: dict[str, float]
    confusion: Tensor | None


@torch.no_grad()
def outputs_of(network: TaskNetwork, data: Dataset, index: Tensor) -> list[Tensor]:
    """Outputs for these sequences [m], in their order: [1, outputs] or, each step, [T, outputs] for each.

    The network is left in evaluation mode.
    """
    network.eval()
    outputs: dict[int, Tensor] = {}
    for place in by_length(data.length[index], torch.arange(len(index)), BATCH):  # places in the index
        batch = data.batch(index[place])
        out = network(batch.x, batch.time, batch.key_padding_mask, query_only=batch.query_only)
        if data.kind.each_step:
            parts = [row[~padding] for row, padding in zip(out, batch.key_padding_mask, strict=True)]
        else:
            parts = out.unsqueeze(1)
        outputs.update(zip(place.tolist(), parts, strict=True))
    return [outputs[i] for i in range(len(index))]


def predict(network: TaskNetwork, data: Dataset, index: Tensor) -> Tensor:
    """Scores of classes [m, C] or numbers [m, D] for all scored answers, in the order of `nacre.tasks.metrics`."""
    outputs = torch.cat(outputs_of(network, data, index))
    row = steps_of(data, index).row if data.kind.each_step else index
    return outputs[is_scored(data.y[row], data.kind)]


def score(data: Dataset, index: Tensor, outputs: Tensor, unit: Tensor) -> Scores:
    """Metrics of `outputs`, which `predict` or a control gave for these sequences [m].

    `unit` [D] is what errors of numbers are measured in.
    """
    truth = answers_of(data, index)
    if data.kind.has_classes:
        return Scores(score_classes(outputs, truth), confusion(outputs, truth))
    metrics = score_numbers(outputs, truth, unit)
    if data.part is not None:
        part = data.part[scored_steps(data, index).row]
        for number, name in enumerate(data.parts):
            some = score_numbers(outputs[part == number], truth[part == number], unit)
            metrics[f"{name} mse"] = some["mse"]
    return Scores(metrics, None)
