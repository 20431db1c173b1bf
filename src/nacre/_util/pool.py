"""Work in several processes, with a progress bar."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

import torch
from rich.console import Console

from nacre._util.progress import bars

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(
    work: Callable[[_Item], _Result], items: Sequence[_Item], jobs: int, console: Console, what: str
) -> Iterator[tuple[_Item, _Result]]:
    """Items with their results, in the order of completion.

    One job works in this process. Several jobs need a `work` that other processes can import, and items they can
    unpickle; Ctrl-C ends them all. `what` describes the bar.
    """
    with bars(console) as progress:
        bar = progress.add_task(what, total=len(items), loss="")
        if min(jobs, len(items)) <= 1:
            for item in items:
                yield item, work(item)
                progress.advance(bar)
            return
        # Not forked: threads of torch and pygame do not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(items)), context, torch.set_num_threads, (1,)) as pool:
            futures = {pool.submit(work, item): item for item in items}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
                    progress.advance(bar)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise


def default_jobs() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
