"""docs/inspect.md, from results/inspect.

A folder for each run: inspect.json and gates.csv of `nacre inspect RUN --out NAME`, the result.json of RUN, and
control.json, the result.json of the best control. viewer.json is of tools/measure_viewer.py.
"""

from nacre.inspect.recording.layer_writer import SENSORY

from ._shared import columns, load, load_csv, table

RUNS = ("spiral-plus", "gaps-plus", "spiral", "drive")


def networks() -> str:
    """How good the networks are, beside the best control."""
    rows = [load(f"inspect/{run}/result.json") | {"best": load(f"inspect/{run}/control.json")} for run in RUNS]
    values = {"network": "{value:.4g}", "best control": "{best[value]:.4g} (`{best[model]}`)"}
    return columns({"": "`{model}` on {task}", "metric": "{metric}", **values}, rows)


def groups(run: str) -> str:
    """What is dead, tuned and needed, by group of neurons."""
    found = load(f"inspect/{run}/inspect.json")
    lesions, tuning = found["lesions"], found["tuning"]["above"]
    to_time = found["time_tuning"]["above"] if "time_tuning" in found else None  # it is younger than the drive
    body = []
    for group, count in found["neurons"].items():
        counts = (count, found["dead"][group], found["saturated"][group], tuning.get(group, 0))
        timed = "" if to_time is None or group in SENSORY else f"{to_time.get(group, 0):,}"
        silent = lesions["groups"][group]
        effect = (f"{silent['change']:.3f}", f"{silent['metric']:.4f}")
        body.append((group, *(f"{number:,}" for number in counts), timed, *effect))
    body.append(("none silent", "", "", "", "", "", "0.000", f"{lesions['intact']:.4f}"))
    then = ("change if all are silent", f"{lesions['metric']} then")
    return table(("", "neurons", "dead", "saturated", "tuned", "tuned to time", *then), body)


def tuned(run: str) -> str:
    """The neurons and gates that tell most."""
    found = load(f"inspect/{run}/inspect.json")["tuning"]
    formats = {"": "{name}", "head": "{head}", "bits": "{information:.3f}", "by chance": "{null:.3f}"}
    formats |= {f"mean if {label}": f"{{mean {label}:.2f}}" for label in found["labels"]}
    for row in found["best"]:
        row["name"] = row["group"] if row["index"] < 0 else f"{row['group']} {row['index']}"
    return columns(formats, found["best"])


def omega() -> str:
    """ω by action, over all heads."""
    formats = {
        "action": "{label}",
        "steps": "{steps}",
        "mean ω": "{mean:.3f}",
        "half of the values": "{lower quartile:.2f} to {upper quartile:.2f}",
        "means of single heads": "{least:.2f} to {most:.2f}",
    }
    rows = [row for row in load_csv("inspect/drive/gates.csv") if row["gate"] == "omega"]
    together = [row for row in rows if row["head"] == -1]
    for row in together:
        means = [r["mean"] for r in rows if r["label"] == row["label"] and r["head"] != -1]
        row |= {"least": min(means), "most": max(means)}
    return columns(formats, together)


def keys() -> str:
    """Effective keys and how far gates move, over heads."""
    body = []
    for run in RUNS:
        found = load(f"inspect/{run}/inspect.json")
        means = found["effective_keys"]["mean"]
        spreads = (f"{min(std):.3f} to {max(std):.3f}" for std in (found["phi_std"], found["omega_std"]))
        body.append((f"`{found['recording']}`", f"{min(means):.2f} to {max(means):.2f}", *spreads))
    return table(("", "effective keys of a head", "std of φ", "std of ω"), body)


def speed() -> str:
    """The viewer on 100,000 steps."""
    found = load("inspect/viewer.json")
    memory = found["server_megabytes_after_each_round"]
    drag = "{median:.0f} ms, 95 % below {p95:.0f} ms, at most {largest:.0f} ms"
    body = {
        "forward pass": "{forward_seconds:.1f} s".format_map(found["record"]),
        "recording it": "{record_seconds:.1f} s, {megabytes:,.0f} MB".format_map(found["record"]),
        "first view": "{median:.0f} ms, at most {largest:.0f} ms".format_map(found["first_picture_ms"]),
        "slider moved anywhere": drag.format_map(found["drag_ms"]),
        "memory of the server": f"{memory[0]:.0f} MB after one visit, {memory[-1]:.0f} MB after {len(memory)}",
    }
    return table(("100,000 steps", "measured in Chromium"), body.items())


def origins() -> str:
    """Where the numbers come from."""
    found = [load(f"inspect/{run}/{name}.json")["provenance"] for run in RUNS for name in ("result", "inspect")]
    found.append(load("inspect/viewer.json"))
    return "".join(f"- `{where['command']}`, commit `{where['commit']}`\n" for where in found)


TABLES = {
    "networks": networks,
    "spiral-plus": lambda: groups("spiral-plus"),
    "gaps-plus": lambda: groups("gaps-plus"),
    "spiral": lambda: groups("spiral"),
    "drive": lambda: groups("drive"),
    "drive-tuned": lambda: tuned("drive"),
    "omega": omega,
    "keys": keys,
    "speed": speed,
    "origin": origins,
}
