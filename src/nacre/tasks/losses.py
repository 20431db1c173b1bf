"""What training lessens, where a recipe asks for another loss than that of `TaskNetwork`, or weighs classes."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from nacre._util.foreign_code import import_reference, is_reference, source_checksum
from nacre.data.dataset import UNSCORED, Dataset, Kind, is_scored
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe_sections import TrainingRecipe

ENTRY_POINTS = "nacre.losses"
Loss = Callable[[Tensor, Tensor], Tensor]  # outputs and answers of a batch to their mean loss


def check_loss(recipe: TrainingRecipe, data: Dataset) -> None:
    """Refuse a loss or weights that make no sense for a data set."""
    kind, weights = data.kind, recipe.class_weights
    numbers = kind.has_numbers
    if recipe.loss and not is_reference(recipe.loss) and not numbers:
        raise ValueError(
            f"training.loss {recipe.loss!r} is one of numbers, but {data.name} is {kind}; leave it out, or name a "
            "function of your own, package.module:function"
        )
    if not weights:
        return
    if numbers or is_reference(recipe.loss):
        why = f"{data.name} is {kind}" if numbers else "a loss of your own weighs classes itself"
        raise ValueError(f"training.class_weights is for classes and the loss of nacre; {why}; leave it out")
    if not isinstance(weights, str) and len(weights) != data.outputs:
        names = ", ".join(data.classes or data.targets)
        raise ValueError(f"training.class_weights must hold {data.outputs} weights ({names}), got {len(weights)}")


def loss_of(recipe: TrainingRecipe, network: TaskNetwork, data: Dataset, train: Tensor) -> Loss:
    """The loss of a recipe for a network; weights of classes are taken from these training sequences [n].

    Every loss is a mean over the scored answers of a batch, and 0 where there are none. Errors of numbers are in
    units of the answers' spread. Weights have the mean 1 over the training answers.
    """
    check_loss(recipe, data)
    if is_reference(recipe.loss):
        return partial(_own, import_reference(recipe.loss, ENTRY_POINTS), recipe.loss, network)
    if recipe.loss == "quantile":
        return partial(_pinball, torch.tensor(recipe.quantiles), network)
    if recipe.loss:
        return partial(_absolute if recipe.loss == "mae" else _huber, network)
    if recipe.class_weights:
        weigh = _weighted_labels if data.kind is Kind.MULTI_LABEL else _weighted_classes
        return partial(weigh, class_weights(recipe.class_weights, data, train))
    return network.loss


def loss_source(recipe: TrainingRecipe) -> str:
    """Checksum of the file of a loss of one's own, part of a cell's fingerprint; empty for those of nacre."""
    return source_checksum(import_reference(recipe.loss, ENTRY_POINTS)) if is_reference(recipe.loss) else ""


def class_weights(wanted: str | tuple[float, ...], data: Dataset, train: Tensor) -> Tensor:
    """[C] weights of classes, mean 1 over these sequences' answers; for labels [D], what a yes counts beside a no.

    "balanced" gives all classes, or yes and no of each label, the same total weight.

    Example:
        >>> from nacre.data import from_arrays
        >>> data = from_arrays([[1.0], [2.0], [3.0], [4.0]], ["a", "a", "a", "b"])
        >>> class_weights("balanced", data, torch.arange(4))
        tensor([0.6667, 2.0000])
    """
    answers = data.answers(train)
    if data.kind is Kind.MULTI_LABEL:
        if not isinstance(wanted, str):
            return torch.tensor(wanted)
        yes = answers.sum(0)
        return (len(answers) - yes) / yes.clamp(min=1)
    counts = answers.bincount(minlength=len(data.classes)).float()
    weights = 1 / counts.clamp(min=1) if isinstance(wanted, str) else torch.tensor(wanted)
    return weights * counts.sum() / (weights * counts).sum()


def _weighted_classes(weights: Tensor, out: Tensor, y: Tensor) -> Tensor:
    total = F.cross_entropy(
        out.flatten(0, -2), y.flatten(), weight=weights.to(out), ignore_index=UNSCORED, reduction="sum"
    )
    return total / (y != UNSCORED).sum().clamp(min=1)


def _weighted_labels(weights: Tensor, out: Tensor, y: Tensor) -> Tensor:
    scored = ~y.isnan()
    each = F.binary_cross_entropy_with_logits(out, y.nan_to_num(), pos_weight=weights.to(out), reduction="none")
    return _mean(each, scored)


def _absolute(network: TaskNetwork, out: Tensor, y: Tensor) -> Tensor:
    error, scored = _errors(network, out, y)
    return _mean(error.abs(), scored)


def _huber(network: TaskNetwork, out: Tensor, y: Tensor) -> Tensor:
    error, scored = _errors(network, out, y)
    return _mean(F.huber_loss(error, torch.zeros_like(error), reduction="none"), scored)


def _pinball(levels: Tensor, network: TaskNetwork, out: Tensor, y: Tensor) -> Tensor:
    out = out.unflatten(-1, (y.shape[-1], len(levels)))  # [..., D, Q]
    scored = ~y.isnan()
    error = (y.nan_to_num().unsqueeze(-1) - out) / network.y_scale.unsqueeze(-1)
    level = levels.to(out)
    return _mean(torch.maximum(level * error, (level - 1) * error).mean(-1), scored)


def _own(function: Loss, name: str, network: TaskNetwork, out: Tensor, y: Tensor) -> Tensor:
    """A loss of one's own sees scored answers [m] alone, numbers divided by the spread of the training answers."""
    scored = is_scored(y, network.kind)
    if not scored.any():
        return out.sum() * 0.0
    out, y = out[scored], y[scored]
    if network.kind.has_numbers:
        out, y = out / network.y_scale, y / network.y_scale
    loss = function(out, y)
    if not isinstance(loss, Tensor) or not (loss.dim() == 0 or loss.shape[0] == len(y)):
        came = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(
            f"the loss {name!r} must give one number, or one for each of the {len(y)} answers, got {came}"
        )
    return loss.mean()


def _errors(network: TaskNetwork, out: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Errors in units of the answers' spread, 0 where nothing is scored, and what is scored."""
    scored = ~y.isnan()
    return torch.where(scored, out - y.nan_to_num(), 0.0) / network.y_scale, scored


def _mean(each: Tensor, scored: Tensor) -> Tensor:
    return torch.where(scored, each, 0.0).sum() / scored.sum().clamp(min=1)
