"""docs/harness.md, from results/standard and results/plain: result.json of each run."""

from typing import Any

from ._shared import load_all, origin, table

MODELS = ("sdpa", "cfc-fc", "nac")
ORACLES = ("last-action", "life-clock")  # controls that know true answers


def network() -> str:
    """Fold 0: the layer alone and in blocks, after the same number of steps, and the best control."""
    before, after = (_first_folds(folder) for folder in ("plain", "standard"))
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
    """Seconds of one core for a cell of the standard profile, by task and model."""
    runs = [r for r in load_all("standard") if not r["control"]]
    models = list(dict.fromkeys(r["model"] for r in runs))
    body = []
    for task in dict.fromkeys(r["task"] for r in runs):
        cells = [[r["seconds"] for r in runs if (r["task"], r["model"]) == (task, model)] for model in models]
        body.append([f"`{task}`", *(f"{sum(cell) / len(cell):.0f}" if cell else "" for cell in cells)])
    return table(["task", *(f"`{model}`" for model in models)], body)


def _first_folds(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["task"], r["model"]): r for r in load_all(folder) if r["fold"] == 0 and r["seed"] == 0}


def _value(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if result["value"] is None:
        return "diverged"
    return f"{result['value']:.1f}" if result["metric"] == "accuracy" else f"{result['value']:.4f}"


TABLES = {"network": network, "seconds": seconds, "origin": lambda: origin("plain")}
