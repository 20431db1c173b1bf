"""Lightning's strategy for the processes of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning.pytorch.plugins import DoublePrecision
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

from nacre.tasks.recipe import Precision
from nacre.train.scale.options import Strategy

if TYPE_CHECKING:
    from lightning.pytorch.strategies import Strategy as LightningStrategy

    from nacre.train.scale.options import Processes


def strategy_of(processes: Processes) -> LightningStrategy | str:
    """How Lightning trains in these processes; "auto" for one."""
    if processes.size == 1:
        return "auto"
    if processes.strategy is Strategy.FSDP:
        # Torch's fully_shard: Lightning's FSDPStrategy has the older one, which knows no CPUs. A checkpoint is one
        # whole file, as without it, so that each kind of run can go on from any other.
        return ModelParallelStrategy(
            data_parallel_size=processes.size, tensor_parallel_size=1, save_distributed_checkpoint=False
        )
    return DDPStrategy()


def plugins_of(processes: Processes, precision: Precision) -> list[DoublePrecision]:
    """What Lightning needs beside the strategy: it takes double precision for FSDP only this way."""
    doubled = processes.strategy is Strategy.FSDP and precision is Precision.FLOAT64
    return [DoublePrecision()] if doubled else []
