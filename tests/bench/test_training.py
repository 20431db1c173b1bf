"""`nacre bench --training`: the shapes of training, with time stamps, beside dot-product attention."""

import io
import json

import pytest
import torch
from rich.console import Console
from torch import nn
from typer.testing import CliRunner

from bench.test_command import FAKE, not_blank
from nacre.bench import measure, process, worker
from nacre.bench.record import ACTIONS, BenchResult, Cost
from nacre.bench.run import Options, _settings
from nacre.bench.training import SHAPES, Shape, by_shape, print_training
from nacre.bench.worker import Request
from nacre.cli import app as commands


def test_every_model_is_asked_for_at_every_shape_beside_dot_products():
    settings = _settings(Options(training=True, models=("nac,mtan",)))
    entries = settings.entries()
    assert len(entries) == 2 * len(SHAPES)
    assert {entry.model for entry in entries} == {"nac", "mtan"}
    assert all(entry.stamps for entry in entries)
    assert settings.reference == "sdpa"
    assert measure.Settings(("nac",), (64,)).reference == "torch-mha"
    assert measure.Settings(("nac",), (64,), sweep=True).reference is None
    assert [*by_shape([BenchResult(entry) for entry in entries])] == [*SHAPES]


def test_the_worker_gives_irregular_stamps_to_both(monkeypatch):
    seen = []

    class Timed(nn.Linear):
        def forward(self, x, time):
            seen.append((tuple(x.shape), time))
            return super().forward(x)

    monkeypatch.setattr(worker, "build", lambda name, *_: Timed(8, 8))
    parts = []
    worker.answer(Request(Shape(2, 100, 8, 2).entry("nac"), "step", "sdpa", budget=0), parts.append)
    assert parts[-1]["ratio"] > 0
    assert [shape for shape, _ in seen[:2]] == [(2, 64, 8), (2, 100, 8)]
    for shape, time in seen:
        assert time.dtype == torch.float64
        assert tuple(time.shape) == shape[:2]
        assert (time.diff(dim=1) >= 0).all()
        assert 0 <= time.min() < time.max() <= 1


def test_what_has_its_own_shapes_takes_no_other_sizes():
    for name, value in {"lengths": ("8",), "batch": 2, "d_model": 8, "num_heads": 2, "sweep": True}.items():
        with pytest.raises(ValueError, match=f"training has shapes of its own, so {name} must be left out, got"):
            _settings(Options(training=True, **{name: value}))
    with pytest.raises(ValueError, match="'torch-gru', which takes no time stamps; choose among nacre models"):
        _settings(Options(training=True, models=("torch-gru",)))


def test_the_table_has_ratios_and_says_what_is_missing():
    shape = SHAPES["spirals"]
    results = [
        BenchResult(shape.entry("sdpa"), 1, Cost("ok", seconds=0.02, ratio=1.01), Cost("ok", seconds=0.04)),
        BenchResult(shape.entry("nac"), 1, Cost("ok", seconds=0.05, ratio=2.5), Cost("out of time")),
    ]
    console = Console(file=io.StringIO(), width=110)
    print_training(results, console)
    text = console.file.getvalue()
    assert text.index("training") < text.index("forward")
    training, forward = text.split("forward", 1)
    assert "32 x 150, 64, 4" in training
    assert "40.0 out of time" in " ".join(training.split())
    assert "2.50" in forward
    assert "nac at 150, training step: out of time" in text


@pytest.mark.slow
def test_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "WORKER", FAKE)
    done = CliRunner().invoke(
        commands.app,
        ["bench", "--training", "--models", "sdpa,nac", "--out", str(tmp_path)],
        env={"COLUMNS": "160"},
    )
    assert done.exit_code == 0, done.output
    assert {p.name for p in tmp_path.iterdir()} == {f"bench-training.{end}" for end in ("csv", "json", "png")}
    assert not_blank(tmp_path / "bench-training.png")
    rows = json.loads((tmp_path / "bench-training.json").read_text())["results"]
    assert len(rows) == 2 * len(SHAPES)
    assert all(row[action]["state"] == "ok" and row["stamps"] for row in rows for action in ACTIONS)
