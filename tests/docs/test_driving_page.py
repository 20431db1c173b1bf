"""docs/driving.md says what the committed result files say, and its commands run."""

import json
import re
from pathlib import Path

import pytest

from docs.test_commands import blocks, run

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "driving"
# Small, but of the same form.
SMALL = """
data = { name = "carracing", frames = 2 }
split = { by = "auto" }
training = { batch_size = 8, quick_steps = 12, quick_valid = 30 }
models = { "nac*" = { causal = true, block_size = 1 } }

[network]
d_model = 8
num_heads = 2
image = { conv = [[4, 3, 2], [4, 5, 4], [6, 5, 2]] }
"""


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import driving_page

    return driving_page


def test_the_tables_of_the_page_are_the_result_files(page):
    text = page.PAGE.read_text()
    assert page.page() == text, "run tools/driving_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", text)) == sorted(page.TABLES)


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: "/".join(path.parts[-4:]))
def test_a_committed_result_says_where_it_comes_from(path):
    found = json.loads(path.read_bytes())
    for commit in found.get("commits", [found["provenance"]["commit"]]):
        assert re.fullmatch("[0-9a-f]{40}", commit)  # a clean commit
    assert re.fullmatch(r"nacre (drive race|train) [\w ./-]+", found["provenance"]["command"])


def test_the_expert_finishes_19_of_20_unseen_tracks(page):
    (row,) = page._rows("expert")
    assert int(row["finished"]) >= 19
    assert int(row["laps"]) == 20


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path):
    (_, commands), *_ = blocks("driving.md", "bash")
    collect, train, race = commands.splitlines()
    (tmp_path / "carracing.toml").write_text(SMALL)
    said = run(f"{collect} --limit 450 --jobs 1", tmp_path)
    assert "3 recorded, 0 were there; in carracing" in said
    said = run(train.replace(" carracing ", " carracing.toml "), tmp_path)
    assert "carracing, nac, fold 1 of 3: accuracy" in said
    said = run(f"{race} --limit 30 --jobs 1", tmp_path)
    assert re.search(r"nac +plain +0/2", said)
    made = {path.name for path in (tmp_path / "races").iterdir()}
    named = set(
        re.findall(
            r"`(?:races/)?((?:standings|laps|tracks|drive)[\w-]*\.\w+)`",
            (ROOT / "docs" / "driving.md").read_text(),
        )
    )
    assert named <= made
    assert {"drive-nac-plain.gif", "race.json", "nac"} <= made
