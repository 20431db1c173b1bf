"""docs/results.md, from results/cells and results/first-nac-plus: finished cells."""

from nacre.train.report.paper_tables import markdown_paper_table
from nacre.train.report.tables import markdown_table

from ._shared import RESULTS, load_cells, mean_of, origin, table

STANDARD, QUICK, FIRST = "cells/standard", "cells/quick", "first-nac-plus"


def first_nac_plus() -> str:
    """Mean ± std over folds of the first version of nac-plus."""
    runs = load_cells(FIRST)
    body = []
    for task in dict.fromkeys(run["task"] for run in runs):
        mine = [run for run in runs if run["task"] == task]
        places = 2 if mine[0]["metric"] == "accuracy" else 4
        value = mean_of([run["value"] for run in mine], places)
        body.append((f"`{task}`, {mine[0]['metric']}", value, str(len(mine)), f"{mine[0]['parameters']:,}"))
    return table(("task", "nac-plus, version 2", "folds", "parameters"), body)


def parts_of_ettm1() -> str:
    """Errors on validation and test parts, seed 0, fold by fold."""
    runs = load_cells(f"{STANDARD}/ettm1.jsonl")
    body = []
    for model in ("persistence", "linear", "sdpa", "cfc-fc", "nac"):
        mine = sorted((run for run in runs if run["model"] == model), key=lambda run: run["fold"])
        valid = ", ".join(f"{run['valid']['mse']:.4f}" for run in mine)
        body.append((f"`{model}`", valid, ", ".join(f"{run['value']:.4f}" for run in mine)))
    return table(("", "validation parts", "test part"), body)


TABLES = {
    "standard": lambda: markdown_table(RESULTS / STANDARD),
    "parts": parts_of_ettm1,
    "standard-origin": lambda: origin(load_cells(STANDARD)),
    "first-nac-plus": first_nac_plus,
    "first-nac-plus-origin": lambda: origin(load_cells(FIRST)),
    "tasks": lambda: markdown_table(RESULTS / QUICK),
    "paper": lambda: markdown_paper_table(RESULTS),
    "origin": lambda: origin(load_cells(QUICK)),
}
