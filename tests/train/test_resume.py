"""A run that was interrupted goes on, and ends as if nothing had happened, to the last bit."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import lightning as L
import pytest
import torch

from nacre.tasks.recipe import Precision, Profile
from nacre.tasks.recipe_sections import NetworkRecipe
from nacre.train.run_cell import run_cell
from support.callbacks import Break, Crash, crash
from support.process import killed_at_end
from support.train import (
    MODEL,
    TINY_TOML,
    cell,
    files_below,
    gaps,
    irregular,
    nacre,
    outcome,
    read_log,
    result_of,
    waves,
)

SOURCE = Path(__file__).parents[2] / "src"


def rounds_run(one):
    """Run a cell, and say which rounds were trained."""
    seen = []

    class Watch(L.Callback):
        def on_train_epoch_start(self, trainer, module):
            seen.append(trainer.current_epoch)

    run_cell(one, (Watch(),))
    return seen


def dropping():
    task = waves()
    return replace(task, recipe=replace(task.recipe, network=NetworkRecipe(8, 2, dense=(8,), dropout=0.4)))


def deeper(task):
    """The task with two blocks, and dropout in them."""
    return replace(task, recipe=replace(task.recipe, network=NetworkRecipe(8, 2, dropout=0.4, depth=2)))


def warming():
    return deeper(irregular(warmup=0.25, lr=0.02))


def constant():
    return waves(schedule="constant")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted run of a task leaves, which is made once."""

    @cache
    def run(make, model=MODEL):
        one = cell(make(), tmp_path_factory.mktemp("whole"), model)
        run_cell(one)
        return outcome(one.directory)

    return run


# Two steps a round: a crash in the middle of a round, or at its end.
STEPS = [pytest.param(step, marks=() if step in (2, 5) else pytest.mark.deep) for step in (1, 2, 5, 6, 11)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("model", "make"), [("nac", waves), (MODEL, dropping), (MODEL, warming)])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, whole, model, make, step):
    interrupted = cell(make(), tmp_path, model)
    crash(interrupted, Crash(step))
    assert (interrupted.directory / "checkpoints/last.ckpt").exists() == (step > 2)
    run_cell(interrupted)
    assert outcome(interrupted.directory) == whole(make, model)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "model"), [(irregular, MODEL), (gaps, "sdpa")])
def test_a_standard_run_goes_on_with_the_learning_rate_it_had(tmp_path, make, model):
    task = deeper(make(warmup=0.5, lr=0.02, patience=20))
    whole, broken = (cell(task, tmp_path / name, model, profile=Profile.STANDARD) for name in ("whole", "broken"))
    assert run_cell(whole)["budget"]["steps_taken"] == 20  # a step a round
    crash(broken, Crash(5))  # while it rises
    crash(broken, Crash(15))  # while it falls
    assert rounds_run(broken) == [14, 15, 16, 17, 18, 19]
    assert outcome(broken.directory) == outcome(whole.directory)


@pytest.mark.slow
def test_an_interrupted_run_in_double_precision_ends_like_an_uninterrupted_one(tmp_path):
    task = waves()
    whole, interrupted = (cell(task, tmp_path / name, precision=Precision.FLOAT64) for name in ("whole", "broken"))
    run_cell(whole)
    crash(interrupted, Crash(7))
    assert rounds_run(interrupted) == [3, 4, 5]  # it does not start over
    assert outcome(interrupted.directory) == outcome(whole.directory)


@pytest.mark.slow
def test_a_run_can_be_interrupted_again_and_again(tmp_path, whole):
    interrupted = cell(dropping(), tmp_path)
    for step in (3, 5, 9, 12):
        crash(interrupted, Crash(step))
    run_cell(interrupted)
    assert outcome(interrupted.directory) == whole(dropping)


def stops_early():
    return waves(lr=0.5, quick_steps=30, patience=1)


@pytest.mark.parametrize("make", [waves, stops_early])
def test_a_run_whose_training_had_ended_trains_no_further(tmp_path, whole, make):
    interrupted = cell(make(), tmp_path)
    crash(interrupted, Crash(at_the_end=True))
    run_cell(interrupted)
    assert result_of(interrupted.directory)["budget"]["stopped_early"] == (make is stops_early)
    assert outcome(interrupted.directory) == whole(make)


def test_a_run_that_had_diverged_stays_so(tmp_path):
    task = waves()
    whole, interrupted = (cell(task, tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole, (Break(2),))
    crash(interrupted, Break(2), Crash(at_the_end=True))
    run_cell(interrupted)
    assert result_of(interrupted.directory)["budget"]["diverged"]
    assert outcome(interrupted.directory) == outcome(whole.directory)


@pytest.mark.parametrize(
    "size", [pytest.param(n, marks=() if n == 5_000 else pytest.mark.deep) for n in (0, 100, 5_000)]
)
def test_a_damaged_checkpoint_means_to_start_over(tmp_path, whole, size):
    interrupted = cell(waves(), tmp_path)
    crash(interrupted, Crash(7))
    checkpoint = interrupted.directory / "checkpoints/last.ckpt"
    contents = checkpoint.read_bytes()
    assert len(contents) > size
    checkpoint.write_bytes(contents[:size])
    crash(interrupted, Crash(5))  # starting over, it cannot have come as far as before
    assert rounds_run(interrupted) == [2, 3, 4, 5]
    assert outcome(interrupted.directory) == whole(waves)


def test_a_checkpoint_without_the_fingerprint_of_the_wiring_means_to_start_over(tmp_path):
    interrupted = cell(waves(), tmp_path, "nac")
    crash(interrupted, Crash(7))
    checkpoint = interrupted.directory / "checkpoints/last.ckpt"
    saved = torch.load(checkpoint, weights_only=True)
    named = {name: value for name, value in saved["state_dict"].items() if not name.endswith("_extra_state")}
    assert len(named) < len(saved["state_dict"])
    torch.save({**saved, "state_dict": named}, checkpoint)
    assert rounds_run(interrupted) == [0, 1, 2, 3, 4, 5]


def longer():
    return waves(quick_steps=18)


def faster():
    return waves(lr=0.02)


@pytest.mark.parametrize("make", [faster, pytest.param(longer, marks=pytest.mark.deep)])
def test_a_checkpoint_of_another_recipe_is_not_used(tmp_path, whole, make):
    crash(cell(waves(), tmp_path), Crash(7))
    other = cell(make(), tmp_path)
    run_cell(other)
    assert outcome(other.directory) == whole(make)


@pytest.mark.slow
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
    one = cell(waves(), tmp_path)
    crash(one, Crash(7))
    assert files_below(one.directory / "checkpoints") == {"fingerprint", "best.ckpt", "last.ckpt"}
    run_cell(one)
    assert not (one.directory / "checkpoints").exists()


def test_a_checkpoint_of_version_0_1_is_understood(tmp_path, whole):
    """Its callbacks had other names; their states are found under these."""
    interrupted = cell(waves(), tmp_path)
    crash(interrupted, Crash(7))
    checkpoint = torch.load(interrupted.directory / "checkpoints/last.ckpt", weights_only=True)
    early_stopping = "Patience{'monitor': 'valid_loss', 'mode': 'min'}"
    assert {"Log", early_stopping} <= checkpoint["callbacks"].keys()
    run_cell(interrupted)
    assert outcome(interrupted.directory) == whole(waves)


@pytest.mark.slow
def test_a_checkpoint_of_before_there_were_schedules_is_understood(tmp_path, whole):
    interrupted = cell(constant(), tmp_path)
    crash(interrupted, Crash(7))
    checkpoint = interrupted.directory / "checkpoints/last.ckpt"
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["lr_schedulers"]
    torch.save({**saved, "lr_schedulers": []}, checkpoint)
    assert rounds_run(interrupted) == [3, 4, 5]
    assert outcome(interrupted.directory) == whole(constant)


# With real processes.

LONG = 180  # steps, 30 a round: time enough to be stopped
RUN = Path("runs/tiny") / MODEL / "fold0-seed0"
ARGS = ("train", "tiny.toml", "-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a recipe, which is the current one."""
    (tmp_path / "tiny.toml").write_text(TINY_TOML % LONG)
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The run that nobody interrupts."""
    directory = tmp_path_factory.mktemp("whole")
    (directory / "tiny.toml").write_text(TINY_TOML % LONG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        assert nacre(patch, *ARGS) == 0
    return outcome(directory / RUN)


def stop_in_mid_training(directory, what):
    """Start `nacre train`, wait for two rounds, send a signal; gives exit code and standard error."""
    scratch = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), "TMPDIR": str(directory / "scratch")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "nacre", *map(str, ARGS)]
    started = subprocess.Popen(command, env={**os.environ, **scratch}, start_new_session=True, **pipes)
    log, deadline = directory / RUN / "log.csv", time.monotonic() + 120
    with killed_at_end(started) as process:
        while not (log.exists() and len(read_log(log.parent)) >= 2):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, what)
        _, errors = process.communicate(timeout=60)
    assert not (directory / RUN / "result.json").exists()
    return process.returncode, errors


@pytest.mark.slow
def test_ctrl_c_exits_with_130_says_where_and_the_next_run_goes_on(place, whole_run, monkeypatch, capsys):
    code, errors = stop_in_mid_training(place, signal.SIGINT)
    assert code == 130
    where = rf"interrupted at step (\d+) of tiny, {MODEL}, fold 1 of 3"
    said = re.fullmatch(rf"nacre: {where}; the same command goes on\n", errors)
    assert said is not None, errors
    left = {name for name in files_below(place / RUN) if not name.startswith("tensorboard/")}
    checkpoints = {f"checkpoints/{name}" for name in ("fingerprint", "best.ckpt", "last.ckpt")}
    assert left == {".lock", "log.csv", *checkpoints}
    assert files_below(place / "scratch") == set()
    assert nacre(monkeypatch, *ARGS) == 0
    resumed = re.search(rf"tiny, {MODEL}, fold 1 of 3 goes on from step (\d+) of 180", capsys.readouterr().out)
    assert resumed is not None
    assert 30 <= int(resumed[1]) <= int(said[1])
    assert outcome(place / RUN) == whole_run


@pytest.mark.deep
def test_kill_9_and_the_next_run_ends_with_the_very_same_numbers(place, whole_run, monkeypatch):
    assert stop_in_mid_training(place, signal.SIGKILL)[0] == -signal.SIGKILL
    assert nacre(monkeypatch, *ARGS) == 0
    assert outcome(place / RUN) == whole_run


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_next_run_works(place, whole_run, monkeypatch, capsys):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))  # bytes of a file, at most
    try:
        code = nacre(monkeypatch, *ARGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    errors = capsys.readouterr().err
    assert code == 2
    assert errors.startswith("nacre: ")
    assert "File too large" in errors
    assert "Traceback" not in errors
    assert not (place / RUN / "result.json").exists()
    assert nacre(monkeypatch, *ARGS) == 0
    assert outcome(place / RUN) == whole_run
