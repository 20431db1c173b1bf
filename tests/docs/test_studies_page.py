"""docs/studies.md and docs/tuning.md say what the committed result files say, and their commands run."""

import json
import re
from pathlib import Path

import pytest

from docs.test_commands import blocks, run, run_small
from nacre.study.uat import command as uat
from nacre.study.uat import run as uat_run
from nacre.tasks.recipe import Profile
from support.train import nacre

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "results" / "studies").rglob("*.json"))
TUNING = sorted((ROOT / "results" / "tuning").rglob("*.json"))


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import studies_page

    return studies_page


def test_the_tables_of_the_pages_are_the_result_files(page):
    marks = []
    for path in page.PAGES:
        assert page.page(path) == path.read_text(), "run tools/studies_page.py"
        marks += re.findall(r"<!-- table: ([a-z-]+) -->", path.read_text())
    assert sorted(marks) == sorted(page.TABLES)


@pytest.mark.parametrize("path", FILES + TUNING, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_committed_result_says_where_it_comes_from(path):
    origin = json.loads(path.read_bytes())["provenance"]
    assert re.fullmatch("[0-9a-f]{40}", origin["commit"])  # a clean commit
    assert re.fullmatch(r"nacre (study|tune|train) [\w ./-]+", origin["command"])
    assert not origin["command"].startswith("/")


def test_frozen_the_bound_holds_and_errors_are_of_second_order(page):
    rows = page.frozen_rows(page.read_frozen(page.STUDIES / "frozen"))
    assert len(rows) == 8
    for row in rows:
        if row.regime == "step":
            assert row.bound_holds is None
            assert row.halved_slope == pytest.approx(1, abs=0.1)
        else:
            assert row.bound_holds
            assert row.halved_slope == pytest.approx(2, abs=0.1)
        if row.strength == "reported":
            assert row.limit < min(row.reported_mean, row.reported_max)  # as the page says


def test_uat_the_widest_weighted_layer_has_a_third_of_the_error_of_the_narrowest_on_the_sine(page):
    rows = [
        row
        for row in page.uat_rows(page.read_uat(page.STUDIES / "uat"))
        if (row.target, row.variant) == ("sin", "weighted")
    ]
    assert {row.seeds for row in rows} == {3}
    assert rows[-1].error <= rows[0].error / 3


def test_spiral_the_quick_profile_is_whole(page):
    from nacre.study.spiral.command import SpiralStudy

    committed = {path.relative_to(page.STUDIES / "spiral") for path in FILES if "spiral" in path.parts}
    assert committed == {one.path(Path()) for one in SpiralStudy().runs()}


def test_the_search_beats_its_median_and_the_recipe(page):
    found = page._search()
    assert found["best"] < found["median"]
    assert found["best"] < found["recipe"]
    assert sum(found["outcomes"][word] for word in found["outcomes"] if word != "interrupted") == 12
    assert found["outcomes"]["interrupted"] == 1  # as the page says


@pytest.mark.slow
def test_the_commands_of_the_tuning_page(tmp_path):
    ((_, commands),) = blocks("tuning.md", "bash")
    said = run_small(commands, tmp_path)
    assert "best validation loss" in said[0]
    assert "spiral-tuned-cfc-fc, cfc-fc, fold 1 of 5: mse" in said[1]


@pytest.mark.slow
def test_the_commands_of_the_studies_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((_, text),) = blocks("studies.md", "bash")
    frozen, approximate, spiral = text.splitlines()
    assert "oscillatory" in run(frozen, tmp_path)
    # Minutes of training each: here with budgets of two steps.
    budgets = {target: budget._replace(steps=2) for target, budget in uat_run.BUDGETS[Profile.QUICK].items()}
    monkeypatch.setitem(uat.BUDGETS, Profile.QUICK, budgets)
    assert nacre(monkeypatch, *approximate.split()[1:]) == 0
    assert nacre(monkeypatch, *spiral.split()[1:], "--steps", 2, "--seeds", 1, "--section", "sparsity") == 0
    for name in ("frozen", "uat", "spiral"):
        assert (tmp_path / "studies" / name / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "studies" / name / f"{name}.csv").exists()
