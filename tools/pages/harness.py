"""docs/harness.md, from finished cells and from an estimate.

results/plain has networks without blocks, of before rows that ask only asked; so has results/before-asking of the
tasks whose rows ask, and results/cells/standard of the others.
"""

from typing import Any

from ._protocol import protocol
from ._shared import load, load_cells, number, origin, table

MODELS = ("sdpa", "cfc-fc", "nac")
ORACLES = ("last-action", "life-clock")  # controls that know true answers


def network() -> str:
    """Fold 0: the layer alone and in blocks, after the same number of steps, and the best control."""
    before, *after = (_first_folds(folder) for folder in ("plain", "cells/standard", "before-asking"))
    after = after[0] | after[1]
    body = []
    for task in dict.fromkeys(task for task, _ in before):
        one = next(result for (name, _), result in after.items() if name == task)
        cells = [f"`{task}`, {one['metric']}"]
        for model in MODELS:
            cells += [_value(runs.get((task, model))) for runs in (before, after)]
        fair = [r for r in after.values() if r["control"] and r["model"] not in ORACLES]
        controls = [r for r in fair if r["task"] == task]
        best = (max if one["better"] == "higher" else min)(controls, key=lambda r: r["value"])
        body.append([*cells, f"{best['model']} {_value(best)}"])
    titles = [f"{model}, {what}" for model in MODELS for what in ("bare", "in blocks")]
    return table(["task", *titles, "best control"], body)


def seconds() -> str:
    """Seconds of one core for a cell of the standard profile that does not stop early, by task and model."""
    rows = {(row["task"], row["model"]): row for row in load("standard-estimate.json")["results"]}
    body = []
    for task in dict.fromkeys(task for task, _ in rows):
        cells = [number(rows[task, model]["cell_seconds"]) for model in (*MODELS, "nac-plus")]
        body.append([f"`{task}`", *cells])
    return table(["task", *(f"`{model}`" for model in (*MODELS, "nac-plus"))], body)


def estimate() -> str:
    """Hours of one core that a fold of all tasks takes with each model at most, and all models together."""
    found = load("standard-estimate.json")
    cells: dict[str, dict[str, float]] = {}  # by model, then by task: hours
    for row in found["results"]:
        cells.setdefault(row["model"], {})[row["task"]] = row["cell_seconds"] / 3600
    tasks = dict.fromkeys(row["task"] for row in found["results"])
    for model, hours in cells.items():
        if hours.keys() != tasks.keys():
            lacking = ", ".join(tasks.keys() - hours.keys())
            raise ValueError(f"{model} is not measured on {lacking}; run python tools/estimate_grid.py again")
    totals = {model: sum(hours.values()) for model, hours in cells.items()}
    body = [
        [f"`{model}`", number(hours), number(hours / totals["sdpa"])]
        for model, hours in sorted(totals.items(), key=lambda pair: pair[1])
    ]
    folds = sum(row["folds"] * row["cell_seconds"] for row in found["results"]) / 3600
    commit, machine = found["provenance"]["commit"], found["provenance"]["machine"]
    together = (
        f"All {len(totals)} models together: {number(sum(totals.values()))} hours for one fold of "
        f"{', '.join(f'`{task}`' for task in tasks)}, {number(folds)} for all folds (commit `{commit}`, "
        f"{machine['processor']}, threads of torch: {machine['threads']})."
    )
    return f"{table(('model', 'hours', 'ratio to `sdpa`'), body)}\n{together}\n"


def _first_folds(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["task"], r["model"]): r for r in load_cells(folder) if r["fold"] == 0 and r["seed"] == 0}


def _value(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if result["value"] is None:
        return "diverged"
    return f"{result['value']:.1f}" if result["metric"] == "accuracy" else f"{result['value']:.4f}"


TABLES = {
    "protocol": protocol,
    "network": network,
    "seconds": seconds,
    "estimate": estimate,
    "origin": lambda: origin(load_cells("plain")),
}
