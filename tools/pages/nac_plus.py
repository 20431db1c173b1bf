"""docs/nac-plus.md, from results/nac-plus and results/cells/standard.

results/nac-plus: `choices` has cells of tools/variant_recipes.py, `choices-without-inhibition` those of a commit
at which nac-plus had none, lesions.json is of tools/measure_lesions.py; `version-3` has what no table shows any
more.
"""

from statistics import median
from typing import Any

from ._shared import load, load_cells, mean_of, origin, table

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
CHOICE_TASKS = ("spiral", "ettm1-gaps")
# Cells that were made before their options were the default.
THEN: dict[str, dict[str, str]] = {
    "choices": {"inhib": "as-it-is"},
    "choices-without-inhibition": {"as-it-is": "no-inhibition"},
}
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
    """Errors of the variants on validation parts, seed by seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for folder, then in THEN.items():
        for run in load_cells(f"nac-plus/{folder}"):
            task = next(name for name in CHOICE_TASKS if run["task"].startswith(name))
            variant: str = run["task"].removeprefix(f"{task}-")
            found.setdefault((task, then.get(variant, variant)), []).append(run["valid"]["mse"])
    body = []
    for name, words in CHANGED.items():
        cells = [found.get((task, name), []) for task in CHOICE_TASKS]
        if any(cells):
            body.append((words, *(", ".join(f"{x:.4f}" for x in cell) for cell in cells)))
    return table(("", *(f"`{task}`" for task in CHOICE_TASKS)), body)


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
    """Mean ± std over folds in the shared network, standard profile, and the number of folds."""
    body = []
    for task in TASKS:
        runs = _standard(task)
        if not any(run["model"] == "nac-plus" for run in runs):
            continue
        cells = []
        for model in MODELS:
            values = [run["value"] for run in runs if run["model"] == model]
            places = 1 if runs[0]["metric"] == "accuracy" else 4
            cells.append(f"{mean_of(values, places)} [{len(values)}]" if values else "")
        body.append((f"`{task}`, {runs[0]['metric']}", *cells))
    return table(("task", *(f"`{model}`" for model in MODELS)), body)


def _standard(task: str) -> list[dict[str, Any]]:
    return [run for run in load_cells(f"cells/standard/{task}.jsonl") if run["seed"] == 0]


TABLES = {
    "lesions": lesions,
    "tasks": tasks,
    "choices": choices,
    "choices-origin": lambda: origin([run for folder in THEN for run in load_cells(f"nac-plus/{folder}")]),
}
