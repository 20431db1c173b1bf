"""What Lightning trains: a network, its loss and its optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lightning as L
import torch

from nacre.tasks.answers import scored

if TYPE_CHECKING:
    from torch import Tensor

    from nacre.data.dataset import Batch
    from nacre.tasks.network import TaskNetwork
    from nacre.tasks.recipe import TrainingRecipe

VALID_LOSS = "valid_loss"
TRAIN_LOSS = "train_loss"


class Training(L.LightningModule):
    """A network in training.

    Args:
        network: The network.
        recipe: Optimiser, learning rate, weight decay.
        seed: Seed of what is random while training, which is dropout.
    """

    def __init__(self, network: TaskNetwork, recipe: TrainingRecipe, seed: int) -> None:
        super().__init__()
        self.network = network
        self.recipe = recipe
        self.seed = seed

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the same numbers in a step whether training was interrupted before it or not.

        Not once a round: Lightning itself draws at its start, but not in a round that training goes on with.
        """
        torch.manual_seed(self.seed * 1_000_003 + self.global_step)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch, with what the layer itself adds."""
        loss, _ = self._loss(batch)
        self.log(TRAIN_LOSS, loss.detach(), on_step=False, on_epoch=True, batch_size=1)
        aux = self.network.layer.aux_loss
        return loss if aux is None else loss + aux  # pyright: ignore[reportReturnType, reportOperatorIssue]

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Mean loss over all scored answers of the validation part, however they fall into batches."""
        loss, answers = self._loss(batch)
        self.log(VALID_LOSS, loss, on_epoch=True, batch_size=answers)

    def _loss(self, batch: Batch) -> tuple[Tensor, int]:
        out = self.network(batch.x, batch.time, batch.key_padding_mask)
        return self.network.loss(out, batch.y), int(scored(batch, self.network.kind).sum())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The recipe's optimiser over all parameters."""
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.recipe.optimizer]
        return kind(self.parameters(), lr=self.recipe.lr, weight_decay=self.recipe.weight_decay)
