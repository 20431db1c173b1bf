"""The worker: what it measures, in which order, and what it answers. No test asserts a time."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nacre.bench import system, worker
from nacre.bench.record import BenchEntry
from nacre.bench.worker import Request

MB = 1_000_000


def answer(request):
    parts = []
    worker.answer(request, parts.append)
    return parts


class Greedy(nn.Module):
    """Holds 100 MB for a moment."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.seen = []

    def forward(self, x):
        self.seen.append((x.shape[1], self.training, torch.is_inference_mode_enabled(), self.weight.grad is None))
        if x.shape[1] > worker.WARM_UP_LENGTH:
            torch.ones(100 * MB // 4)
        return x * self.weight.sum()


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch):
    """Collecting the garbage of a process that holds all tests takes long, and changes nothing here."""
    monkeypatch.setattr(system, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture
def greedy(monkeypatch):
    model = Greedy()
    monkeypatch.setattr(worker, "build", lambda name, *_: model if name == "greedy" else nn.Linear(8, 8))
    return model


# --- memory -------------------------------------------------------------------------------------------------


def test_the_peak_of_a_known_allocation():
    keep = torch.ones(5 * MB)  # 20 MB that were there before
    for size in (50 * MB, 100 * MB):
        peak = system.peak_of(lambda size=size: torch.ones(size // 4))
        assert peak is not None
        assert peak.added_bytes == pytest.approx(size, rel=0.2)
        assert peak.peak_bytes > peak.added_bytes + keep.nbytes


def test_an_earlier_peak_does_not_count():
    torch.ones(100 * MB)
    peak = system.peak_of(lambda: torch.ones(5 * MB))
    assert peak is not None
    assert peak.added_bytes == pytest.approx(20 * MB, rel=0.3)


def test_freed_memory_that_the_heap_keeps_does_not_hide_a_need():
    small = [torch.ones(20_000) for _ in range(1000)]  # 80 MB in pieces too small to be mapped one by one
    guard = torch.ones(10)
    del small
    peak = system.peak_of(lambda: [torch.ones(20_000) for _ in range(1000)])
    assert peak is not None
    assert peak.added_bytes == pytest.approx(80 * MB, rel=0.2)
    assert guard.sum() == 10


def test_no_peak_where_the_system_does_not_tell(tmp_path, monkeypatch, greedy):
    monkeypatch.setattr(system, "_PROCESS", tmp_path / "none")
    assert system.peak_of(lambda: None) is None
    system.die_first()
    parts = answer(Request(BenchEntry("greedy", 8, d_model=8), "forward", reference=None, budget=0))
    assert parts[1] == {"note": worker.NO_PEAK}
    assert parts[-1]["rounds"] == 3


# --- the answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["forward", "step"])
def test_memory_comes_first_and_at_full_size(greedy, action):
    parts = answer(Request(BenchEntry("greedy", 100, 2, 8), action, reference="torch-mha", budget=0))
    assert [sorted(p) for p in parts] == [
        ["parameters"],
        ["added_bytes", "peak_bytes"],
        *[["ratio", "rounds", "seconds", "spread"]] * 3,
    ]
    assert parts[0] == {"parameters": 3}
    assert parts[1]["added_bytes"] == pytest.approx(100 * MB, rel=0.2)
    training = action == "step"
    assert greedy.seen == [(n, training, not training, True) for n in (64, 100, 100, 100, 100)]


def test_rounds_alternate_and_the_ratio_is_of_rounds():
    order, reference, model = [], iter([1.0, 2.0, 4.0]), iter([3.0, 2.0, 8.0])
    parts = []
    worker._time(
        lambda: order.append("m") or next(model), lambda: order.append("r") or next(reference), 0, parts.append
    )
    assert "".join(order) == "rmrmrm"
    assert parts[-1] == {"seconds": 3.0, "spread": 3.0, "rounds": 3, "ratio": 2.0}
    assert parts[0] == {"seconds": 3.0, "spread": None, "rounds": 1, "ratio": 3.0}


def test_rounds_end_with_the_budget_or_their_number(monkeypatch):
    clock = [100]
    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def second():
        clock[0] += 1
        return 1.0

    for budget, rounds in ((0, 3), (6, 6), (1e6, worker.MAX_ROUNDS)):
        parts = []
        worker._time(second, None, budget, parts.append)
        assert len(parts) == parts[-1]["rounds"] == rounds
        assert parts[-1]["ratio"] is None


def test_a_request_survives_json():
    request = Request(BenchEntry("nac", 77, 2, 8, 1), "step", reference="torch-mha", budget=1.5, threads=2)
    assert Request.from_json(request.to_json()) == request


@pytest.mark.slow
def test_what_a_library_prints_is_not_part_of_the_answer():
    code = """
import os, sys, torch
from nacre.bench import worker
class Loud(torch.nn.Linear):
    def forward(self, x):
        print('{"seconds": "nonsense"}', flush=True)
        os.system("echo more")
        return super().forward(x)
worker.build = lambda *_: Loud(8, 8)
worker.main()
assert torch.get_num_threads() == 3
assert open("/proc/self/oom_score_adj").read().strip() == "1000"
"""
    request = Request(BenchEntry("loud", 8, d_model=8), "forward", reference=None, budget=0, threads=3)
    done = subprocess.run(
        [sys.executable, "-c", code], input=request.to_json(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    parts = [json.loads(line) for line in done.stdout.splitlines()]
    assert parts[0] == {"parameters": 72}
    assert all(isinstance(p["seconds"], float) for p in parts[2:])
    assert "more" in done.stderr
