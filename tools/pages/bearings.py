"""docs/bearings.md, from results/bearings: cells, leak.json and features.json."""

from functools import cache
from statistics import mean
from typing import Any

from nacre.train.report.paper import reported

from ._shared import columns, load, load_cells, mean_of, origin, table

PLACES = {"score": 1, "mae": 3, "phm": 3, "challenge": 3, "monotonicity": 2, "trendability": 2}


@cache
def results() -> list[dict[str, Any]]:
    """All runs."""
    return load_cells("bearings/cells")


def metrics(part: str) -> str:
    """All metrics of a part of the data: best MAE on held-out bearings first, then controls."""
    by_model: dict[str, list[dict[str, Any]]] = {}
    for result in results():
        by_model.setdefault(result["model"], []).append(result)

    def order(model: str) -> tuple[bool, float]:
        mine = by_model[model]
        return mine[0]["control"], mean(result["metrics"]["mae PRONOSTIA"] for result in mine)

    there = [name for name in PLACES if any(f"{name} {part}" in result["metrics"] for result in results())]
    body = []
    for model in sorted(by_model, key=order):
        cells = []
        for name in there:
            found = [r["metrics"][f"{name} {part}"] for r in by_model[model] if f"{name} {part}" in r["metrics"]]
            cells.append(mean_of(found, PLACES[name]) if found else "")
        paper = reported(model, part) if part in ("PRONOSTIA", "XJTU-SY", "HUST") else None
        body.append((f"`{model}`", *cells, str(paper or "")))
    return table(("", *there, "Score reported"), body)


def leak() -> str:
    """What a clock scores on the paper's label."""
    rows = [{"name": name} | row for name, row in load("bearings/leak.json")["bearings"].items()]
    scores = {"Score of the clock": "{clock:.2f}", "Score of always 0.5": "{constant:.0f}"}
    return columns({"": "{name}", "windows": "{windows}", **scores}, rows)


def speed() -> str:
    """Windows a second."""
    found = load("bearings/features.json")
    rates, times = found["windows a second"], found["times faster"]
    body = [(name, f"{rate:,.1f}", f"{times[name]:.1f}") for name, rate in rates.items()]
    return table(("", "windows a second", "nacre is so many times faster"), body)


TABLES = {
    "pronostia": lambda: metrics("PRONOSTIA"),
    "conditions": lambda: metrics("PRONOSTIA conditions 2 and 3"),
    "xjtu": lambda: metrics("XJTU-SY"),
    "hust": lambda: metrics("HUST"),
    "leak": leak,
    "speed": speed,
    "origin": lambda: origin(results()),
}
