"""Write the tables of docs/driving.md: python tools/driving_page.py [FOLDER].

FOLDER holds what `nacre drive race --out NAME` and `nacre train --out NAME` wrote, under the names below; what is
small among it is taken over into results/driving first.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from performance_tables import MARKED, table
from provenance import ROOT
from results_page import came_from, replace_results

from nacre._util.files import write_atomic

RESULTS = ROOT / "results" / "driving"
PAGE = ROOT / "docs" / "driving.md"
IMAGES = ROOT / "docs" / "images"
# Folders of races: the expert, all networks, the paper's noise test, and NAC with one thing left out.
RACES = ("expert", "race", "noise", "likeliest", "unchanged-race")
RUNS = ("runs", "unchanged", "udacity")  # folders of training runs
LOOKED_AT = (10_000, 10_001, 10_004, 10_005)  # tracks on which ways of deciding were tried out
FILES = ("standings.csv", "laps.csv", "race.json")


def _rows(race: str) -> list[dict[str, str]]:
    with (RESULTS / race / "standings.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def standings(race: str) -> str:
    """Laps, progress and errors by contender and colours."""
    head = ("", "colours", "laps finished", "95 % interval", "env's flag", "tiles", "error m", "off road",
            "speed m/s", "ms a frame")  # fmt: skip
    body = [
        (
            f"`{row['contender']}`",
            row["condition"].replace("colours", "random"),
            f"{row['finished']} of {row['laps']}",
            f"{float(row['low']):.0%} to {float(row['high']):.0%}",
            row["flagged"],
            f"{float(row['progress']):.1%}",
            f"{float(row['error']):.2f}",
            f"{float(row['off_track']):.1%}",
            f"{float(row['speed']):.1f}",
            f"{float(row['milliseconds']):.1f} ({row['inference']})" if row["milliseconds"] else "",
        )
        for row in _rows(race)
    ]
    return table(head, body)


def unseen() -> str:
    """Laps of the noise test on tracks that played no part in choosing how networks decide."""
    with (RESULTS / "noise" / "laps.csv").open(newline="") as file:
        laps = [row for row in csv.DictReader(file) if int(row["seed"]) not in LOOKED_AT]
    body = []
    for name in dict.fromkeys(row["contender"] for row in laps):
        mine = [
            [row for row in laps if (row["contender"], row["condition"]) == (name, c)]
            for c in ("plain", "colours")
        ]
        body.append(
            (f"`{name}`", *(f"{sum(r['finished'] == 'True' for r in rows)} of {len(rows)}" for rows in mine))
        )
    return table(("", "laps, plain", "laps, random colours"), body)


def raised() -> str:
    """What NAC does without each of two things."""
    ways = {
        "as it is": "race",
        "the likeliest action instead of turns": "likeliest",
        "trained on windows as they were recorded": "unchanged-race",
    }
    body = []
    for words, race in ways.items():
        mine = {row["condition"]: row for row in _rows(race) if row["contender"] == "nac"}
        cells = [f"{mine[name]['finished']} of {mine[name]['laps']}" for name in ("plain", "colours")]
        errors = [f"{float(mine[name]['error']):.2f}" for name in ("plain", "colours")]
        body.append((words, *cells, *errors))
    return table(("NAC", "laps, plain", "laps, random colours", "error m, plain", "error m, random colours"), body)


def _results(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((RESULTS / folder).rglob("result.json"))]


def cloned() -> str:
    """How well networks and controls predict the expert's actions in drives they have not seen."""
    body = [
        (
            f"`{result['model']}`",
            f"{result['value']:.2f}",
            f"{result['metrics']['balanced accuracy']:.2f}",
            f"{result['parameters']:,}",
            f"{result['budget'].get('steps_taken', 0):,}",
        )
        for result in sorted(_results("runs"), key=lambda result: (result["control"], -result["value"]))
    ]
    return table(("", "accuracy", "balanced", "parameters", "steps"), body)


def steering() -> str:
    """Errors of steering on segments of a drive that were not seen."""
    results = _results("udacity")
    models = dict.fromkeys(
        result["model"] for result in sorted(results, key=lambda result: (result["control"], result["value"]))
    )
    body = []
    for model in models:
        mine = [result for result in results if result["model"] == model]
        raw = [result["metrics"]["raw rmse"] ** 2 for result in mine]
        scaled = [result["value"] for result in mine]
        body.append(
            (
                f"`{model}`",
                f"{sum(scaled) / len(mine):.3f}",
                f"{sum(raw) / len(mine):.4f}",
                str(len(mine)),
                f"{mine[0]['parameters']:,}",
            )
        )
    return table(("", "MSE in units of the spread", "MSE of steering", "folds", "parameters"), body)


def origin() -> str:
    """Where the figures come from."""
    lines = [
        f"**{folder}**\n\n{came_from(RESULTS / folder, 'result.json')}\n" for folder in RUNS if _results(folder)
    ]
    for race in RACES:
        about = json.loads((RESULTS / race / "race.json").read_bytes())
        commits = ", ".join(f"`{commit}`" for commit in about["commits"])
        lines.append(f"**{race}**\n\n- `{about['provenance']['command']}`\n- commit {commits}\n\n")
    return "".join(lines)


TABLES = {
    "expert": lambda: standings("expert"),
    "race": lambda: standings("race"),
    "noise": lambda: standings("noise"),
    "unseen": unseen,
    "raised": raised,
    "cloned": cloned,
    "steering": steering,
    "origin": origin,
}


def page() -> str:
    """The page with its tables written anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


def _take_over(source: Path) -> None:
    for race in RACES:
        shutil.rmtree(RESULTS / race, ignore_errors=True)
        (RESULTS / race).mkdir(parents=True)
        for name in FILES:
            shutil.copyfile(source / race / name, RESULTS / race / name)
    for runs in RUNS:
        replace_results(RESULTS / runs, source / runs, "result.json")


def _picture(source: Path) -> None:
    """The ways of all networks over the first track, and what NAC looks at there."""
    write_atomic(IMAGES / "driving-tracks.png", (source / "race" / "tracks-plain.png").read_bytes())
    write_atomic(IMAGES / "driving-looks.png", (source / "show" / "drive-nac-plain-looks.png").read_bytes())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _take_over(Path(sys.argv[1]))
        _picture(Path(sys.argv[1]))
    write_atomic(PAGE, page().encode())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
