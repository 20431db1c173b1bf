"""The pages about training: their commands and recipes run, in the order of the page."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.tasks.recipe import parse_recipe
from nacre.tasks.task import load_task

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, *languages):
    return [(m[1], m[2]) for m in BLOCK.finditer((DOCS / page).read_text()) if m[1] in languages]


def run(command, folder):
    words = shlex.split(command)
    assert words[0] == "nacre"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "NACRE_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


SPIRAL = """
data = { name = "spiral", n = 15 }
split = { by = "group", folds = 5 }
network = { d_model = 8, num_heads = 2 }
training = { batch_size = 4, quick_steps = 12, quick_valid = 4 }
"""


def run_small(commands, folder):
    """Run commands with fewer and shorter spirals in place of those of the task; gives what each said."""
    (folder / "spiral.toml").write_text(SPIRAL)
    return [run(command.replace(" spiral ", " spiral.toml "), folder) for command in commands.splitlines()]


@pytest.mark.slow
def test_own_data_page_from_csv_to_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (_, script), *_ = blocks("your-own-data.md", "python")
    exec(compile(script, "your-own-data.md", "exec"), {})
    ((_, recipe),) = blocks("your-own-data.md", "toml")
    (tmp_path / "pumps.toml").write_text(recipe)
    ((_, commands),) = blocks("your-own-data.md", "bash")
    said = [run(command, tmp_path) for command in commands.splitlines()]
    assert "The task is classification" in said[0]
    accuracy = float(re.search(r"pumps, nac, fold 1 of 5: accuracy ([\d.]+)", said[0])[1])
    assert accuracy >= 90  # chance is 50
    assert "nac" in said[1]
    rows = (tmp_path / "predictions.csv").read_text().splitlines()
    assert rows[0] == "pump,prediction,p(fine),p(worn)"
    right = [(int(row.split(",")[0]) % 2 == 1) == (row.split(",")[1] == "worn") for row in rows[1:]]
    assert len(right) == 50
    assert sum(right) >= 45


@pytest.mark.slow
def test_harness_page_from_nothing_to_a_table(tmp_path):
    ((_, commands),) = blocks("harness.md", "bash")
    said = run_small(commands, tmp_path)
    assert re.search(r"nac +[\d.]+ ± [\d.]+ +2/5", said[1])
    assert re.search(r"sdpa +[\d.]+ ± [\d.]+ +2/5", said[1])
    pictures = {path.name for path in (tmp_path / "runs" / "plots").iterdir()}
    assert pictures == {"ranks-quick.png", "loss-spiral-quick.png"}


def test_harness_page_shows_a_recipe_that_loads():
    ((_, text),) = blocks("harness.md", "toml")
    task = load_task(parse_recipe(text, "small"))
    network = task.network("nac", 0, 0)
    assert len(task.data) == 60
    assert network.layer.config.top_k == 16
    assert task.network("sdpa", 0, 0).layer.num_heads == 2


def test_commands_of_the_data_page_run(tmp_path, monkeypatch):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    ((_, commands),) = blocks("datasets.md", "bash")
    listed, checked = (run(command, tmp_path) for command in commands.splitlines())
    for name in ("event-mnist", "person-activity", "ettm1", "jena", "spiral"):
        assert name in listed
    assert "300 sequences" in checked


@pytest.mark.slow
def test_cluster_page_a_grid_on_ray_and_a_cell_in_two_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # or Ray makes one in the home directory
    (_, grid), (_, cell) = blocks("cluster.md", "bash")
    said = "".join(run_small(grid + cell, tmp_path))
    for model, folds in (("cfc-fc", 2), ("sdpa", 2), ("linear-attention", 1)):
        results = sorted((tmp_path / "runs" / "spiral" / model).glob("*/result.json"))
        assert len(results) == said.count(f"spiral, {model}, fold ") == folds
    assert json.loads(results[0].read_bytes())["budget"]["processes"] == 2
