"""Finished cells as lines: adding, merging, skipping what is known, tables."""

import json
from dataclasses import replace

import pytest

from nacre.tasks.recipe import Profile
from nacre.train import cell
from nacre.train.grid import run_grid
from nacre.train.report.cell_files import Added, add_results, known_cells
from nacre.train.report.results import find_results
from nacre.train.report.tables import markdown_table
from support.runs import fields, write_folds, write_run
from support.train import MODEL, nacre
from support.train import tiny as tiny_grid


def cells_of(folder):
    """(model, fold, seed, version, value) of all lines."""
    return [(r.model, r.fold, r.seed, r.version, r.value) for r in find_results(folder).results]


def test_runs_become_sorted_lines_of_a_file_for_each_task_and_profile(tmp_path):
    write_folds(tmp_path / "runs", "sdpa", [0.3, 0.4])
    write_folds(tmp_path / "runs", "nac", [0.1], files={"a.csv": "f" * 64})
    write_run(tmp_path / "runs", task="jena", profile="standard")
    added, found = add_results([tmp_path / "runs"], tmp_path / "kept")
    assert (added, found.damaged) == (Added(new=4), [])
    files = sorted(path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").rglob("*.*"))
    assert files == ["quick/ettm1.jsonl", "standard/jena.jsonl"]
    lines = (tmp_path / "kept/quick/ettm1.jsonl").read_text().splitlines()
    assert [json.loads(line)["model"] for line in lines] == ["nac", "sdpa", "sdpa"]
    wanted = fields("nac", 0, 0, 0.1)
    del wanted["data"]["files"]  # checksums of single files are not kept
    assert json.loads(lines[0]) == wanted


def test_adding_twice_or_in_another_order_gives_the_same_file(tmp_path):
    write_folds(tmp_path / "a", "nac", [0.1, 0.2], fingerprint="x")
    write_folds(tmp_path / "b", "cta", [0.3], fingerprint="y")
    add_results([tmp_path / "a", tmp_path / "b"], tmp_path / "one")
    for source in ("b", "a", "b"):
        added, _ = add_results([tmp_path / source], tmp_path / "two")
    assert added == Added(known=1)
    one, two = (tmp_path / name / "quick/ettm1.jsonl" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert add_results([one], tmp_path / "three")[0] == Added(new=3)  # lines can be added like runs


def test_a_newer_version_takes_the_place_of_the_same_cell_only(tmp_path):
    kept = tmp_path / "kept"
    write_folds(tmp_path / "old", "nac", [0.1, 0.2], version=1, fingerprint="v1")
    write_folds(tmp_path / "new", "nac", [0.5], version=2, fingerprint="v2")
    add_results([tmp_path / "old"], kept)
    assert add_results([tmp_path / "new"], kept)[0] == Added(replaced=1)
    assert cells_of(kept) == [("nac", 0, 0, 2, 0.5), ("nac", 1, 0, 1, 0.2)]
    assert add_results([tmp_path / "old"], kept)[0] == Added(older=1, known=1)
    assert cells_of(kept) == [("nac", 0, 0, 2, 0.5), ("nac", 1, 0, 1, 0.2)]
    text = markdown_table(kept)  # versions are never mixed in a mean
    assert "| nac | 0.5000 | 1/5 |" in text.replace("**", "")
    assert "1 run of nac on ettm1: left out, version 1 of the model" in text


def test_the_same_cell_under_another_recipe_or_on_other_data_stays_beside(tmp_path):
    for name, changes in {"a": {}, "b": {"recipe": "e" * 64}, "c": {"digest": "f" * 64}}.items():
        write_run(tmp_path / name, **changes)
        assert add_results([tmp_path / name], tmp_path / "kept")[0] == Added(new=1)


def test_a_merge_of_git_that_keeps_lines_of_both_sides_is_tidied(tmp_path):
    path = tmp_path / "kept/quick/ettm1.jsonl"
    path.parent.mkdir(parents=True)
    versions = [fields(version=version, value=version) for version in (2, 3, 1)]
    path.write_text("".join(json.dumps(one) + "\n" for one in versions))
    write_run(tmp_path / "runs", "cta")
    add_results([tmp_path / "runs"], tmp_path / "kept")
    assert [cell[:4] for cell in cells_of(path)] == [("cta", 0, 0, 1), ("nac", 0, 0, 3)]


def test_damaged_lines_and_runs_are_named_and_the_others_taken(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps(fields()) + "\n<<<<<<< ours\n{}\n")
    (write_run(tmp_path / "runs", "cta") / "result.json").write_text("{")
    write_run(tmp_path / "runs", "sdpa")
    added, found = add_results([path, tmp_path / "runs"], tmp_path / "kept")
    assert added.new == 2
    assert [line.partition(" is damaged")[0] for line in found.damaged] == [
        f"left out: line 2 of {path}",
        f"left out: line 3 of {path}",
        f"left out: {tmp_path}/runs/ettm1/cta/fold0-seed0/result.json",
    ]


@pytest.fixture
def tiny(tmp_path):
    grid = replace(tiny_grid(tmp_path), controls=True)
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(recipe.read_text().replace("quick_valid = 4", "quick_valid = 4, steps = 20"))
    return grid


@pytest.mark.slow
def test_a_grid_goes_on_elsewhere_without_training_anything_twice(tiny, tmp_path, monkeypatch, capsys):
    first = run_grid(replace(tiny, folds=1))
    add_results([tiny.out], tmp_path / "kept")
    elsewhere = replace(tiny, out=tmp_path / "elsewhere", known=[tmp_path / "kept"])
    second = run_grid(elsewhere)
    assert f"{len(first)} of {2 * len(first)} cells are in " in " ".join(capsys.readouterr().out.split())
    assert {(r["model"], r["fold"]) for r in second} == {(r["model"], 1) for r in first}
    add_results([tmp_path / "elsewhere"], tmp_path / "kept")
    assert run_grid(replace(elsewhere, out=tmp_path / "third")) == []
    # Another profile trains the model again, and no control.
    more = run_grid(replace(elsewhere, out=tmp_path / "standard", profile=Profile.STANDARD))
    assert {(r["model"], r["fold"]) for r in more} == {(MODEL, 0), (MODEL, 1)}
    # A raised version makes exactly this model's cells new.
    known = cell.model_info
    monkeypatch.setattr(cell, "model_info", lambda name: replace(known(name), version=known(name).version + 1))
    again = run_grid(replace(elsewhere, out=tmp_path / "fourth"))
    assert {r["model"] for r in again} == {MODEL}


def test_two_profiles_share_controls_in_one_directory(tiny):
    first = run_grid(replace(tiny, models=["mean"], folds=1))
    assert {r["model"] for r in first} >= {"mean", "linear"}
    assert run_grid(replace(tiny, models=["mean"], folds=1, profile=Profile.PAPER)) == []


def test_the_commands_add_and_show(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_folds("runs", "nac", [0.1, 0.2])
    assert nacre(monkeypatch, "results", "add", "runs") == 0
    assert "results/cells: 2 new" in capsys.readouterr().out
    assert nacre(monkeypatch, "table", "results/cells/quick/ettm1.jsonl", "--csv", "table.csv") == 0
    assert ",nac,False,0.15" in (tmp_path / "table.csv").read_text()


def test_known_cells_are_those_of_runs_and_lines(tmp_path):
    write_run(tmp_path / "runs", fingerprint="one")
    write_run(tmp_path / "more", "sdpa", fingerprint="two")
    add_results([tmp_path / "more"], tmp_path / "kept")
    (tmp_path / "empty").mkdir()
    (write_run(tmp_path / "runs", "cta") / "result.json").write_text("{")
    found = known_cells([tmp_path / "runs", tmp_path / "kept", tmp_path / "empty"])
    assert [result.fingerprint for result in found.results] == ["one", "two"]
    assert len(found.damaged) == 1
    with pytest.raises(FileNotFoundError, match="gone is not there; known must name folders"):
        known_cells([tmp_path / "gone"])
