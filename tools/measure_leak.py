"""Score a clock on the paper's label of bearings, into results/bearings/leak.json: python tools/measure_leak.py.

Reads the authors' feature files in $NACRE_DATA, and draws one of them as docs/images/bearings-leak.png.
"""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from measured import provenance, write_result

from nacre._util.files import write_atomic
from nacre._util.plotting import COLOURS, TEXT, TITLE, open_frame, png
from nacre.data.rigs.life_metrics import paper_score

DRAWN = "PRONOSTIA Bearing1_3"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "bearings-leak.png"


def main(data: Path) -> None:
    """Compare the label with the clock, write and draw."""
    found = {}
    for path in sorted((data / "bearings" / "author_features_nac").rglob("*.csv.gz")):
        with gzip.open(path, "rt") as file:
            rows = [row for row in csv.DictReader(file) if row.get("Degradation")]
        if not rows:
            continue
        time, label = (np.array([float(row[name]) for row in rows]) for name in ("Time", "Degradation"))
        clock = (time - time[0]) / (time[-1] - time[0])
        rig = path.parent.name.removeprefix("tf_features_").upper()
        name = f"{rig} {path.name.split('_features')[0]}"
        scores = {"clock": paper_score(clock, label), "constant": paper_score(np.full_like(label, 0.5), label)}
        found[name] = {"windows": len(label), **scores}
        if name == DRAWN:
            write_atomic(IMAGE, draw(time, label, clock))
    write_result("bearings/leak.json", {**provenance(), "bearings": found})


def draw(time: np.ndarray, label: np.ndarray, clock: np.ndarray) -> bytes:
    """The label and the clock over time."""
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(time, label, color=COLOURS[0], linewidth=5, alpha=0.45, label="the paper's degradation label")
    ax.plot(time, clock, color=COLOURS[1], linewidth=1.4, label="its input Time, scaled by the end of the file")
    ax.set_xlabel("column Time of the authors' file", fontsize=TEXT)
    ax.set_ylabel("0 to 1", fontsize=TEXT)
    ax.set_title(f"{DRAWN}: the answer is one of the inputs", fontsize=TITLE)
    ax.legend(frameon=False, fontsize=TEXT, loc="upper left")
    open_frame(ax)
    return png(figure)


if __name__ == "__main__":
    main(Path(os.environ["NACRE_DATA"]))
