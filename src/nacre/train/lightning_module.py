"""What Lightning trains: a network, its loss and its optimiser."""

import math
from functools import partial

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from nacre.data.batches import part_of
from nacre.data.dataset import UNSCORED, Batch, Kind, is_scored
from nacre.tasks.losses import Loss
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe_sections import Schedule, TrainingRecipe
from nacre.train.scale.worker_group import ALONE, WorkerGroup

VALID_LOSS = "valid_loss"
TRAIN_LOSS = "train_loss"
_APART = 0x9E3779B1  # distance of the seeds of processes; a CPU's generator uses the lowest 32 bits


class Training(L.LightningModule):
    """A network in training, by default for its own loss.

    The seed is that of dropout, `steps` is when the learning rate has fallen to 0.

    Several processes each take a part of every batch, and weigh its loss so that the mean over the processes is
    the loss of the whole batch: gradients and logged losses are those of one process.
    """

    def __init__(
        self,
        network: TaskNetwork,
        recipe: TrainingRecipe,
        seed: int,
        steps: int,
        group: WorkerGroup = ALONE,
        loss: Loss | None = None,
    ) -> None:
        super().__init__()
        self.loss = loss or network.loss
        self.network, self.recipe, self.seed, self.steps, self.group = network, recipe, seed, steps, group

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the same numbers in a step whether training was interrupted before it or not.

        Not once a round: Lightning itself draws at its start, but not in a round that is resumed. Each process has
        its own dropout.
        """
        seed = self.seed * 1_000_003 + self.global_step + self.group.rank * _APART
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # seeding all kinds of devices takes longer
        else:
            torch.manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch, with what the layer itself adds."""
        loss = self._loss(batch)
        several = self.group.size > 1
        self.log(TRAIN_LOSS, loss.detach(), on_step=False, on_epoch=True, batch_size=1, sync_dist=several)
        aux: Tensor | None = getattr(self.network.layer, "aux_loss", None)  # models of others need not have it
        if aux is None:
            return loss
        return loss + (self._weighted(aux, self._tokens(batch)) if several else aux)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Mean loss over all scored answers of the validation part, however they fall into batches."""
        kind = self.network.kind
        counted = ~batch.y.isnan() if kind is Kind.FORECASTING else is_scored(batch.y, kind)
        answers = int(counted.sum())  # of the whole batch, in every process
        self.log(VALID_LOSS, self._loss(batch), on_epoch=True, batch_size=answers, sync_dist=self.group.size > 1)

    def _loss(self, batch: Batch) -> Tensor:
        """What this process adds to the mean loss of a batch: all of it, if it is alone."""
        group = self.group
        part = batch if group.size == 1 else part_of(batch, group.rank, group.size)
        out = self.network(part.x, part.time, part.key_padding_mask, query_only=part.query_only)
        loss = self.loss(out, part.y)
        if group.size == 1:
            return loss
        counted = batch.y != UNSCORED if self.network.kind.has_classes else ~batch.y.isnan()  # as the loss counts
        return self._weighted(loss, counted.flatten(1).sum(1) if counted.dim() > 1 else counted.long())

    def _weighted(self, mean: Tensor, counts: Tensor) -> Tensor:
        """A mean over this process's part of a batch, weighted so that the mean over processes is the batch's.

        `counts` [B] says how much counts in each sequence of the whole batch.
        """
        here = counts[self.group.rank :: self.group.size].sum()  # 0 where the part stands in for a missing one
        return mean * (here * self.group.size).to(mean.dtype) / counts.sum().clamp(min=1)

    def _tokens(self, batch: Batch) -> Tensor:
        """[B] steps that the layer sees of each sequence, which strided convolutions make fewer."""
        padding, front = batch.key_padding_mask, self.network.front
        if any(stride > 1 for _, stride in front.shapes):
            blank = batch.x.new_zeros(*padding.shape, front.d_input)
            with torch.no_grad():
                padding = front(blank, batch.time, padding)[2]
        return (~padding).sum(1)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The recipe's optimiser over all parameters, and the course of its learning rate."""
        recipe = self.recipe
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer]
        optimizer = kind(self.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
        share = partial(rate_share, recipe=recipe, steps=self.steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def rate_share(step: int, recipe: TrainingRecipe, steps: int) -> float:
    """Share of the recipe's learning rate at a step of so many.

    Example:
        >>> from nacre.tasks.recipe_sections import TrainingRecipe
        >>> recipe = TrainingRecipe(warmup=0.1)
        >>> [round(rate_share(step, recipe, 100), 2) for step in (0, 4, 9, 54, 99)]
        [0.1, 0.5, 1.0, 0.5, 0.0]
    """
    if recipe.schedule == Schedule.CONSTANT:
        return 1.0
    warmup = recipe.warmup * steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    done = (step + 1 - warmup) / max(steps - warmup, 1)
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
