"""docs/bearings.md says what the committed result files say, and its commands run."""

import json
import re
from pathlib import Path
from statistics import median

import pytest

from bearings.test_predict import RECIPE
from docs.test_commands import blocks, run
from support.bearings import write_pronostia

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "bearings"


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import bearings_page

    return bearings_page


def test_the_tables_of_the_page_are_the_result_files(page):
    text = page.PAGE.read_text()
    assert page.page() == text, "run tools/bearings_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", text)) == sorted(page.TABLES)


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: "/".join(path.parts[-3:]))
def test_a_committed_result_says_where_it_comes_from(path):
    found = json.loads(path.read_bytes())
    where = found.get("provenance", found)
    assert re.fullmatch("[0-9a-f]{40}", where["commit"])  # a clean commit
    assert re.fullmatch(r"(nacre train|python tools/)[\w ./-]+", where["command"])


def test_every_model_of_the_page_has_all_folds_of_one_data_set(page):
    results = page._results()
    models = {result["model"] for result in results}
    assert {"nac", "sdpa", "cfc-ncp", "ct-rnn", "mean", "linear-rms", "time-only", "life-clock"} <= models
    assert {(r["model"], r["fold"]) for r in results} == {(m, fold) for m in models for fold in range(7)}
    assert len({result["data"]["digest"] for result in results}) == 1
    assert len({result["budget"]["steps"] for result in results if not result["control"]}) == 1


def test_the_leak_is_as_large_as_the_page_says(page):
    found = page.load("bearings/leak.json")["bearings"]
    for name, scores in found.items():
        assert scores["clock"] < (27.82 if name.startswith("HUST") else 37.75)  # the paper's best
        assert scores["clock"] < scores["constant"] / 2
    assert median(scores["clock"] for scores in found.values()) < 1


def test_extraction_is_faster_than_pywavelets_and_equal_to_it(page):
    found = page.load("bearings/features.json")
    assert min(times for name, times in found["times faster"].items() if name != "nacre") > 5
    assert max(found["largest relative difference"].values()) < 1e-6


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    (_, commands), *_ = blocks("bearings.md", "bash")
    features, train, predict = commands.splitlines()
    for number, snapshots in enumerate((8, 9, 10), 1):
        write_pronostia(tmp_path / "RECORDINGS" / f"Bearing1_{number}", snapshots)
    write_pronostia(tmp_path / "NEW" / "mine", 7)
    (tmp_path / "bearings.toml").write_text(RECIPE)
    assert "3 tables; in bearings-features" in run(features, tmp_path)
    assert "bearings, nac, fold 3 of 3: mse" in run(train.replace(" bearings ", " bearings.toml "), tmp_path)
    assert "pronostia mine: share of life used" in run(predict, tmp_path)
    assert {path.name for path in (tmp_path / "prognosis").iterdir()} == {
        "features", "pronostia-mine.csv", "pronostia-mine.png",
    }  # fmt: skip
