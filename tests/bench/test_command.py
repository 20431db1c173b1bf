"""`nacre bench` as a user meets it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from nacre.bench import process, run
from nacre.bench.run import Options
from nacre.cli import app as commands
from support.process import killed_at_end

FAKE = (sys.executable, "-S", str(Path(__file__).parents[1] / "support" / "bench_worker.py"))


def command(*args):
    return CliRunner().invoke(commands.app, ["bench", *args], env={"COLUMNS": "160"})


def not_blank(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("L")).std() > 5


@pytest.mark.slow
def test_the_table_end_to_end(tmp_path):
    size = ("--lengths", "64", "--d-model", "8", "--heads", "2", "--threads", "1")
    done = command("--models", "nac", *size, "--out", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["bench.csv", "bench.json", "bench.png"]
    data = json.loads((tmp_path / "new" / "bench.json").read_text())
    (row,) = data["results"]
    assert (row["model"], row["length"], row["d_model"], row["num_heads"]) == ("nac", 64, 8, 2)
    for action in ("forward", "step"):
        cost = row[action]
        assert cost["state"] == "ok", cost["note"]
        assert cost["rounds"] >= 3
        assert min(cost["seconds"], cost["ratio"], cost["peak_bytes"]) > 0
    assert data["settings"]["time_limit"] == 120.0
    with (tmp_path / "new" / "bench.csv").open() as file:
        assert [row["forward_state"] for row in csv.DictReader(file)] == ["ok"]
    assert not_blank(tmp_path / "new" / "bench.png")
    assert "length 64, 8 features" in done.stdout
    assert "2/2" in done.stderr


@pytest.mark.slow
def test_a_sweep_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "WORKER", FAKE)
    done = command("--sweep", "--models", "nac,torch-gru", "--lengths", "64,128,256", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert {p.name for p in tmp_path.iterdir()} == {"bench-sweep.csv", "bench-sweep.json", "bench-sweep.png"}
    assert not_blank(tmp_path / "bench-sweep.png")
    assert "64-256" in done.stdout
    again = command("--sweep", "--resume", "--models", "nac", "--lengths", "512", "--out", str(tmp_path))
    assert again.exit_code == 0, again.output
    assert "64-512" in again.stdout
    assert len(json.loads((tmp_path / "bench-sweep.json").read_text())["results"]) == 7


def test_options_are_passed_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("nacre.bench.run.run", seen.append)
    assert command().exit_code == 0
    given = "--models a,b --models c --lengths 1 --lengths 2,3 --batch 2 --heads 8 --d-model 32 --threads 2"
    given += f" --time-limit 7 --out {tmp_path} --resume --sweep --selection"
    assert command(*given.split()).exit_code == 0
    assert seen == [
        Options(),
        Options(("a,b", "c"), ("1", "2,3"), 2, 32, 8, 2, 7.0, tmp_path, True, True, True),
    ]


def test_defaults(monkeypatch):
    monkeypatch.setattr(run, "available", lambda: ["nac", "torch-mha", "sdpa"])
    table = run._settings(Options())
    assert (table.models, table.lengths, table.sweep) == (("nac", "torch-mha", "sdpa"), (1024,), False)
    assert (table.batch, table.d_model, table.num_heads, table.threads) == (1, 64, 4, None)
    sweep = run._settings(Options(sweep=True))
    assert sweep.models == ("nac", "torch-mha")
    assert (sweep.lengths[0], sweep.lengths[-1], len(sweep.lengths)) == (256, 131072, 10)


def test_what_the_flags_start(monkeypatch, tmp_path):
    started, out = [], tmp_path / "x"
    study = type(sys)("nacre.bench.selection")
    study.run_selection = lambda out: started.append(("selection", out))
    monkeypatch.setitem(sys.modules, "nacre.bench.selection", study)
    monkeypatch.setattr(run, "run_bench", lambda settings, out, resume: started.append(("bench", out)))
    for sweep, selection, wanted in (
        (False, False, [("bench", out)]),
        (True, False, [("bench", out)]),
        (False, True, [("selection", out)]),
        (True, True, [("bench", out), ("selection", out)]),
    ):
        started.clear()
        run.run(Options(out=out, sweep=sweep, selection=selection))
        assert started == wanted, (sweep, selection)


def test_bad_lengths_are_refused():
    for lengths in ("0", "-5", "1e3", "12.5", "٣"):
        with pytest.raises(ValueError, match="lengths must be whole numbers of at least 1"):
            run._settings(Options(lengths=(lengths,)))


def test_an_unknown_model_leaves_nothing_behind(tmp_path):
    done = command("--models", "nca", "--out", str(tmp_path / "new"))
    assert isinstance(done.exception, ValueError)  # which cli.main turns into one line
    assert "did you mean 'nac'?" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured_and_exits_with_130(tmp_path):
    code = f"""
import sys
from nacre.bench import process, run
from nacre import cli
process.WORKER = {FAKE!r}
run.resolve = lambda names: ["good", "sleeper"]
sys.argv = ["nacre", "bench", "--models", "x", "--lengths", "64", "--out", {str(tmp_path)!r}]
cli.main()
"""
    log = tmp_path / "calls.txt"
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "BENCH_TEST_LOG": str(log)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with killed_at_end(started) as running:
        while running.poll() is None and not (log.exists() and "sleeper" in log.read_text()):
            time.sleep(0.05)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    results = json.loads((tmp_path / "bench.json").read_text())["results"]
    assert [(r["model"], r["forward"]["state"]) for r in results] == [("good", "ok")]
    assert "good" in out
    assert not_blank(tmp_path / "bench.png")
