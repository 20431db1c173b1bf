"""The processes that train one cell: alone, or several in step under one leader."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from nacre.train.scale.options import Processes
from nacre.train.scale.torchrun import end_with_parent, under_torchrun

FAILURES = (ValueError, RuntimeError, MemoryError)  # of a cell; the grid reports them and goes on
_WAIT = timedelta(days=7)  # for the leader, which runs controls and tests without the others
_LATE = timedelta(seconds=60)  # for the others to reach the barrier after a step


class WorkerGroup:
    """A group of one process: nothing has to be communicated."""

    rank = 0  # of this process
    processes = Processes()

    @property
    def size(self) -> int:
        """How many processes."""
        return self.processes.size

    @property
    def leads(self) -> bool:
        """Whether this process is the leader, which decides, writes and prints."""
        return self.rank == 0

    def begin(self) -> None:
        """The leader tells the others to train this cell with it."""

    def end(self) -> None:
        """The leader has finished a cell; if training never began, the others skip it."""

    def called(self) -> bool:
        """Whether the leader wants the others to train the next cell, too."""
        raise RuntimeError("a process on its own is never called")

    def broadcast(self, text: str) -> str:
        """The text of the leader, in all processes."""
        return text

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Context of work that all processes do together: an error of one of them is an error of all."""
        yield


ALONE = WorkerGroup()


class DistributedGroup(WorkerGroup):
    """Several processes. Messages have a `ProcessGroup` of their own, because they may have to wait for days."""

    def __init__(self, rank: int, processes: Processes, messages: ProcessGroup) -> None:
        self.rank, self.processes, self.messages = rank, processes, messages
        self._begun = False

    def begin(self) -> None:  # noqa: D102
        self._begun = True
        self.broadcast("train")

    def end(self) -> None:  # noqa: D102
        if not self._begun:
            self.broadcast("skip")
        self._begun = False

    def called(self) -> bool:  # noqa: D102
        return self.broadcast("") == "train"

    def broadcast(self, text: str) -> str:  # noqa: D102
        message = [text]
        dist.broadcast_object_list(message, src=0, group=self.messages)
        return message[0]

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Context of work that all processes do together: an error of one of them is an error of all.

        Raises:
            RuntimeError: With what went wrong in each process, if it did in any.
            ConnectionError: If one failed during a step: the others cannot be reached any more.
        """
        failure: BaseException | None = None
        try:
            yield
        except (*FAILURES, OSError) as error:
            failure = error
        said = self._gather("" if failure is None else str(failure) or type(failure).__name__)
        if failure is not None and len(set(said)) == 1:
            raise failure
        if any(said):
            parts = [f"process {rank}: {text}" for rank, text in enumerate(said) if text]
            raise RuntimeError("; ".join(parts)) from failure

    def _gather(self, text: str) -> list[str]:
        """The text of each process."""
        try:
            dist.monitored_barrier(group=self.messages, timeout=_LATE)
        except RuntimeError as error:
            raise ConnectionError(
                f"process {self.rank} lost the others ({text or error}); "
                "all of them end, start again to go on from the last checkpoint"
            ) from None
        found = [""] * self.size
        dist.all_gather_object(found, text, group=self.messages)
        return found


@contextmanager
def join_group(processes: Processes) -> Iterator[WorkerGroup]:
    """This process alone, or with the others that torchrun started.

    Raises:
        ValueError: If torchrun started others than the command asks for.
    """
    if under_torchrun():
        _check_world(processes)
    if not under_torchrun() or processes.size == 1:
        yield ALONE
        return
    end_with_parent()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    messages = dist.new_group(backend="gloo", timeout=_WAIT)
    assert isinstance(messages, ProcessGroup)
    group = DistributedGroup(dist.get_rank(), processes, messages)
    del messages
    yield group
    # Gloo's threads end with the last reference to their group. One that frees a message while Python shuts down
    # would abort the process, and torchrun would then stop the others.
    del group.messages
    dist.destroy_process_group()  # not after an error: the others may not come


def _check_world(processes: Processes) -> None:
    size, local = (int(os.environ[name]) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if (local, size) == (processes.devices, processes.size):
        return
    if os.environ["RANK"] != "0":
        raise SystemExit  # one of them says it
    raise ValueError(
        f"torchrun started {size} processes, {local} on this node, but the command says --devices "
        f"{processes.devices} --nodes {processes.nodes}; --devices must be --nproc-per-node, --nodes --nnodes"
    )
