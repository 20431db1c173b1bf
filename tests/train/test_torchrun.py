"""Several processes on one cell, for real, under torchrun: they make the runs of one, also when interrupted.

`make test` launches them once, all other scenarios are part of `make test-deep`.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from nacre.tasks.recipe import Precision, Profile
from nacre.train.grid import Grid, run_grid
from support.process import killed_at_end
from support.train import (
    files_below,
    read_log,
    result_of,
    weights_of,
)

SOURCE = Path(__file__).parents[2] / "src"


# With real processes.

# Four sequences to train on in batches of three: the second batch leaves one process without a sequence. The lr is
# low: with 1e-3 the rounding of sums, 1e-16 in the first rounds, grows to 1e-7 in 240 steps.
RECIPE = """
data = { name = "spiral", n = 12 }
split = { by = "group", folds = 3 }
network = { d_model = 8, num_heads = 2 }
training = { lr = 1e-4, batch_size = 3, quick_steps = %d, quick_valid = 4 }
[models.sdpa]
no_such_option = 1
"""
MODELS = ("nac", "sdpa", "ot-transformer")  # sdpa cannot be made
ARGS = ("train", "tiny.toml", "--profile", "quick", "--folds", "1", "--no-controls", "--precision", "64-true")


def environment(directory):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "RAY_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), "TMPDIR": str(directory), "COLUMNS": "200"}


def start(directory, *args):
    return subprocess.Popen(
        [sys.executable, "-m", "nacre", *ARGS, *args],
        cwd=directory,
        env=environment(directory),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def place(directory, steps):
    directory.mkdir(exist_ok=True)
    (directory / "tiny.toml").write_text(RECIPE % steps)
    return directory


def whole(directory, steps, *models):
    """What one process makes of it."""
    place(directory, steps)
    grid = Grid([str(directory / "tiny.toml")], models, Profile.QUICK, 1, out=directory / "runs", controls=False)
    run_grid(replace(grid, precision=Precision.FLOAT64))
    return directory / "runs/tiny"


def assert_agree(run, other):
    """Metrics, losses and weights of two runs agree, to the rounding of sums."""
    one, two = result_of(run), result_of(other)
    assert one["fingerprint"] == two["fingerprint"]
    for part in ("metrics", "valid"):
        assert one[part] == pytest.approx(two[part], rel=1e-8)
    assert read_log(run) == [pytest.approx(row, rel=1e-8) for row in read_log(other)]
    nets = [load(weights_of(path)) for path in (run, other)]
    assert nets[0].keys() == nets[1].keys()
    assert any(value.dtype == torch.float64 for value in nets[0].values())
    for name, value in nets[0].items():
        torch.testing.assert_close(nets[1][name], value, rtol=0, atol=1e-8)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return whole(tmp_path_factory.mktemp("alone") / "place", 12, *(name for name in MODELS if name != "sdpa"))


@pytest.mark.slow
def test_two_processes_make_the_runs_of_one_and_go_on_after_a_cell_that_fails(tmp_path, alone):
    place(tmp_path, 12)
    models = [word for name in MODELS for word in ("-m", name)]
    process = start(tmp_path, *models, "--devices", "2")
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 2, errors
    assert errors.count("nacre: 1 of the cells failed") == 1
    assert "no_such_option" in errors
    assert "Traceback" not in errors
    for name in MODELS:
        lines = [line for line in said.splitlines() if f"tiny, {name}, fold 1 of 3: " in line]
        assert len([line for line in lines if " of 3: step " not in line]) == 1  # those come while it takes long
        if name == "sdpa":
            continue
        run, other = (path / name / "fold0-seed0" for path in (tmp_path / "runs/tiny", alone))
        assert_agree(run, other)
        budget = result_of(run)["budget"]
        assert (budget.pop("processes"), budget.pop("strategy")) == (2, "ddp")
        assert budget == result_of(other)["budget"]
        assert {n for n in files_below(run) if "events" not in n and "weights" not in n} == {
            n for n in files_below(other) if "events" not in n and "weights" not in n
        }
        command = result_of(run)["provenance"]["command"]
        assert command.startswith("nacre train tiny.toml")
        assert command.endswith("--devices 2")


STEPS = 36  # 6 a round: time enough to be stopped, and too few for roundings to grow
LONG = ("-m", "deepstate")  # takes its time
RUN = Path("runs/tiny/deepstate/fold0-seed0")


@pytest.fixture(scope="module")
def long_alone(tmp_path_factory):
    return whole(tmp_path_factory.mktemp("long") / "place", STEPS, "deepstate") / "deepstate/fold0-seed0"


def stop(directory, what, *args):
    """Start, wait for two rounds, send a signal to all; gives the exit code and what was said."""
    deadline = time.monotonic() + 200
    with killed_at_end(start(directory, *LONG, *args)) as process:
        while not ((directory / RUN / "log.csv").exists() and len(read_log(directory / RUN)) >= 2):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, what)
        _, errors = process.communicate(timeout=100)
    assert not (directory / RUN / "result.json").exists()
    assert (directory / RUN / "checkpoints/last.ckpt").exists()
    return process.returncode, errors


@pytest.mark.deep
@pytest.mark.parametrize(
    ("first", "what", "code", "then"),
    [
        (("--devices", "2"), signal.SIGKILL, -signal.SIGKILL, ("--devices", "2")),
        (("--devices", "2"), signal.SIGINT, 130, ()),
    ],
)
def test_an_interrupted_run_goes_on_in_any_number_of_processes(tmp_path, long_alone, first, what, code, then):
    place(tmp_path, STEPS)
    returned, errors = stop(tmp_path, what, *first)
    assert returned == code, errors
    assert "Traceback" not in errors
    assert errors.count("nacre: ") == errors.count("nacre: interrupted at step ") <= 1
    assert result_rows(tmp_path) >= 2
    process = start(tmp_path, *LONG, *then)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert_agree(tmp_path / RUN, long_alone)


def result_rows(directory):
    return len(read_log(directory / RUN))


MEETING = """
import sys
from datetime import timedelta
from nacre.train.scale import worker_group as module
from nacre.train.scale.options import Processes

module._LATE = timedelta(seconds=3)
with module.join_group(Processes(2)) as group:
    for number, who in enumerate([(), (1,), (0, 1)]):
        try:
            with group.in_step():
                if group.rank in who:
                    raise ValueError("lost the map")
            sys.stderr.write(f"[{group.rank}:{number}:fine]")
        except (ValueError, RuntimeError) as error:
            sys.stderr.write(f"[{group.rank}:{number}:{type(error).__name__}:{error}]")
    if group.rank == 1:
        import time
        time.sleep(30)
    try:
        with group.in_step():
            raise ValueError("alone")
    except ConnectionError as error:
        sys.stderr.write(f"[{error}]")
        sys.stderr.flush()
        import os
        os._exit(3)
"""


@pytest.mark.deep
def test_an_error_of_one_process_is_an_error_of_all_and_one_that_is_lost_ends_the_others(tmp_path):
    (tmp_path / "meeting.py").write_text(MEETING)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = {"cwd": tmp_path, "env": environment(tmp_path), "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*torchrun, "meeting.py"], check=False, **options)
    assert done.returncode == 1
    for rank in range(2):
        assert f"[{rank}:0:fine]" in done.stderr
        assert f"[{rank}:1:RuntimeError:process 1: lost the map]" in done.stderr
        assert f"[{rank}:2:ValueError:lost the map]" in done.stderr
    assert "[process 0 lost the others (alone); all of them end, start again" in done.stderr


PARTING = """
import sys
from pathlib import Path
from nacre.train.scale.options import Processes
from nacre.train.scale.worker_group import join_group

def threads():
    return sum("gloo" in task.read_text() for task in Path("/proc/self/task").glob("*/comm"))

with join_group(Processes(2)) as group:
    with group.in_step():
        during = threads()
sys.stderr.write(f"[{group.rank}:{during > 0}:{threads()}]")
"""


@pytest.mark.slow
def test_no_thread_of_the_group_is_left_that_could_abort_python_while_it_shuts_down(tmp_path):
    (tmp_path / "parting.py").write_text(PARTING)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = {"cwd": tmp_path, "env": environment(tmp_path), "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*torchrun, "parting.py"], check=True, **options)
    assert "[0:True:0]" in done.stderr
    assert "[1:True:0]" in done.stderr


@pytest.mark.deep
def test_torchrun_by_hand_is_the_same_and_a_wrong_number_is_named(tmp_path, alone):
    place(tmp_path, 12)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = {"cwd": tmp_path, "env": environment(tmp_path), "capture_output": True, "text": True, "timeout": 200}
    command = [*torchrun, "-m", "nacre", *ARGS, "-m", "nac"]
    wrong = subprocess.run([*command, "--devices", "3"], check=False, **options)
    assert wrong.returncode == 1
    assert wrong.stderr.count("nacre: torchrun started 2 processes, 2 on this node, but the command says") == 1
    assert not (tmp_path / "runs").exists()
    subprocess.run([*command, "--devices", "2"], check=True, **options)
    assert_agree(tmp_path / "runs/tiny/nac/fold0-seed0", alone / "nac/fold0-seed0")
