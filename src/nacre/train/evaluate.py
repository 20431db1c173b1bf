"""Predictions of a network, and their metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre.data.batches import by_length
from nacre.data.dataset import Dataset, Kind, is_scored
from nacre.tasks.further_metrics import middle, score_labels, score_probabilities, score_quantities
from nacre.tasks.metrics import (
    answers_of,
    confusion,
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
    notes: tuple[str, ...] = ()  # on metrics that are not defined


@torch.no_grad()
def all_outputs(
    network: TaskNetwork, data: Dataset, index: Tensor, done: Callable[[int], None] = lambda count: None
) -> Tensor:
    """Outputs [answers, outputs] for these sequences [m], in their order; each step, one after the other.

    Batch by batch, into one table: nothing else grows with the number of sequences. After each batch, `done` gets
    the number of its sequences. The network is left in evaluation mode.
    """
    network.eval()
    length = data.length[index] if data.kind.each_step else torch.ones_like(index)
    begin = length.cumsum(0) - length
    outputs = torch.empty(0, data.outputs)
    for place in by_length(data.length[index], torch.arange(len(index)), BATCH):  # places in the index
        batch = data.batch(index[place])
        out = network(batch.x, batch.time, batch.key_padding_mask, query_only=batch.query_only)
        if not len(outputs):
            outputs = out.new_empty(int(length.sum()), out.shape[-1])
        if data.kind.each_step:
            valid = ~batch.key_padding_mask
            step = begin[place].unsqueeze(1) + torch.arange(out.shape[1])  # [B, T]
            outputs[step[valid]] = out[valid]
        else:
            outputs[place] = out
        done(len(place))
    return outputs


def outputs_of(network: TaskNetwork, data: Dataset, index: Tensor) -> list[Tensor]:
    """Outputs for these sequences [m], in their order: [1, outputs] or, each step, [T, outputs] for each."""
    steps = data.length[index].tolist() if data.kind.each_step else 1
    return list(all_outputs(network, data, index).split(steps))


def predict(network: TaskNetwork, data: Dataset, index: Tensor) -> Tensor:
    """What a network says of all scored answers, in the order of `nacre.tasks.metrics`.

    Returns:
        Probabilities of classes [m, C] or labels [m, D], float64; numbers [m, D], or their Q quantiles [m, D * Q].
    """
    outputs = all_outputs(network, data, index)
    row = steps_of(data, index).row if data.kind.each_step else index
    return probable(outputs[is_scored(data.y[row], data.kind)], data.kind)


def probable(outputs: Tensor, kind: Kind) -> Tensor:
    """Probabilities of logits, in double precision, which keeps their order; numbers as they are."""
    if kind.has_classes:
        return outputs.double().softmax(-1)
    return outputs.double().sigmoid() if kind is Kind.MULTI_LABEL else outputs


def score(data: Dataset, index: Tensor, outputs: Tensor, unit: Tensor, levels: Sequence[float] = ()) -> Scores:
    """Metrics of `outputs`, which `predict` or a control gave for these sequences [m].

    Args:
        data: The data set.
        index: [m] sequences.
        outputs: Probabilities of classes or labels, numbers, or quantiles of numbers.
        unit: [D] what errors of numbers are measured in.
        levels: The quantiles that the loss asks for; none for one value.
    """
    truth = answers_of(data, index)
    if data.kind.has_classes:
        more = score_probabilities(outputs, truth, data.classes)
        return Scores(score_classes(outputs, truth) | more.metrics, confusion(outputs, truth), more.notes)
    if data.kind is Kind.MULTI_LABEL:
        labels = score_labels(outputs, truth, data.targets)
        return Scores(labels.metrics, None, labels.notes)
    point = middle(outputs, data.outputs, levels)
    more = score_quantities(outputs, truth, unit, levels)
    metrics = score_numbers(point, truth, unit) | more.metrics
    if data.part is not None:
        part = data.part[scored_steps(data, index).row]
        for number, name in enumerate(data.parts):
            some = score_numbers(point[part == number], truth[part == number], unit)
            metrics[f"{name} mse"] = some["mse"]
    return Scores(metrics, None, more.notes)
