"""Tables of the pages are what tools/write_pages.py writes from results/, and results say where they come from."""

import json
import re
from dataclasses import replace

import nacre
from nacre.tasks.recipe import Profile, load_recipe
from nacre.train.identity import Identity
from nacre.train.report.cell_files import add_results
from nacre.train.report.results import find_results
from support.pages import DOCS, RESULTS, tool

write_pages = tool("write_pages")

FILES = {path.relative_to(RESULTS): json.loads(path.read_bytes()) for path in sorted(RESULTS.rglob("*.json"))}
LINES = {path.relative_to(RESULTS): path for path in sorted(RESULTS.rglob("*.jsonl"))}
# What commands may look like, by folder; none names a path of a machine.
COMMANDS = {
    "": r"(nacre bench|python tools/\w+\.py)[\w ,-]*",
    "before-asking": r"nacre train [a-z0-9 -]+",
    "bearings": r"(nacre train|python tools/)[\w ./-]+",
    "driving": r"nacre (drive race|train) [\w ./-]+",
    "inspect": r"(nacre (train|inspect)|python tools/)[\w ./-]+",
    "long": r"nacre bench [\w ./,-]+",
    "missing": r"(nacre train|python tools/)[\w ./-]+",
    "nac-plus": r"(nacre (train|study recall)|python tools/)[\w ./-]+",
    "cells": r"nacre train [a-z0-9 -]+",
    "first-nac-plus": r"nacre train [a-z0-9 -]+",
    "plain": r"nacre train [a-z0-9 ./-]+",
    "recall": r"(nacre study recall|python tools/recall_trials\.py studies/recall) [\w :=,'-]+",
    "studies": r"nacre study [\w ./-]+",
    "tuning": r"nacre (tune|train) [\w ./-]+",
    "zoo": r"nacre bench [\w ./,*'-]+",
}


def test_every_table_of_every_page_is_written_from_the_results():
    marked = {path.stem for path in DOCS.rglob("*.md") if "<!-- table:" in path.read_text()}
    assert marked == set(write_pages.PAGES)
    for page in write_pages.PAGES:
        text = (DOCS / f"{page}.md").read_text()
        assert write_pages.written(page, text) == text, f"run python tools/write_pages.py {page}"
        names = [name for _, name, _ in write_pages.MARKED.findall(text)]
        assert sorted(names) == sorted(write_pages.module_of(page).TABLES), page
        for figure in getattr(write_pages.module_of(page), "FIGURES", ()):
            assert f"](images/{figure})" in text, f"{page}: {figure}"


def test_results_say_where_they_come_from():
    cells = [(path, cell.record) for path, file in LINES.items() for cell in find_results(file).results]
    assert len(FILES) > 100
    assert len(cells) > 400
    for path, result in [*FILES.items(), *cells]:
        origin = result.get("provenance", result)
        for commit in result.get("commits", [origin["commit"]]):
            assert re.fullmatch("[0-9a-f]{40}", commit), f"{path}: not a clean commit"
        folder = path.parts[0] if len(path.parts) > 1 else ""
        assert re.fullmatch(COMMANDS[folder], origin["command"]), f"{path}: {origin['command']}"


def bare(recipe):
    """A recipe as it was before networks had blocks, which is how these results were made."""
    network = replace(recipe.network, block=False, relative=False, linear=False)
    return replace(recipe, network=network, training=replace(recipe.training, schedule="constant"), standard={})


def test_origins_name_the_models_whose_results_are_there_and_no_others():
    shared, page = tool("pages._shared"), write_pages.module_of("results")
    for name, place in (
        ("standard-origin", page.STANDARD),
        ("first-nac-plus-origin", page.FIRST),
        ("origin", page.QUICK),
    ):
        named = set(re.findall(r" -m ([\w*-]+)", page.TABLES[name]()))
        assert named == {cell["model"] for cell in shared.load_cells(place) if not cell["control"]}, name


def test_files_of_cells_are_whole_small_and_as_the_command_writes_them(tmp_path):
    for path, file in LINES.items():
        assert file.stat().st_size < 1_000_000, path
        found = find_results(file)
        assert found.damaged == []
        assert {(cell.profile, cell.task) for cell in found.results} == {(path.parent.name, path.stem)}, path
        add_results([file], tmp_path)
        assert (tmp_path / path.parent.name / path.name).read_bytes() == file.read_bytes(), path
        (tmp_path / path.parent.name / path.name).unlink()


def test_cells_are_of_the_recipes_of_today():
    for cell in find_results(RESULTS / "cells").results:
        recipe, profile = load_recipe(cell.task), Profile(cell.profile)
        if profile is Profile.QUICK:
            recipe = bare(recipe)
        made = Identity(recipe, cell.model, cell.seed, cell.data, cell.split, profile, version=cell.version)
        where = f"{cell.directory}, {cell.model}: the recipe has changed; train again"
        assert (cell.recipe, cell.fingerprint) == (made.settings, made.fingerprint), where


def test_results_of_recall_are_what_their_paths_say():
    for path, result in FILES.items():
        if path.parts[0] == "recall":
            assert path.parent.name == f"{result['question']}-T{result['length']}-{result['steps']}steps", path
            assert path.stem.endswith(f"-seed{result['seed']}"), path
            assert result["accuracy"] == result["curve"][-1]["accuracy"], path


def test_every_model_is_on_the_pages_of_models():
    table = write_pages.module_of("models").models()
    classes = (DOCS / "model-classes.md").read_text()
    for name in nacre.list_models():
        assert f"| `{name}` |" in table
        if nacre.model_info(name).kind != "NAC":
            model = type(nacre.create(name, d_input=5, d_model=8, num_heads=2))
            assert f"::: {model.__module__}.{model.__name__}\n" in classes
