"""docs/performance.md says what the files under results/ say, and the tool behind one of them works."""

import json
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield
    torch.backends.mha.set_fastpath_enabled(True)  # the tool turns it off for its process


@pytest.fixture(scope="module")
def table():
    rows = json.loads((ROOT / "results" / "bench.json").read_text())["results"]
    return {row["model"]: row for row in rows}


@pytest.fixture(scope="module")
def sweep():
    rows = json.loads((ROOT / "results" / "bench-sweep.json").read_text())["results"]
    return {(row["model"], row["length"]): row for row in rows}


def test_the_tables_of_the_page_are_the_results(tools):
    import performance_tables

    assert performance_tables.page() == performance_tables.PAGE.read_text(), "run tools/performance_tables.py"
    found = re.findall(r"<!-- table: ([a-z-]+) -->", performance_tables.PAGE.read_text())
    assert sorted(found) == sorted(performance_tables.TABLES)


def test_results_come_from_one_clean_commit_each():
    for name in ("bench", "bench-sweep", "long/bench-sweep", "bench-selection"):
        origin = json.loads((ROOT / "results" / f"{name}.json").read_text())["provenance"]
        assert re.fullmatch("[0-9a-f]{40}", origin["commit"]), name
        assert origin["command"].startswith("nacre bench"), name
        assert "/tmp" not in origin["command"], name


def test_what_the_page_says_in_short_holds(table, sweep):
    assert 2 < table["nac"]["forward"]["ratio"] < 3
    for (model, length), row in sweep.items():
        if model == "torch-mha" and length >= 4096 and row["forward"]["seconds"]:
            assert sweep["nac", length]["forward"]["seconds"] < row["forward"]["seconds"], length


def test_the_page_says_how_well_the_trained_layer_does():
    training = json.loads((ROOT / "results" / "bench-selection.json").read_text())["training"]
    own, other = training["held_out_error"], training["held_out_error_of_persistence"]
    text = " ".join((ROOT / "docs" / "performance.md").read_text().split())
    assert f"its held-out error is {own:.3f}, that of persistence {other:.3f}" in text


def test_what_the_readme_says_holds(table, sweep):
    text = " ".join((ROOT / "README.md").read_text().split())
    nac, theirs = (table[model]["forward"]["ratio"] for model in ("nac", "torch-nac"))
    assert f"takes {nac:.1f} times as long as `torch.nn.MultiheadAttention`" in text
    assert f"is {theirs / nac:.0f} times as fast as the paper's public code" in text
    for (model, length), row in sweep.items():
        if model == "torch-nac" and row["forward"]["seconds"]:
            assert sweep["nac", length]["forward"]["seconds"] < row["forward"]["seconds"], length
    (long,) = json.loads((ROOT / "results" / "long" / "bench-sweep.json").read_text())["results"]
    assert long["length"] == 1_000_000
    assert long["forward"]["state"] == "ok"


def test_the_tool_that_measures_steps(tools, monkeypatch):
    import bench_steps

    written = {}
    monkeypatch.setattr(bench_steps, "ROUNDS", 1)
    monkeypatch.setattr(bench_steps, "LENGTH", 40)
    monkeypatch.setattr(
        bench_steps, "write_result", lambda name, result: written.update({name: result}) or Path(name)
    )
    bench_steps.main()
    result = written["speed-steps.json"]
    for action in ("forward", "step"):
        names = ["PyTorch alone", "+ circuits", "+ selection", "+ mixing", "MultiheadAttention"]
        assert list(result[action]["kernels"]) == names
        assert list(result[action]["sparsity"]) == ["0.0", "0.2", "0.5", "0.9"]
        assert list(result[action]["padding"]) == ["without mask", "with mask"]
        assert all(ms > 0 for part in result[action].values() for ms in part.values())


def test_kernels_are_turned_on_one_by_one(tools):
    import bench_steps

    import nacre.layer.backbone
    import nacre.layer.pairs
    import nacre.layer.selection

    modules = (nacre.layer.backbone, nacre.layer.selection, nacre.layer.pairs)
    with bench_steps.with_kernels("circuits"):
        assert [module.library is bench_steps.NO_KERNELS for module in modules] == [False, True, True]
    assert not any(module.library is bench_steps.NO_KERNELS for module in modules)
