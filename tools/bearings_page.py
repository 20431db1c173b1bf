"""Write the tables and the picture of docs/bearings.md: python tools/bearings_page.py [RUNS CURVES].

RUNS holds runs of the task bearings, whose result files are taken over into results/bearings/runs; CURVES what
`nacre bearings predict` wrote, of which one picture is. With $NACRE_DATA, the leak of the paper's label is
measured anew on the authors' files.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from performance_tables import MARKED, load, table
from provenance import ROOT, provenance, write_result
from results_page import came_from, replace_results

from nacre._util.files import write_atomic
from nacre._util.plotting import COLOURS, TEXT, TITLE, open_frame, png
from nacre.data.rigs.score import paper_score
from nacre.train.report.paper import reported
from nacre.train.report.statistics import mean_and_std

PAGE = ROOT / "docs" / "bearings.md"
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "results" / "bearings"
PARTS = ("PRONOSTIA", "PRONOSTIA conditions 2 and 3", "XJTU-SY", "HUST")
PICTURES = {"xjtu-sy-Bearing1_1.png": "bearings-xjtu.png"}


def _results() -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((RESULTS / "runs").rglob("result.json"))]


def _models() -> list[str]:
    """Models, best MAE on held-out bearings first, then controls."""
    results = _results()
    names = dict.fromkeys(result["model"] for result in results)

    def order(name: str) -> tuple[bool, float]:
        mine = [result for result in results if result["model"] == name]
        return mine[0]["control"], float(np.mean([result["metrics"]["mae PRONOSTIA"] for result in mine]))

    return sorted(names, key=order)


def _cell(model: str, figure: str, places: int) -> str:
    """Mean and standard deviation over folds; empty where no fold has the figure."""
    values = [r["metrics"][figure] for r in _results() if r["model"] == model and figure in r["metrics"]]
    if not values:
        return ""
    mean, std = mean_and_std(values)
    return f"{mean:.{places}f}" + (f" ± {std:.{places}f}" if std is not None else "")


def figures(part: str) -> str:
    """All figures of a part, a row for each model."""
    names = {"score": 1, "mae": 3, "phm": 3, "challenge": 3, "monotonicity": 2, "trendability": 2}
    there = [n for n in names if any(f"{n} {part}" in result["metrics"] for result in _results())]
    body = []
    for model in _models():
        paper = reported(model, part) if part in ("PRONOSTIA", "XJTU-SY", "HUST") else None
        body.append((f"`{model}`", *(_cell(model, f"{n} {part}", names[n]) for n in there), str(paper or "")))
    return table(("", *there, "Score reported"), body)


def leak() -> str:
    """What a clock scores on the paper's label."""
    rows = load("bearings/leak.json")["bearings"]
    body = [(name, str(r["windows"]), f"{r['clock']:.2f}", f"{r['constant']:.0f}") for name, r in rows.items()]
    return table(("", "windows", "Score of the clock", "Score of always 0.5"), body)


def speed() -> str:
    """Windows a second."""
    found = load("bearings/features.json")
    body = [
        (name, f"{rate:,.1f}", f"{found['times faster'][name]:.1f}")
        for name, rate in found["windows a second"].items()
    ]
    return table(("", "windows a second", "nacre is so many times faster"), body)


def origin() -> str:
    """Where the figures come from."""
    return came_from(RESULTS / "runs", "result.json")


TABLES = {
    "pronostia": lambda: figures(PARTS[0]),
    "conditions": lambda: figures(PARTS[1]),
    "xjtu": lambda: figures(PARTS[2]),
    "hust": lambda: figures(PARTS[3]),
    "leak": leak,
    "speed": speed,
    "origin": origin,
}


def page() -> str:
    """The page with its tables written anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


def measure_leak(data: Path) -> None:
    """Read the paper's label and its column of time in the authors' files, compare them, and draw one."""
    curves = {}
    for path in sorted((data / "bearings" / "author_features_nac").rglob("*.csv.gz")):
        with gzip.open(path, "rt") as file:
            rows = [row for row in csv.DictReader(file) if row.get("Degradation")]
        if rows:
            time, label = (np.array([float(row[name]) for row in rows]) for name in ("Time", "Degradation"))
            rig = path.parent.name.removeprefix("tf_features_").upper()
            curves[f"{rig} {path.name.split('_features')[0]}"] = (time, label)
    found = {}
    for name, (time, label) in curves.items():
        clock = (time - time[0]) / (time[-1] - time[0])
        scores = {"clock": paper_score(clock, label), "constant": paper_score(np.full_like(label, 0.5), label)}
        found[name] = {"windows": len(label), **scores}
    write_result("bearings/leak.json", {**provenance("python tools/bearings_page.py"), "bearings": found})
    write_atomic(IMAGES / "bearings-leak.png", _draw_leak(curves["PRONOSTIA Bearing1_3"]))


def _draw_leak(curve: tuple[np.ndarray, np.ndarray]) -> bytes:
    from matplotlib.figure import Figure

    time, label = curve
    clock = (time - time[0]) / (time[-1] - time[0])
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(time, label, color=COLOURS[0], linewidth=5, alpha=0.45, label="the paper's degradation label")
    ax.plot(time, clock, color=COLOURS[1], linewidth=1.4, label="its input Time, scaled by the end of the file")
    ax.set_xlabel("column Time of the authors' file", fontsize=TEXT)
    ax.set_ylabel("0 to 1", fontsize=TEXT)
    ax.set_title("PRONOSTIA Bearing1_3: the answer is one of the inputs", fontsize=TITLE)
    ax.legend(frameon=False, fontsize=TEXT, loc="upper left")
    open_frame(ax)
    return png(figure)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        replace_results(RESULTS / "runs", Path(sys.argv[1]), "result.json")
        for source, target in PICTURES.items():
            write_atomic(IMAGES / target, (Path(sys.argv[2]) / source).read_bytes())
    if data := os.environ.get("NACRE_DATA"):
        measure_leak(Path(data))
    write_atomic(PAGE, page().encode())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
