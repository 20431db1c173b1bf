"""docs/driving.md, from results/driving.

Races: standings.csv, laps.csv and race.json of `nacre drive race --out NAME`. Runs: finished cells.
"""

from statistics import mean
from typing import Any

from ._shared import columns, load, load_cells, load_csv, origin, table

# Folders of races: the expert, all networks, the paper's noise test, and NAC with one thing left out.
RACES = ("expert", "race", "noise", "likeliest", "unchanged-race")
RUNS = {"runs": "carracing-4", "unchanged": "carracing-4-unchanged", "udacity": "udacity"}  # their tasks
LOOKED_AT = (10_000, 10_001, 10_004, 10_005)  # tracks on which ways of deciding were tried out
COLOURS = {"plain": "plain", "colours": "random"}


def cells(name: str) -> list[dict[str, Any]]:
    """Runs of one of `RUNS`."""
    return load_cells(f"driving/cells/quick/{RUNS[name]}.jsonl")


def standings(race: str) -> str:
    """Laps, progress and errors by contender and colours."""
    formats = {
        "": "`{contender}`",
        "colours": "{colours}",
        "laps finished": "{finished} of {laps}",
        "95 % interval": "{low:.0%} to {high:.0%}",
        "env's flag": "{flagged}",
        "tiles": "{progress:.1%}",
        "error m": "{error:.2f}",
        "off road": "{off_track:.1%}",
        "speed m/s": "{speed:.1f}",
        "ms a frame": "{time}",
    }
    rows = load_csv(f"driving/{race}/standings.csv")
    for row in rows:
        row["colours"] = COLOURS[row["condition"]]
        row["time"] = f"{row['milliseconds']:.1f} ({row['inference']})" if row["milliseconds"] else ""
    return columns(formats, rows)


def unseen() -> str:
    """Laps of the noise test on tracks that played no part in choosing how networks decide."""
    laps = [row for row in load_csv("driving/noise/laps.csv") if row["seed"] not in LOOKED_AT]
    body = []
    for name in dict.fromkeys(row["contender"] for row in laps):
        cells = []
        for colours in COLOURS:
            mine = [row["finished"] for row in laps if (row["contender"], row["condition"]) == (name, colours)]
            cells.append(f"{mine.count('True')} of {len(mine)}")
        body.append((f"`{name}`", *cells))
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
        rows = load_csv(f"driving/{race}/standings.csv")
        mine = {row["condition"]: row for row in rows if row["contender"] == "nac"}
        forms = ("{finished} of {laps}", "{error:.2f}")
        body.append((words, *(form.format_map(mine[colours]) for form in forms for colours in COLOURS)))
    return table(("NAC", "laps, plain", "laps, random colours", "error m, plain", "error m, random colours"), body)


def cloned() -> str:
    """How well networks and controls predict the expert's actions in drives they have not seen."""
    formats = {
        "": "`{model}`",
        "accuracy": "{value:.2f}",
        "balanced": "{metrics[balanced accuracy]:.2f}",
        "parameters": "{parameters:,}",
        "steps": "{steps:,}",
    }
    rows = [result | {"steps": result["budget"].get("steps_taken", 0)} for result in cells("runs")]
    return columns(formats, sorted(rows, key=lambda result: (result["control"], -result["value"])))


def steering() -> str:
    """Errors of steering on segments of a drive that were not seen."""
    results = cells("udacity")
    best_first = sorted(results, key=lambda result: (result["control"], result["value"]))
    body = []
    for model in dict.fromkeys(result["model"] for result in best_first):
        mine = [result for result in results if result["model"] == model]
        scaled = mean(result["value"] for result in mine)
        raw = mean(result["metrics"]["raw rmse"] ** 2 for result in mine)
        body.append((f"`{model}`", f"{scaled:.3f}", f"{raw:.4f}", f"{len(mine)}", f"{mine[0]['parameters']:,}"))
    return table(("", "MSE in units of the spread", "MSE of steering", "folds", "parameters"), body)


def origins() -> str:
    """Where the numbers come from."""
    parts = [f"**{name}**\n\n{origin(cells(name))}\n" for name in RUNS]
    for race in RACES:
        about = load(f"driving/{race}/race.json")
        commits = ", ".join(f"`{commit}`" for commit in about["commits"])
        parts.append(f"**{race}**\n\n- `{about['provenance']['command']}`\n- commit {commits}\n\n")
    return "".join(parts)


TABLES = {
    "expert": lambda: standings("expert"),
    "race": lambda: standings("race"),
    "noise": lambda: standings("noise"),
    "unseen": unseen,
    "raised": raised,
    "cloned": cloned,
    "steering": steering,
    "origin": origins,
}
