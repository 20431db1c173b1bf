"""docs/inspect.md says what the committed result files say, and its commands run."""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from docs.test_commands import blocks, run, run_small

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "inspect"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import inspect_page

    return inspect_page


def test_the_tables_of_the_page_are_the_result_files(page):
    text = page.PAGE.read_text()
    assert page.page() == text, "run tools/inspect_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", text)) == sorted(page.TABLES)


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: "/".join(path.parts[-2:]))
def test_a_committed_result_says_where_it_comes_from(path):
    found = json.loads(path.read_bytes())
    where = found.get("provenance", found)
    assert re.fullmatch("[0-9a-f]{40}", where["commit"])  # a clean commit
    assert re.fullmatch(r"(nacre (train|inspect)|python tools/)[\w ./-]+", where["command"])


@pytest.mark.parametrize("name", ["spiral", "spiral-plus", "drive"])
def test_the_gates_of_trained_runs_move(page, name):
    found = page._of(name)
    assert min(found["phi_std"]) > 0
    assert min(found["omega_std"]) > 0
    assert found["tuning"]["permutations"] >= 200


def test_what_the_page_says_was_found(page):
    """Sentences that no table writes."""
    drive, spiral = page._of("drive"), page._of("spiral")
    for found in (drive, spiral):
        silent = found["lesions"]["groups"]
        assert max(silent[group]["change"] for group in ("inter", "command", "motor")) < 0.02
        assert min(silent[group]["change"] for group in ("query", "key", "value")) > 0.2
        assert sum(found["dead"].values()) == 0
    assert min(drive["effective_keys"]["mean"]) > 3.9
    assert min(spiral["effective_keys"]["mean"]) > 7.9
    assert drive["tuning"]["above"]["inter"] > 0.3 * drive["neurons"]["inter"]


def test_the_viewer_is_as_fast_as_it_should_be(page):
    found = page.load("inspect/viewer.json")
    assert found["record"]["steps"] == 100_000
    assert found["first_picture_ms"]["largest"] < 2000
    assert found["drag_ms"]["p95"] < 100
    first, *_, last = found["server_megabytes_after_each_round"]
    assert last < 1.1 * first


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    (_, start), (_, look), *_ = blocks("inspect.md", "bash")
    train, view = start.splitlines()
    (said,) = run_small(train, tmp_path)
    assert "spiral, nac, fold 1 of 5: mse" in said
    command = [sys.executable, "-m", *shlex.split(view), "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[-1] for line in server.stderr if "open http" in line)
            assert b"nacre: looking inside" in urllib.request.urlopen(address, timeout=20).read()
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
    for command in look.splitlines():
        run(command, tmp_path)
    assert "<svg" in (tmp_path / "activity.svg").read_text()
    names = {"tuning.csv", "gates.csv", "lesions.csv", "inspect.json"}
    assert {path.name for path in (tmp_path / "tables").iterdir()} == names
