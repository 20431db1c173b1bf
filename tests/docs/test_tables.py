"""Tables of the pages are what tools/write_pages.py writes from results/, and results say where they come from."""

import json
import re
from dataclasses import replace

import nacre
from nacre.tasks.recipe import Profile, load_recipe
from support.pages import DOCS, RESULTS, tool

write_pages = tool("write_pages")

FILES = {path.relative_to(RESULTS): json.loads(path.read_bytes()) for path in sorted(RESULTS.rglob("*.json"))}
# What commands may look like, by folder; none names a path of a machine.
COMMANDS = {
    "": r"(nacre bench|python tools/\w+\.py)[\w ,-]*",
    "bearings": r"(nacre train|python tools/)[\w ./-]+",
    "driving": r"nacre (drive race|train) [\w ./-]+",
    "inspect": r"(nacre (train|inspect)|python tools/)[\w ./-]+",
    "long": r"nacre bench [\w ./,-]+",
    "nac-plus": r"(nacre train|python tools/)[\w ./-]+",
    "plain": r"nacre train [a-z0-9 ./-]+",
    "quick": r"nacre train [a-z0-9 -]+",
    "standard": r"nacre train [a-z0-9 -]+",
    "standard-first-nac-plus": r"nacre train [a-z0-9 -]+",
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
    assert len(FILES) > 400
    for path, result in FILES.items():
        origin = result.get("provenance", result)
        for commit in result.get("commits", [origin["commit"]]):
            assert re.fullmatch("[0-9a-f]{40}", commit), f"{path}: not a clean commit"
        folder = path.parts[0] if len(path.parts) > 1 else ""
        assert re.fullmatch(COMMANDS[folder], origin["command"]), f"{path}: {origin['command']}"


def bare(recipe):
    """A recipe as it was before networks had blocks, which is how these results were made."""
    network = replace(recipe.network, block=False, relative=False, linear=False)
    return replace(recipe, network=network, training=replace(recipe.training, schedule="constant"), standard={})


def test_results_are_what_their_paths_say():
    for path, result in FILES.items():
        if path.parts[0] == "quick":
            cell = (result["task"], result["model"], f"fold{result['fold']}-seed{result['seed']}")
            assert path.parts[1:] == (*cell, "result.json"), path
            assert result["recipe"] == bare(load_recipe(result["task"])).digest, f"{path}: the recipe has changed"
        if path.parts[0] == "standard":
            assert path.parts[1:3] == (result["task"], result["model"]), path
            digest = load_recipe(result["task"]).at(Profile.STANDARD).digest
            assert result["recipe"] == digest, f"{path}: the recipe has changed; train again"
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
