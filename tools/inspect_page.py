"""Write the tables of docs/inspect.md: python tools/inspect_page.py [FOLDER].

FOLDER holds what `nacre inspect RUN --out NAME` wrote, under the names below, with the result.json of RUN in it,
and that of the best control as control.json; all but the long tables is taken over into results/inspect first.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from performance_tables import MARKED, load, table
from provenance import ROOT

from nacre._util.files import write_atomic

PAGE = ROOT / "docs" / "inspect.md"
RESULTS = ROOT / "results" / "inspect"
RUNS = ("spiral", "spiral-plus", "drive")
FILES = ("inspect.json", "gates.csv", "result.json", "control.json")


def networks() -> str:
    """How good the networks are, beside the best control."""
    body = []
    for run in RUNS:
        mine, control = load(f"inspect/{run}/result.json"), load(f"inspect/{run}/control.json")
        name = f"`{mine['model']}` on {mine['task']}"
        body.append(
            (name, mine["metric"], f"{mine['value']:.2f}", f"{control['value']:.2f} (`{control['model']}`)")
        )
    return table(("", "figure", "network", "best control"), body)


def groups(run: str) -> str:
    """What is dead, tuned and needed, by group of neurons."""
    found = _of(run)
    above, lesions = found["tuning"]["above"], found["lesions"]
    body = [
        (
            group,
            f"{count:,}",
            str(found["dead"][group]),
            str(found["saturated"][group]),
            f"{above.get(group, 0):,}",
            f"{lesions['groups'][group]['change']:.3f}",
            f"{lesions['groups'][group]['metric']:.3f}",
        )
        for group, count in found["neurons"].items()
    ]
    body.append(("none silent", "", "", "", "", "0.000", f"{lesions['intact']:.3f}"))
    head = ("", "neurons", "dead", "saturated", "tuned", "change if all are silent", f"{lesions['metric']} then")
    return table(head, body)


def tuned(run: str) -> str:
    """The neurons and gates that tell most."""
    found = _of(run)["tuning"]
    body = [
        (
            row["group"] if row["index"] < 0 else f"{row['group']} {row['index']}",
            str(row["head"]),
            f"{row['information']:.3f}",
            f"{row['null']:.3f}",
            *(f"{row[f'mean {name}']:.2f}" for name in found["labels"]),
        )
        for row in found["best"]
    ]
    return table(("", "head", "bits", "by chance", *(f"mean if {name}" for name in found["labels"])), body)


def omega() -> str:
    """ω by action, over all heads."""
    with (RESULTS / "drive" / "gates.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["gate"] == "omega"]
    together = [row for row in rows if row["head"] == "-1"]
    body = []
    for row in together:
        means = [float(r["mean"]) for r in rows if r["label"] == row["label"] and r["head"] != "-1"]
        quartiles = f"{float(row['lower quartile']):.2f} to {float(row['upper quartile']):.2f}"
        span = f"{min(means):.2f} to {max(means):.2f}"
        body.append((row["label"], row["steps"], f"{float(row['mean']):.3f}", quartiles, span))
    return table(("action", "steps", "mean ω", "half of the values", "means of single heads"), body)


def keys() -> str:
    """Effective keys and how far gates move, over heads."""
    body = []
    for run in RUNS:
        found = _of(run)
        means = found["effective_keys"]["mean"]
        body.append(
            (
                f"`{found['recording']}`",
                f"{min(means):.2f} to {max(means):.2f}",
                f"{min(found['phi_std']):.3f} to {max(found['phi_std']):.3f}",
                f"{min(found['omega_std']):.3f} to {max(found['omega_std']):.3f}",
            )
        )
    return table(("", "effective keys of a head", "std of φ", "std of ω"), body)


def speed() -> str:
    """The viewer on 100,000 steps."""
    found = load("inspect/viewer.json")
    memory = found["server_megabytes_after_each_round"]
    first, drag, record = found["first_picture_ms"], found["drag_ms"], found["record"]
    body = [
        ("forward pass", f"{record['forward_seconds']:.1f} s"),
        ("recording it", f"{record['record_seconds']:.1f} s, {record['megabytes']:,.0f} MB"),
        ("first picture", f"{first['median']:.0f} ms, at most {first['largest']:.0f} ms"),
        (
            "slider moved anywhere",
            f"{drag['median']:.0f} ms, 95 % below {drag['p95']:.0f} ms, at most {drag['largest']:.0f} ms",
        ),
        ("memory of the server", f"{memory[0]:.0f} MB after one visit, {memory[-1]:.0f} MB after {len(memory)}"),
    ]
    return table(("100,000 steps", "measured in Chromium"), body)


def origin() -> str:
    """Where the figures come from."""
    lines = []
    for run in RUNS:
        for name in ("result.json", "inspect.json"):
            where = load(f"inspect/{run}/{name}")["provenance"]
            lines.append(f"`{where['command']}`, commit `{where['commit']}`")
    viewer = load("inspect/viewer.json")
    lines.append(f"`{viewer['command']}`, commit `{viewer['commit']}`")
    return "".join(f"- {line}\n" for line in lines)


def _of(run: str) -> dict[str, Any]:
    return load(f"inspect/{run}/inspect.json")


TABLES = {
    "networks": networks,
    "spiral": lambda: groups("spiral"),
    "spiral-plus": lambda: groups("spiral-plus"),
    "drive": lambda: groups("drive"),
    "drive-tuned": lambda: tuned("drive"),
    "omega": omega,
    "keys": keys,
    "speed": speed,
    "origin": origin,
}


def page() -> str:
    """The page with its tables made anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


def main() -> None:
    """Take over results, if there are any, and write the page."""
    if len(sys.argv) > 1:
        for run in RUNS:
            (RESULTS / run).mkdir(parents=True, exist_ok=True)
            for name in FILES:
                write_atomic(RESULTS / run / name, (Path(sys.argv[1]) / run / name).read_bytes())
    write_atomic(PAGE, page().encode())


if __name__ == "__main__":
    main()
