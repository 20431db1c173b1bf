"""A run: what becomes of workers, what is kept, and what a later run takes from it."""

import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from nacre.bench import measure, process, system
from nacre.bench.files import read_record
from nacre.bench.measure import BenchLog, Settings, measure_all
from nacre.bench.record import BenchEntry, BenchResult, Cost
from nacre.bench.worker import Request

FAKE = (sys.executable, "-S", str(Path(__file__).parents[1] / "support" / "bench_worker.py"))


@pytest.fixture(autouse=True)
def _fake(monkeypatch, tmp_path):
    """The fake worker, marked by a variable of its environment."""
    monkeypatch.setattr(process, "WORKER", FAKE)
    monkeypatch.setenv("BENCH_TEST_LOG", str(tmp_path / "calls.txt"))


def run_worker(model, time_limit=30.0):
    return process.run_worker(
        Request(BenchEntry(model, 1000), "forward", reference="torch-mha", budget=0), time_limit
    )


def run(out, models, lengths=(64,), *, resume=False, **options):
    settings = Settings(tuple(models), tuple(lengths), **options)
    log = BenchLog(out / "bench", settings, resume=resume)
    screen = io.StringIO()
    measure_all(log, settings, Console(file=screen))
    assert f"{2 * len(settings.entries())}/{2 * len(settings.entries())}" in screen.getvalue()
    return {(r.entry.model, r.entry.length): r for r in read_record(out / "bench.json").results}


# --- one worker ---------------------------------------------------------------------------------------------


def test_a_good_answer():
    cost, parameters = run_worker("good")
    assert parameters == 10
    seconds = 1e-6 * 1000**1.5
    assert cost == Cost("ok", "", seconds, seconds / 10, 3, 2.0, 101_000_000, 1_000_000)


def test_workers_that_do_not_end_are_cut_off_with_all_their_children_and_what_came_is_kept():
    with ThreadPoolExecutor(2) as both:  # so that they are waited for at the same time
        sleeper, late = both.map(lambda model: run_worker(model, time_limit=1.0), ("sleeper", "late"))
    cost, parameters = sleeper
    assert (cost.state, cost.rounds, parameters) == ("out of time", 1, 10)
    assert cost.seconds == pytest.approx(1e-6 * 1000**1.5)
    assert cost.added_bytes == 1_000_000
    assert (late[0].state, late[0].rounds) == ("ok", 3)  # it had done all its rounds
    for _ in range(100):
        if not survivors():
            break
        time.sleep(0.05)
    assert survivors() == []


def survivors():
    """Processes other than this one that belong to the test, found by a variable in their environment."""
    mark = f"BENCH_TEST_LOG={os.environ['BENCH_TEST_LOG']}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def test_other_ends():
    for model, state, note in (
        ("killed", "out of memory", "the system ended the process"),
        ("greedy", "out of memory", "can't allocate memory"),
        ("memoryless", "out of memory", "MemoryError"),
        ("failing", "failed", "RuntimeError: no such luck"),
        ("aborted", "failed", "ended by SIGABRT"),
        ("silent", "failed", "without an answer"),
    ):
        cost, parameters = run_worker(model)
        assert (cost.state, parameters) == (state, 10), model
        assert note in cost.note, model
        assert cost.seconds is None, model
        assert cost.added_bytes == 1_000_000, model


def test_a_worker_does_not_outlive_the_run():
    worker = (  # without an import of torch, which takes seconds
        f"import runpy, time; runpy.run_path({system.__file__!r})['die_with_parent'](); "
        "print(flush=True); time.sleep(600)"
    )
    parent = (
        "import subprocess, sys; "
        f"p = subprocess.Popen([sys.executable, '-c', {worker!r}], stdout=-1, start_new_session=True); "
        "p.stdout.readline(); print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as running:
        assert running.stdout.readline().strip().decode() in survivors()
        running.kill()
    for _ in range(100):
        if not survivors():
            break
        time.sleep(0.05)
    assert survivors() == []


def test_threads_are_set_before_libraries_load(monkeypatch):
    code = (
        "import json, os; n = [int(os.environ[v]) for v in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS')];"
        "print(json.dumps({'parameters': n}))"
    )
    monkeypatch.setattr(process, "WORKER", (sys.executable, "-c", code))
    request = Request(BenchEntry("x", 8), "forward", reference="torch-mha", budget=0, threads=3)
    assert process.run_worker(request, 30)[1] == [3, 3]


# --- a run --------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """A worker in this process, and what was asked of it: "failing@step" fails in training steps only."""
    asked = []

    def work(request, time_limit):
        asked.append(f"{request.entry.model} {request.entry.length} {request.action}")
        name, _, which = request.entry.model.partition("@")
        if which in ("", request.action):
            if name == "failing":
                return Cost("failed"), 10
            if name == "greedy" and request.entry.length > 100:
                return Cost("out of memory"), 10
        return Cost("ok", seconds=1.0, rounds=3, ratio=2.0 if request.reference else None), 10

    monkeypatch.setattr(measure, "run_worker", work)
    return asked


@pytest.mark.slow
def test_no_entry_ends_the_run(tmp_path):
    results = run(tmp_path, ["killed", "failing", "sleeper@step", "good"], time_limit=1.0)
    states = {model: (r.forward.state, r.step.state) for (model, _), r in results.items()}
    assert states == {
        "killed": ("out of memory", "out of memory"),
        "failing": ("failed", "failed"),
        "sleeper@step": ("ok", "out of time"),
        "good": ("ok", "ok"),
    }
    assert results["sleeper@step", 64].forward.ratio == 2.0
    assert all(r.parameters == 10 for r in results.values())


def test_a_sweep_skips_longer_lengths_of_what_ran_out(tmp_path, asked):
    results = run(tmp_path, ["greedy@step", "failing", "good"], (50, 200, 100, 400), sweep=True)
    assert [r.step.state for (m, _), r in results.items() if m == "greedy@step"] == [
        *["ok", "ok", "out of memory"],
        "skipped: out of memory at 200",
    ]
    assert [r.forward.state for (m, _), r in results.items() if m == "greedy@step"] == ["ok"] * 4
    assert [r.step.state for (m, _), r in results.items() if m == "failing"] == ["failed"] * 4
    assert "greedy@step 400 step" not in asked
    assert "greedy@step 400 forward" in asked
    assert results["good", 400].forward.ratio is None  # nothing beside it
    assert [length for _, length in results] == [50] * 3 + [100] * 3 + [200] * 3 + [400] * 3


def test_the_table_goes_on_at_longer_lengths(tmp_path, asked):
    run(tmp_path, ["greedy"], (200, 400))
    assert asked == [f"greedy {n} {a}" for n in (200, 400) for a in ("forward", "step")]


def test_the_budget_leaves_time_for_the_rest(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "run_worker", lambda request, limit: seen.append(request) or (Cost("ok"), 1))
    for limit in (4.0, 1000.0):
        run(tmp_path, ["good"], time_limit=limit)
    assert [r.budget for r in seen] == [1.0, 1.0, measure.BUDGET, measure.BUDGET]


def test_resume_measures_only_what_is_not_ok(tmp_path, asked):
    run(tmp_path, ["good", "failing@step"], resume=True)  # there is no file yet
    asked.clear()
    results = run(tmp_path, ["good", "failing@step", "fine"], resume=True, time_limit=99.0)
    assert asked == ["failing@step 64 step", "fine 64 forward", "fine 64 step"]
    assert [m for m, _ in results] == ["good", "failing@step", "fine"]
    assert results["failing@step", 64].forward.state == "ok"


def test_without_resume_a_run_starts_anew(tmp_path, asked):
    run(tmp_path, ["good", "fine"])
    assert list(run(tmp_path, ["fine"])) == [("fine", 64)]
    assert asked[-2:] == ["fine 64 forward", "fine 64 step"]


@pytest.mark.usefixtures("asked")
def test_resume_refuses_other_settings_other_code_and_other_files(tmp_path):
    run(tmp_path, ["good"])
    for name, value in {"batch": 2, "d_model": 32, "num_heads": 2, "threads": 7}.items():
        with pytest.raises(ValueError, match=f"cannot go on with .*{name}=.*without --resume"):
            run(tmp_path, ["good"], resume=True, **{name: value})
    path = tmp_path / "bench.json"
    data = json.loads(path.read_text())
    data["provenance"]["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="torch='1.0'"):
        run(tmp_path, ["good"], resume=True)
    for text in ("{}", "no json", '{"format": 99}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="not a record of nacre bench"):
            run(tmp_path, ["good"], resume=True)


def test_an_interrupt_leaves_a_whole_file_and_no_process(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, ["good", "interrupting@step", "never"])
    results = {r.entry.model: r for r in read_record(tmp_path / "bench.json").results}
    assert [(r.forward.state, r.step.state) for r in results.values()] == [("ok", "ok"), ("ok", "not run")]
    assert sorted(p.suffix for p in tmp_path.glob("*bench*")) == [".csv", ".json"]
    assert survivors() == []


def test_bad_settings_are_refused():
    for options, message in (
        ({"batch": 0}, "batch must be at least 1"),
        ({"lengths": (0,)}, "lengths must be at least 1"),
        ({"num_heads": 5}, "multiple of num_heads"),
        ({"threads": 0}, "threads must be"),
        ({"time_limit": 0.0}, "time_limit must lie"),
    ):
        with pytest.raises(ValueError, match=message):
            Settings(**{"models": ("nac",), "lengths": (64,), **options})


def test_throughput_counts_the_steps_of_all_sequences():
    result = BenchResult(BenchEntry("nac", 100, batch=8), forward=Cost("ok", seconds=0.5))
    assert result.throughput("forward") == 1600
    assert result.throughput("step") is None
