"""Measure training steps by how threads wait, idle and beside other work: python tools/bench_threads.py.

Writes results/threads.json: steps a second of networks of the standard profile, with two threads as OpenMP lets
them wait, two that sleep (what the nacre command chooses), and one; alone, and beside as many busy processes as
there are processors. Every figure is of a process of its own, and all take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from measured import provenance, write_result

from nacre._util.pool import default_jobs

MODELS = ("sdpa", "nac-plus")
WAYS = {"2 threads that spin": (2, ""), "2 threads that sleep": (2, "PASSIVE"), "1 thread": (1, "")}
ROUNDS, SECONDS = 3, 4.0
_WORKER = "worker"  # first word of a process that measures


def steps(model: str, threads: int) -> float:
    """Training steps a second on sequences of 150 steps, 64 at a time."""
    import torch

    from nacre.data.dataset import Kind
    from nacre.tasks.network import TaskNetwork

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    network = TaskNetwork(model, Kind.STEP_REGRESSION, 2, 2, d_model=32, num_heads=4)
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    x, y = torch.randn(64, 150, 2), torch.randn(64, 150, 2)
    time_stamps = torch.rand(64, 150, dtype=torch.float64).sort(1).values
    done, start = -2, time.perf_counter()  # two to warm up
    while time.perf_counter() - start < SECONDS:
        optimizer.zero_grad()
        network.loss(network(x, time_stamps), y).backward()
        optimizer.step()
        done += 1
        if done == 0:
            start = time.perf_counter()
    return done / (time.perf_counter() - start)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that never wait."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def measure(model: str, threads: int, policy: str) -> float:
    """The same in a new process."""
    command = [sys.executable, __file__, _WORKER, model, str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment.pop("OMP_WAIT_POLICY", None)
    if policy:
        environment["OMP_WAIT_POLICY"] = policy
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Measure and write."""
    if sys.argv[1:2] == [_WORKER]:
        sys.stdout.write(json.dumps(steps(sys.argv[2], int(sys.argv[3]))))
        return
    result: dict[str, Any] = provenance()
    found: dict[tuple[str, str, str], list[float]] = {}
    for load, count in (("alone", 0), ("busy", default_jobs())):
        with busy(count):
            for _ in range(ROUNDS):
                for model in MODELS:
                    for way, (threads, policy) in WAYS.items():
                        found.setdefault((load, model, way), []).append(measure(model, threads, policy))
    result["steps_a_second"] = [
        {"load": load, "model": model, "way": way, "median": round(statistics.median(values), 2)}
        for (load, model, way), values in found.items()
    ]
    write_result("threads.json", result)


if __name__ == "__main__":
    main()
