"""A run that was interrupted goes on, and ends as if nothing had happened, to the last bit."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import lightning as L
import pytest

from nacre.tasks.recipe import NetworkRecipe, Precision
from nacre.train.run_cell import run_cell
from support.train import (
    MODEL,
    TINY_TOML,
    cell,
    files_below,
    nacre,
    outcome,
    read_log,
    result_of,
    spirals,
    waves,
)
from train.test_fit import Break

SOURCE = Path(__file__).parents[2] / "src"


class Crash(L.Callback):
    """Raises as soon as a number of steps is taken; at the end of the training that has so many."""

    def __init__(self, step, at_the_end=False):
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


def rounds_run(one):
    """Run a cell, and say which rounds were trained."""
    seen = []

    class Watch(L.Callback):
        def on_train_epoch_start(self, trainer, module):
            seen.append(trainer.current_epoch)

    run_cell(one, (Watch(),))
    return seen


def dropping():
    return waves_with(NetworkRecipe(8, 2, dense=(8,), dropout=0.4))


def waves_with(network, **training):
    task = waves(**training)
    return replace(task, recipe=replace(task.recipe, network=network))


@pytest.mark.parametrize("step", [1, 2, 5, 6, 11])  # two steps a round: in the midst of rounds, and at their ends
@pytest.mark.parametrize(("model", "make"), [("nac", waves), (MODEL, dropping)])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, model, make, step):
    task = make()
    whole, interrupted = (cell(task, tmp_path / name, model) for name in ("whole", "interrupted"))
    run_cell(whole)
    crash(interrupted, Crash(step))
    assert (interrupted.directory / "checkpoints/last.ckpt").exists() == (step > 2)
    run_cell(interrupted)
    assert outcome(interrupted.directory) == outcome(whole.directory)


def test_an_interrupted_run_in_double_precision_ends_like_an_uninterrupted_one(tmp_path):
    task = waves()
    whole, interrupted = (cell(task, tmp_path / name, precision=Precision.FLOAT64) for name in ("whole", "broken"))
    run_cell(whole)
    crash(interrupted, Crash(7))
    run_cell(interrupted)
    assert outcome(interrupted.directory) == outcome(whole.directory)


def test_a_run_that_goes_on_does_not_start_over(tmp_path):
    one = cell(waves(), tmp_path)
    crash(one, Crash(7))
    assert rounds_run(one) == [3, 4, 5]


def test_a_run_can_be_interrupted_again_and_again(tmp_path):
    task = dropping()
    whole, interrupted = (cell(task, tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole)
    for step in (3, 5, 9, 12):
        crash(interrupted, Crash(step))
    run_cell(interrupted)
    assert outcome(interrupted.directory) == outcome(whole.directory)


@pytest.mark.parametrize("training", [{}, {"lr": 0.5, "quick_steps": 30, "patience": 1}])
def test_a_run_whose_training_had_ended_trains_no_further(tmp_path, training):
    task = waves(**training)
    whole, interrupted = (cell(task, tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole)
    assert result_of(whole.directory)["budget"]["stopped_early"] == bool(training)
    crash(interrupted, Crash(0, at_the_end=True))
    run_cell(interrupted)
    assert outcome(interrupted.directory) == outcome(whole.directory)


def test_a_run_that_had_diverged_stays_so(tmp_path):
    task = waves()
    whole, interrupted = (cell(task, tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole, (Break(2),))
    crash(interrupted, Break(2), Crash(0, at_the_end=True))
    run_cell(interrupted)
    assert result_of(interrupted.directory)["budget"]["diverged"]
    assert outcome(interrupted.directory) == outcome(whole.directory)


@pytest.mark.parametrize("size", [0, 100, 5_000])
def test_a_damaged_checkpoint_means_to_start_over(tmp_path, size):
    task = waves()
    whole, interrupted = (cell(task, tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole)
    crash(interrupted, Crash(7))
    checkpoint = interrupted.directory / "checkpoints/last.ckpt"
    contents = checkpoint.read_bytes()
    assert len(contents) > size
    checkpoint.write_bytes(contents[:size])
    crash(interrupted, Crash(5))  # starting over, it cannot have come as far as before
    assert rounds_run(interrupted) == [2, 3, 4, 5]
    assert outcome(interrupted.directory) == outcome(whole.directory)


@pytest.mark.parametrize("change", [{"lr": 0.02}, {"quick_steps": 18}])
def test_a_checkpoint_of_another_recipe_is_not_used(tmp_path, change):
    crash(cell(waves(), tmp_path / "interrupted"), Crash(7))
    whole, other = (cell(waves(**change), tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole)
    run_cell(other)
    assert outcome(other.directory) == outcome(whole.directory)


def test_a_run_that_was_moved_ends_like_one_that_was_not(tmp_path):
    task = waves(lr=0.5, quick_steps=30, patience=100)  # best long before the end
    whole, before, after = (cell(task, tmp_path / name) for name in ("whole", "before", "after"))
    run_cell(whole)
    crash(before, Crash(22))
    shutil.move(tmp_path / "before", tmp_path / "after")
    run_cell(after)
    assert outcome(after.directory) == outcome(whole.directory)
    assert not before.directory.exists()


def test_checkpoints_go_when_the_result_is_there(tmp_path):
    one = cell(spirals(), tmp_path)
    crash(one, Crash(7))
    assert files_below(one.directory / "checkpoints") == {"fingerprint", "best.ckpt", "last.ckpt"}
    run_cell(one)
    assert not (one.directory / "checkpoints").exists()


# With real processes.

STEPS = 480  # 80 a round: time enough to be killed
RUN = Path("runs/tiny") / MODEL / "fold0-seed0"


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The run that nobody interrupts."""
    directory = tmp_path_factory.mktemp("whole")
    (directory / "tiny.toml").write_text(TINY_TOML % STEPS)
    done = finish(directory)
    assert done.returncode == 0, done.stderr
    return outcome(directory / RUN)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY_TOML % STEPS)
    (tmp_path / "scratch").mkdir()
    return tmp_path


def start(directory, limit=None):
    """`nacre train` in a process group of its own; `limit` is the largest file that it may write, in bytes."""
    args = ["train", "tiny.toml", "-m", MODEL, "--profile", "quick", "--folds", "1", "--no-controls"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SOURCE),
        "TMPDIR": str(directory / "scratch"),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "nacre", *args],
        cwd=directory,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


def finish(directory, limit=None):
    process = start(directory, limit)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def stop_in_mid_training(directory, what):
    """Start, wait for two rounds, send a signal; gives exit code and what was said."""
    process = start(directory)
    log, deadline = directory / RUN / "log.csv", time.monotonic() + 120
    while not (log.exists() and len(read_log(log.parent)) >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, what)
    _, err = process.communicate(timeout=60)
    assert not (directory / RUN / "result.json").exists()
    return process.returncode, err


@pytest.mark.slow
def test_kill_9_and_the_next_run_ends_with_the_very_same_numbers(place, whole_run):
    code, _ = stop_in_mid_training(place, signal.SIGKILL)
    assert code == -signal.SIGKILL
    done = finish(place)
    assert done.returncode == 0, done.stderr
    assert outcome(place / RUN) == whole_run


@pytest.mark.slow
def test_ctrl_c_exits_with_130_and_the_next_run_goes_on(place, whole_run, monkeypatch):
    code, err = stop_in_mid_training(place, signal.SIGINT)
    assert (code, err) == (130, "")
    left = {name for name in files_below(place / RUN) if not name.startswith("tensorboard/")}
    assert left == {
        ".lock",
        "log.csv",
        "checkpoints/fingerprint",
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
    }
    assert files_below(place / "scratch") == set()
    go_on(place, monkeypatch)
    assert outcome(place / RUN) == whole_run


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_next_run_works(place, whole_run, monkeypatch):
    done = finish(place, limit=12_000)
    assert done.returncode == 2
    assert done.stderr.startswith("nacre: ")
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / RUN / "result.json").exists()
    go_on(place, monkeypatch)
    assert outcome(place / RUN) == whole_run


def go_on(directory, monkeypatch):
    monkeypatch.chdir(directory)
    args = ("-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls")
    assert nacre(monkeypatch, "train", "tiny.toml", *args) == 0
