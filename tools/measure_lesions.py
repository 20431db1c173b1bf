"""Score trained runs with parts of their circuits silent: python tools/measure_lesions.py RUN [RUN ...].

Writes into results/nac-plus/lesions.json, for each run, the metric of its test part: intact, with all inter,
command and motor neurons silent, and with the clock neurons silent. Runs that are there already stay.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from measured import RESULTS, provenance, write_result

from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.inspect.recording.hooks import layers_of
from nacre.inspect.recording.run import Subject, load_subject
from nacre.layer.trace import BACKBONE
from nacre.tasks.metrics import metric_of
from nacre.train.evaluate import predict, score
from nacre.train.run import Run

FILE = "nac-plus/lesions.json"


def measure(subject: Subject) -> dict[str, float]:
    """The metric by what is silent."""
    layers = layers_of(subject.network)
    silent = {
        "nothing": [],
        "circuit": [Lesion(group, layer=name) for name in layers for group in BACKBONE],
        "clock": [Lesion("clock", layer=name) for name, layer in layers.items() if layer.config.clock],
    }
    unit = torch.tensor(subject.unit or (1.0,))
    found = {}
    for what, lesions in silent.items():
        if what == "nothing" or lesions:
            outputs = predict(lesioned(subject.network, lesions), subject.data, subject.test)  # pyright: ignore[reportArgumentType]
            metrics = score(subject.data, subject.test, outputs, unit).metrics
            found[what] = metrics[metric_of(subject.data.kind).name]
    return found


def main() -> None:
    """Measure and write."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    known: list[dict[str, Any]] = []
    if (RESULTS / FILE).exists():
        known = json.loads((RESULTS / FILE).read_bytes())["runs"]
    for folder in map(Path, sys.argv[1:]):
        result = Run.open(folder).result.record
        row = {name: result[name] for name in ("task", "model", "version", "fold", "seed", "fingerprint")}
        if not any(old["fingerprint"] == row["fingerprint"] for old in known):
            known.append(row | {"metric": measure(load_subject(folder))})
    known.sort(key=lambda row: (row["task"], row["model"], row["fold"], row["seed"]))
    write_result(FILE, provenance() | {"runs": known})


if __name__ == "__main__":
    main()
