"""Lightning callbacks that spoil or interrupt a run."""

import lightning as L
import pytest
import torch

from nacre.train.run_cell import run_cell


class Break(L.Callback):
    """Spoils a weight at the start of a round."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_epoch_start(self, trainer, module):
        if trainer.current_epoch == self.epoch:
            with torch.no_grad():
                next(module.network.head.parameters()).fill_(float("nan"))


class Crash(L.Callback):
    """Raises as soon as a number of steps is taken, or at the end of training."""

    def __init__(self, step=0, at_the_end=False):
        self.step, self.at_the_end = step, at_the_end

    def on_train_batch_end(self, trainer, *args):
        if not self.at_the_end and trainer.global_step == self.step:
            raise RuntimeError("the lights went out")

    def on_train_end(self, trainer, module):
        if self.at_the_end:
            raise RuntimeError("the lights went out")


def crash(one, *callbacks):
    """Run a cell into a crash."""
    with pytest.raises(RuntimeError, match="the lights went out"):
        run_cell(one, callbacks)
    assert not (one.directory / "result.json").exists()
