"""docs/nac-plus.md, from results/nac-plus and results/cells/standard.

Of results/nac-plus: `choices` and `parts` have cells of tools/variant_recipes.py, with and without `--steps`,
lesions.json is of tools/measure_lesions.py, `recall` of `nacre study recall`. `version-4` has the same of
the version whose effects began anywhere between 0 and 2 (`choices-without-inhibition`: of a commit at which
nac-plus had none), `version-3` what no table shows any more.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

from nacre.study.recall.table import read_results

from ._shared import RESULTS, load, load_all, load_cells, mean_of, origin, table

MODELS = ("nac-plus", "nac", "sdpa", "cfc-fc", "mtan")
TASKS = (
    "spiral",
    "ettm1-gaps",
    "jena-gaps",
    "ettm1-irregular",
    "jena-irregular",
    "event-mnist",
    "person-activity",
    "ettm1",
    "jena",
)
CHOICES, PARTS = "nac-plus/choices", "nac-plus/parts"
SCORES = {"spiral": ("mse", 4), "ettm1-gaps": ("mse", 4), "event-mnist": ("accuracy", 1)}  # and their places
# Cells that were made before their options were the default.
VERSION_4: dict[str, dict[str, str]] = {
    "nac-plus/version-4/choices": {"inhib": "as-it-is"},
    "nac-plus/version-4/choices-without-inhibition": {"as-it-is": "no-inhibition"},
}
RECALL = "nac-plus/recall"
# What differs from nac-plus, by the variant's name in tools/variant_recipes.py.
CHANGED = {
    "as-it-is": "nac-plus",
    "clock-0": "no clock neurons",
    "clock-4": "clocks of 4 scales instead of 6",
    "clock-8": "clocks of 8 scales instead of 6",
    "near-0": "no near keys: all 16 by match",
    "near-4": "4 near keys of 16",
    "near-12": "12 near keys of 16",
    "keys-8": "8 keys, 4 of them near",
    "keys-32": "32 keys, 16 of them near",
    "keys-32-near-8": "32 keys, 8 of them near",
    "keys-64": "64 keys, 32 of them near",
    "keys-64-near-8": "64 keys, 8 of them near",
    "match-for-choosing": "match chooses keys, but acts on no logit",
    "match-at-start": "match is where a logit starts",
    "match-and-rhythm": "match of elapsed time, too, as in the first version",
    "gain-2": "gain starts at 2 instead of 8",
    "half-of-synapses": "half of the synapses, as `nac`",
    "settle-3": "command neurons do not hear each other",
    "no-inhibition": "no inhibition",
    "units-13": "6 inter and 4 command neurons",
    "units-43": "24 inter and 16 command neurons",
    "tanh-sensory": "tanh sensory neurons",
    "phi-sigmoid": "φ between 0 and 1",
    "values-by-time": "values weighted by t",
}


def choices() -> str:
    """Scores of the variants on validation parts, seed by seed."""
    return _each_seed({CHOICES: {}})


def choices_of_version_4() -> str:
    """The same of version 4."""
    return _each_seed(VERSION_4)


def _each_seed(folders: dict[str, dict[str, str]]) -> str:
    found = [(run, then) for folder, then in folders.items() for run in load_cells(folder)]
    found.sort(key=lambda pair: pair[0]["seed"])
    scores: Scores = {}
    for run, then in found:
        task, variant = _parted(run["task"])
        scores.setdefault((task, then.get(variant, variant)), []).append(run["valid"][SCORES[task][0]])
    return _variants(scores, lambda values, places: ", ".join(f"{value:.{places}f}" for value in values))


def parts() -> str:
    """Scores on test parts with each part of nac-plus taken away: mean ± std over folds, and their number."""
    scores: Scores = {}
    for task in SCORES:
        scores[task, "as-it-is"] = [run["value"] for run in _standard(task) if run["model"] == "nac-plus"]
    for run in load_cells(PARTS):
        scores.setdefault(_parted(run["task"]), []).append(run["value"])
    return _variants(scores, lambda values, places: f"{mean_of(values, places)} [{len(values)}]")


Scores = dict[tuple[str, str], list[float]]  # by task and variant


def _parted(recipe: str) -> tuple[str, str]:
    """Task and variant, of the name of a recipe."""
    task = next(name for name in SCORES if recipe.startswith(name))
    return task, recipe.removeprefix(f"{task}-")


def _variants(scores: Scores, show: Callable[[list[float], int], str]) -> str:
    """A row for each variant, a column for each task that has scores."""
    tasks = [task for task in SCORES if any(task == of for of, _ in scores)]
    body = []
    for name, words in CHANGED.items():
        found = [(scores.get((task, name)), SCORES[task][1]) for task in tasks]
        if any(values for values, _ in found):
            body.append((words, *(show(values, places) if values else "" for values, places in found)))
    return table(("", *(f"`{task}`, {SCORES[task][0]}" for task in tasks)), body)


def effects() -> str:
    """Event MNIST where effects begin anywhere (version 4) and near 1, fold by fold."""
    body = []
    for words, place in (
        ("anywhere between 0 and 2", "nac-plus/version-4/cells/standard/event-mnist.jsonl"),
        ("near 1", "cells/standard/event-mnist.jsonl"),
    ):
        runs = [run for run in load_cells(place) if run["model"] == "nac-plus"]
        valid = ", ".join(f"{run['valid']['accuracy']:.1f}" for run in runs)
        test = ", ".join(f"{run['value']:.1f}" for run in runs)
        body.append((words, valid, test))
    return table(("effects begin", "validation part", "test part"), body)


def recall() -> str:
    """How often `nac-plus` finds one item among many: mean over seeds."""
    rows: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for run in read_results(RESULTS / RECALL):
        asked = [{"length": run["length"], "accuracy": run["accuracy"], "found": run["found"]}, *run["asked_at"]]
        for one in asked:
            key = (run["question"], one["length"], run["length"])
            rows.setdefault(key, []).append((one["accuracy"], one["found"]))
    body = []
    for (question, length, trained), scores in sorted(rows.items()):
        accuracy, found = (sum(column) / len(scores) for column in zip(*scores, strict=True))
        cells = (f"{trained - 1:,}", str(len(scores)), f"{accuracy:.3f}", f"{found:.2f}")
        body.append((f"by {question}, {length - 1:,} items", *cells))
    return table(("asked", "items in training", "seeds", "accuracy", "chosen keys hold the item"), body)


def lesions() -> str:
    """Medians over runs of the metric with parts of the circuit silent."""
    rows = load("nac-plus/lesions.json")["runs"]
    body = []
    for task, model in sorted({(row["task"], row["model"]) for row in rows}, reverse=True):
        mine = [row["metric"] for row in rows if (row["task"], row["model"]) == (task, model)]
        silent = [[run[what] for run in mine if what in run] for what in ("nothing", "circuit", "clock")]
        cells = (f"{median(values):.4f}" if values else "" for values in silent)
        body.append((f"`{model}` on `{task}`", str(len(mine)), *cells, _control(task)))
    titles = ("", "runs", "intact", "circuit silent", "clock silent", "best control")
    return table(titles, body)


def _control(task: str) -> str:
    """The best control of a task with an error, mean over folds."""
    values: dict[str, list[float]] = {}
    for run in _standard(task):
        if run["control"]:
            values.setdefault(run["model"], []).append(run["value"])
    name, best = min(((name, sum(v) / len(v)) for name, v in values.items()), key=lambda pair: pair[1])
    return f"{name} {best:.4f}"


def tasks() -> str:
    """Mean ± std over folds in the shared network, standard profile, the number of folds, and mean ranks."""
    body, ranks = [], []
    for task in TASKS:
        runs = _standard(task)
        values = [[run["value"] for run in runs if run["model"] == model] for model in MODELS]
        if not values[0]:
            continue
        metric = runs[0]["metric"]
        places = 1 if metric == "accuracy" else 4
        cells = (f"{mean_of(found, places)} [{len(found)}]" if found else "" for found in values)
        body.append((f"`{task}`, {metric}", *cells))
        if all(values):
            means = [sum(found) / len(found) * (-1 if metric == "accuracy" else 1) for found in values]
            ranks.append([1 + sorted(means).index(mean) for mean in means])
    mean_ranks = (f"{sum(column) / len(column):.1f}" for column in zip(*ranks, strict=True))
    body.append((f"mean rank in the {len(ranks)} rows that are full", *mean_ranks))
    return table(("task", *(f"`{model}`" for model in MODELS)), body)


def _standard(task: str) -> list[dict[str, Any]]:
    return [run for run in load_cells(f"cells/standard/{task}.jsonl") if run["seed"] == 0]


TABLES = {
    "lesions": lesions,
    "tasks": tasks,
    "parts": parts,
    "recall": recall,
    "effects": effects,
    "choices": choices,
    "choices-of-version-four": choices_of_version_4,
    "origin": lambda: origin([run for folder in (CHOICES, PARTS, *VERSION_4) for run in load_cells(folder)]),
    "recall-origin": lambda: origin(load_all(RECALL)),
}
