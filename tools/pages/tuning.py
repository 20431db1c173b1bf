"""docs/tuning.md, from results/tuning: search.json of `nacre tune`, and cells of both recipes."""

from ._shared import load, load_cells, origin, table


def tuned() -> str:
    """What the search found."""
    found = load("tuning/search.json")
    words = {"best": "best trial", "recipe": "the recipe as it was", "median": "median of the finished trials"}
    body = [(name, f"{found[key]:.4f}") for key, name in words.items()]
    body += [(f"trials {outcome}", str(count)) for outcome, count in found["outcomes"].items()]
    body += [("minutes of trials", f"{found['seconds'] / 60:.0f}")]
    return table(("`nac` on `spiral`, quick profile", "validation loss, or count"), body)


def tuned_point() -> str:
    """The best values."""
    found = load("tuning/search.json")
    best = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in found["best_point"].items()}
    return table(("searched", "range", "best"), [(f"`{k}`", found["space"][k], v) for k, v in best.items()])


def tuned_test() -> str:
    """Errors on test folds: of the recipe before and after the search, and of controls."""
    runs = sorted(load_cells("tuning/cells"), key=lambda run: (run["control"], run["task"]))
    values = {(run["task"], run["model"], run["fold"]): run["value"] for run in runs}
    folds = sorted({run["fold"] for run in runs})
    body = []
    for (task, model), run in {(run["task"], run["model"]): run for run in runs}.items():
        errors = (f"{values[task, model, fold]:.4f}" for fold in folds)
        body.append((f"`{model}` on `{task}`", *errors, f"{run['parameters']:,}"))
    return table(("", *(f"test MSE, fold {fold + 1}" for fold in folds), "parameters"), body)


TABLES = {
    "tuned": tuned,
    "tuned-point": tuned_point,
    "tuned-test": tuned_test,
    "origin": lambda: origin([*load_cells("tuning"), load("tuning/search.json")]),
}
