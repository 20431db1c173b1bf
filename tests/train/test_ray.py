"""The grid on Ray, on a real cluster of two workers: the same runs as without it, whatever dies meanwhile.

`make test` starts one cluster, in this process; all that needs another one is part of `make test-deep`.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task
from nacre.train.grid import run_grid
from nacre.train.scale import ray_cluster, ray_grid
from nacre.train.scale.options import Cluster, Executor, Scale
from nacre.train.scale.ray_cluster import joined
from support.process import killed_at_end
from support.train import (
    MODEL,
    cell,
    files_below,
    free_port,
    on,
    outcome,
    read_log,
    result_of,
    tiny,
    weights_of,
)

SOURCE = Path(__file__).parents[2] / "src"
# Ray leaves sockets and files of its own to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# With a real cluster.


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), "COLUMNS": "200"}


@pytest.fixture(scope="module", autouse=True)
def _token():
    """All clusters ask for a token, as clusters should. One for all: Ray reads it once in a process."""
    from ray import _raylet as raylet  # here, so that other tests need not wait for it

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # or Ray makes one in the home directory
        raylet.Config.initialize("")  # Ray may have been imported before
        yield
    raylet.Config.initialize("")


@pytest.fixture(scope="module")
def cluster():
    """Address of a cluster of two CPUs."""
    with pytest.MonkeyPatch.context() as patch:
        port = free_port()
        command = (
            f"start --head --block --port {port} --num-cpus 2 --include-dashboard false --disable-usage-stats"
        )
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *command.split(), "--include-dashboard", "false"],
            env=environment(),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in head.stdout:
            if "block forever" in line:
                break
        else:
            pytest.fail(f"ray start ended with {head.wait()}")
        assert ray_cluster.what_is_wrong(f"127.0.0.1:{port}") == ""
        patch.setattr(ray_cluster, "what_is_wrong", lambda address: "")  # which takes seconds each time
        yield f"127.0.0.1:{port}"
        head.terminate()
        head.communicate(timeout=60)


def plain(result):
    """What a result file says of the run, but not of the time and the place."""
    return {key: value for key, value in result.items() if key not in ("seconds", "provenance")}


@pytest.mark.slow
def test_ray_leaves_the_files_of_a_serial_grid_skips_what_is_done_or_held_and_goes_on_after_failures(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", ["nacre", "train", "tiny.toml", "--executor", "ray"])
    monkeypatch.setenv("COLUMNS", "200")
    grid = replace(tiny(tmp_path, more="[models.sdpa]\nno_such_option = 1\n"), folds=1)
    serial = replace(grid, models=["mean", "linear", MODEL], out=tmp_path / "serial")
    run_grid(serial)
    shutil.copytree(serial.out / "tiny/mean", grid.out / "tiny/mean")
    held = cell(load_task(load_recipe(grid.tasks[0])), grid.out, "time-only")
    held.directory.mkdir(parents=True)
    capsys.readouterr()
    with held.lock(), pytest.raises(ValueError, match="1 of the cells failed:\n  tiny, sdpa, .* 'no_such_option'"):
        run_grid(on(replace(grid, models=["mean", "linear", "time-only", MODEL, "sdpa"]), None))
    out = capsys.readouterr().out
    assert "tiny, mean, fold 1 of 3 is done" in out
    assert "tiny, time-only, fold 1 of 3 is at work in another process" in out
    found = {path.parents[1].name for path in grid.out.rglob("result.json")}
    assert found == {"mean", "linear", MODEL}
    for name in ("linear", MODEL):
        run, other = (out / "tiny" / name / "fold0-seed0" for out in (grid.out, serial.out))
        names = [{n for n in files_below(path) if "events" not in n} for path in (run, other)]
        assert names[0] == names[1]
        assert plain(result_of(run)) == plain(result_of(other))
        assert result_of(run)["provenance"]["command"] == "nacre train tiny.toml --executor ray"
    assert weights_of(run) == weights_of(other)
    assert result_of(run)["provenance"]["machine"]["threads"] == 1


@pytest.mark.deep
def test_what_is_done_on_a_cluster_is_not_done_again(tmp_path, cluster, capsys):
    grid = replace(tiny(tmp_path), models=["mean"])
    run_grid(on(grid, cluster))
    before = {path: path.stat().st_mtime_ns for path in grid.out.rglob("result.json")}
    (grid.out / "tiny/mean/fold1-seed0/result.json").unlink()
    capsys.readouterr()
    again = run_grid(on(grid, cluster))
    assert [(result["model"], result["fold"]) for result in again] == [("mean", 1)]
    assert capsys.readouterr().out.count("is done") == len(before) - 1
    changed = [path for path, when in before.items() if path.stat().st_mtime_ns != when]
    assert [path.parent for path in changed] == [grid.out / "tiny/mean/fold1-seed0"]


def holders(path):
    """Processes, other than this one, that have a file open."""
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if entry.readlink() == path and int(entry.parts[2]) != os.getpid():
                yield int(entry.parts[2])
        except OSError:
            continue


@pytest.fixture
def killer():
    """Give it a file: whatever process has it open is killed, until the test is over."""
    over, killed, threads = threading.Event(), set(), []

    def kill(path):
        while not over.is_set():
            for process in holders(path):
                os.kill(process, signal.SIGKILL)
                killed.add(process)
            time.sleep(0.02)

    def begin(path):
        threads.append(threading.Thread(target=kill, args=(path,)))
        threads[0].start()
        return killed

    yield begin
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.deep
def test_what_dies_is_tried_again_what_fails_is_not_and_the_others_finish(tmp_path, cluster, killer, capsys):
    grid = tiny(tmp_path, 60, "[models.sdpa]\nno_such_option = 1\n")
    grid = replace(grid, models=["sdpa", MODEL], folds=3)
    held = cell(load_task(load_recipe(grid.tasks[0])), grid.out, fold=2)
    held.directory.mkdir(parents=True)
    killed = killer(grid.out / "tiny" / MODEL / "fold0-seed0/.lock")
    with held.lock(), pytest.raises(ValueError, match="4 of the cells failed") as error:
        run_grid(on(grid, cluster))
    for fold in (1, 2, 3):
        assert f"\n  tiny, sdpa, fold {fold} of 3: " in str(error.value)
    assert str(error.value).count("no_such_option") == 3
    assert f"\n  tiny, {MODEL}, fold 1 of 3: its process died 3 times" in str(error.value)
    assert len(killed) == 1 + ray_grid.RETRIES == 3
    out = " ".join(capsys.readouterr().out.split())
    for often in (1, 2):
        assert out.count(f"tiny, {MODEL}, fold 1 of 3: its process died, trying again ({often} of 2)") == 1
    assert out.count("trying again") == 2
    assert f"tiny, {MODEL}, fold 3 of 3 is at work in another process" in out
    assert [path.parent.name for path in grid.out.rglob("result.json")] == ["fold1-seed0"]


@pytest.mark.deep
def test_a_grid_that_has_no_room_is_refused_before_anything_is_run(tmp_path, cluster):
    for asked in (Cluster(cluster, cpus=3), Cluster(cluster, gpus=1.0)):
        grid = replace(tiny(tmp_path), scale=Scale(Executor.RAY, asked))
        with pytest.raises(ValueError, match="they have 2 CPUs and 0 GPUs"):
            run_grid(grid)
        assert not grid.out.exists()
    with joined(Cluster(cluster)):  # the refusal has left the cluster, which can be joined again
        pass


@pytest.mark.deep
def test_ctrl_c_ends_with_130_and_the_next_run_ends_as_if_nothing_had_happened(tmp_path, cluster):
    grid = tiny(tmp_path, steps=360)
    args = ["train", "tiny.toml", "-m", MODEL, "--profile", "quick", "--folds", "2", "--no-controls"]
    command = [sys.executable, "-m", "nacre", *args, "--executor", "ray", "--address", cluster]
    started = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    runs = [grid.out / "tiny" / MODEL / f"fold{fold}-seed0" for fold in range(2)]
    deadline = time.monotonic() + 120
    with killed_at_end(started) as process:
        while not all((run / "checkpoints/last.ckpt").exists() for run in runs):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, ""), errors
    assert not list(grid.out.rglob("result.json"))
    deadline = time.monotonic() + 30
    while any(list(holders(run / ".lock")) for run in runs):  # the cluster goes on, the workers do not
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not list(grid.out.rglob("result.json"))
    assert all(1 <= len(read_log(run)) < 6 for run in runs)
    first = replace(grid, folds=1)
    other = replace(first, out=tmp_path / "whole")
    run_grid(first)
    run_grid(other)
    assert outcome(runs[0]) == outcome(other.out / runs[0].relative_to(grid.out))


@pytest.mark.deep
def test_without_an_address_a_cluster_of_this_machine_comes_and_goes_in_silence(tmp_path):
    tiny(tmp_path)
    args = ["train", "tiny.toml", "-m", MODEL, "--profile", "quick", "--folds", "2", "--no-controls"]
    settings = environment()
    settings.pop("RAY_AUTH_MODE", None)
    command = [sys.executable, "-m", "nacre", *args, "--executor", "ray"]
    done = subprocess.run(
        command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=400, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert lines[1] == "2 cells, of which 0 have results"
    assert len(lines) == 4
    assert {line.split(":")[0] for line in lines[2:]} == {f"tiny, {MODEL}, fold {fold} of 3" for fold in (1, 2)}
    assert len(list((tmp_path / "runs").rglob("result.json"))) == 2
