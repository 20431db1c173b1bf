"""docs/missing-values.md, from results/missing: cells of the page's recipes and of tools/hole_recipes.py.

summaries.json is of tools/measure_summaries.py.
"""

from ._shared import load, load_cells, mean_of, origin, table

FOLDER = "missing"
ICU = {"icu": "`flags`", "icu-events": "`events`"}  # recipes of the page
MODELS = ("nac-plus", "sdpa", "cfc-fc", "mtan")
CLASSIFIERS = ("linear", "time-only", "majority")  # controls
FORECASTERS = ("linear", "persistence")
HOLES = {
    f"ettm1-{share}-{way}": f"{share} %, {name}"
    for share in (30, 50, 80)
    for way, name in {"flags": "`flags`", "last": "`last`", "interpolation": "interpolated"}.items()
}
Scores = dict[tuple[str, str], list[float]]  # by task and model


def scores(tasks: dict[str, str], models: tuple[str, ...], metric: str) -> tuple[Scores, list[int]]:
    """What there is of these models, over the folds that all of it has, and these folds."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for run in load_cells(FOLDER):
        if run["task"] in tasks and run["model"] in models:
            found.setdefault((run["task"], run["model"]), {})[run["fold"]] = run["metrics"][metric]
    folds = sorted(set.intersection(*map(set, found.values())))
    return {key: [values[fold] for fold in folds] for key, values in found.items()}, folds


def icu() -> str:
    """AUROC of networks, controls and plain methods."""
    found, folds = scores(ICU, (*MODELS, *CLASSIFIERS), "auroc")
    forms = [task for task in ICU if any(key[0] == task for key in found)]
    body = []
    for model in (*MODELS, *CLASSIFIERS):
        cells = [mean_of(found[task, model], 3) if (task, model) in found else "" for task in forms]
        body.append((f"`{model}`" + ("" if model in MODELS else ", a control"), *cells))
    for name, each in load(f"{FOLDER}/summaries.json")["auroc"].items():
        value = mean_of([each[fold] for fold in folds], 3)
        body.append((f"{name}, of summaries", value, *[""] * (len(forms) - 1)))
    return table((_title("AUROC", folds), *(ICU[task] for task in forms)), body)


def holes() -> str:
    """Squared errors of forecasts from windows with holes."""
    found, folds = scores(HOLES, (*MODELS, *FORECASTERS), "mse")
    models = [model for model in (*MODELS, *FORECASTERS) if any(key[1] == model for key in found)]
    body = []
    for task, name in HOLES.items():
        cells = [mean_of(found[task, model], 4) if (task, model) in found else "" for model in models]
        body.append((name, *cells))
    return table((_title("mse", folds), *(f"`{model}`" for model in models)), body)


def _title(metric: str, folds: list[int]) -> str:
    return f"{metric}, " + ("the first fold" if folds == [0] else f"{len(folds)} folds")


def sources() -> str:
    """Where the numbers come from; the page has the commands."""
    return "".join(line for line in origin(load_cells(FOLDER)).splitlines(True) if "`nacre " not in line)


TABLES = {"icu": icu, "holes": holes, "origin": sources}
