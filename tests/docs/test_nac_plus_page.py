"""docs/nac-plus.md says what the committed result files say, and its commands run."""

import json
import re
from pathlib import Path

import pytest

from docs.test_commands import blocks, run
from nacre.study.recall.run import guessed

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "results" / "recall").rglob("*.json"))


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import nac_plus_page

    return nac_plus_page


def test_the_tables_of_the_page_are_the_result_files(page):
    assert page.page() == page.PAGE.read_text(), "run tools/nac_plus_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", page.PAGE.read_text())) == sorted(page.TABLES)


def test_every_committed_run_is_in_a_table(page):
    shown = {*page.MAIN, *page.PARTS.values(), "trial short-periods"}
    assert {json.loads(path.read_bytes())["model"] for path in FILES} == shown


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_committed_result_says_where_it_comes_from(path):
    result = json.loads(path.read_bytes())
    assert path.parent.name == f"{result['question']}-T{result['length']}-{result['steps']}steps"
    assert path.stem.endswith(f"-seed{result['seed']}")
    assert re.fullmatch("[0-9a-f]{40}", result["provenance"]["commit"])  # a clean commit
    command = result["provenance"]["command"]
    assert re.fullmatch(r"(nacre study recall|python tools/recall_trials\.py studies/recall) [\w :=,'-]+", command)
    assert result["accuracy"] == result["curve"][-1]["accuracy"]


def test_nac_plus_finds_the_item_where_the_issue_asked_for_it(page):
    rows = page._rows()
    for section, least in {("key", 24, 1500): 0.98, ("key", 64, 1500): 0.95, ("key", 256, 3000): 0.95}.items():
        row = rows["nac-plus", *section]
        assert row.seeds == 3
        assert row.accuracy >= least
    assert rows["nac-plus", "time", 64, 1500].accuracy >= 0.95
    blind = rows["sdpa", "time", 64, 1500]  # does not see time: no better than counting values
    assert blind.accuracy <= guessed("time", 64) + 0.03


@pytest.mark.slow
def test_commands_of_the_page_run(tmp_path):
    ((_, commands),) = blocks("nac-plus.md", "bash")
    for command in commands.splitlines():
        said = run(f"{command} --steps 2 --seeds 1", tmp_path)
        runs = command.count(" -m ") * max(1, command.count("--length"))
        assert said.count(": accuracy 0.") == runs
