"""Many pieces of work at once, in several processes, with a progress bar."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from rich.console import Console

from nacre._util.progress import bars

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(
    work: Callable[[_Item], _Result], items: Sequence[_Item], jobs: int, console: Console, what: str
) -> Iterator[tuple[_Item, _Result]]:
    """Results in the order in which they get ready, each with what it is of.

    Work with one job is done in this process. Ctrl-C ends the others, too.

    Args:
        work: A function of a module, which other processes can import.
        items: What to do it with; plain data.
        jobs: Processes at once.
        console: Where the bar is shown.
        what: Description of the bar.
    """
    with bars(console) as progress:
        bar = progress.add_task(what, total=len(items), loss="")
        if min(jobs, len(items)) <= 1:
            for item in items:
                yield item, work(item)
                progress.advance(bar)
            return
        # Not forked: threads of torch and pygame do not survive that.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(items)), context, initializer=_one_thread) as pool:
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
    """One process for each processor that we may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
