"""docs/results.md says what the committed result files say."""

import json
import re
from pathlib import Path

import pytest

from nacre.tasks.recipe import load_recipe

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "results" / "quick").rglob("result.json"))


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import results_page

    return results_page


def test_the_tables_of_the_page_are_the_result_files(page):
    assert page.page() == page.PAGE.read_text(), "run tools/results_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", page.PAGE.read_text())) == sorted(page.TABLES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:-1]))
def test_a_committed_result_says_where_it_comes_from(path):
    result = json.loads(path.read_bytes())
    assert path.parts[-4:-1] == (result["task"], result["model"], f"fold{result['fold']}-seed{result['seed']}")
    assert re.fullmatch("[0-9a-f]{40}", result["provenance"]["commit"])  # a clean commit
    assert re.fullmatch("nacre train [a-z0-9 -]+", result["provenance"]["command"])  # no path of a machine
    assert result["recipe"] == load_recipe(result["task"]).digest, "the recipe has changed; train again"


def test_controls_and_the_first_models_are_complete():
    have = {path.parts[-4:-1] for path in FILES}
    controls = {
        "event-mnist": ("majority", "linear", "time-only"),
        "person-activity": ("majority", "linear", "time-only"),
        "ettm1": ("mean", "persistence", "linear", "time-only"),
        "jena": ("mean", "persistence", "linear", "time-only"),
    }
    for task, names in controls.items():
        for model in (*names, "nac", "sdpa", "cfc-ncp"):
            assert {(task, model, f"fold{fold}-seed0") for fold in range(5)} <= have


def test_taking_over_replaces_what_was_there(page, monkeypatch, tmp_path):
    monkeypatch.setattr(page, "RUNS", tmp_path / "kept")
    for name in ("a", "b"):
        folder = tmp_path / name / "task" / "nac" / "fold0-seed0"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(name)
        (folder / "log.csv").write_text("")
        assert page.take_over(tmp_path / name) == 1
    assert [p.read_text() for p in (tmp_path / "kept").rglob("*") if p.is_file()] == ["b"]
