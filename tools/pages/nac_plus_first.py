"""docs/nac-plus-first.md, from results/recall: *.json of `nacre study recall`."""

from statistics import mean
from typing import Any

from nacre.study.recall.figures import plot_recall
from nacre.study.recall.run import guessed
from nacre.study.recall.table import RecallRow, read_results, rows_of

from ._shared import RESULTS, load_all, origin, table

RECALL = RESULTS / "recall"
MAIN = ("nac", "nac-plus", "sdpa")
SECTIONS = {
    "24 steps": ("key", 24, 1500),
    "64": ("key", 64, 1500),
    "256": ("key", 256, 3000),
    "by time, 64": ("time", 64, 1500),
}
PERIODS = {"8 units of time (nac-plus)": "nac-plus", "2 units": "trial short-periods"}

GONE = "deleted since"
# What changes from the line above or from what is named -> the model that shows it.
PARTS = {
    "the paper's layer": "nac",
    "only the wider search (`reach=512`: here, all keys)": "nac:reach=512",
    "only the match synapse": "nac:match=content",
    "match synapse, wider search": "nac:match=content,reach=512",
    f"match synapse, groups of similar keys instead of blocks ({GONE})": "nac:match=content,selection=cluster",
    "and a match of elapsed time: nac-plus": "nac-plus",
    "nac-plus, gains start at 1 instead of 8": "nac-plus:gain=1",
    "nac-plus, φ without bounds": "nac-plus:phi=linear",
    "match synapse, wider search, gain fixed": "trial fixed-gain",
    "…, q · k without normalisation": "trial raw",
    "…, key neurons start as copies of query neurons": "trial tied",
    "…, match into the circuit instead of onto φ": "trial to-circuit",
    "…, half of the keys drawn at random in training": "trial explore",
    "…, 32 keys at first, 8 from step 750 on": "trial anneal",
    "…, a second branch over block means": "trial coarse",
    "match synapse, 1 block, a second branch over block means": "trial coarse-1-block",
}


def rows() -> dict[tuple[str, str, int, int], RecallRow]:
    """Means over seeds by model, question, length and steps."""
    return {(r.model, r.question, r.length, r.steps): r for r in rows_of(read_results(RECALL))}


def _cell(row: RecallRow | None) -> str:
    if row is None:
        return ""
    found = "" if row.found is None else f" ({row.found:.2f})"
    return f"{row.accuracy:.3f}{found} [{row.seeds}]"


def answers() -> str:
    """Accuracy of the main models on each question."""
    all_rows = rows()
    body = [(f"`{model}`", *(_cell(all_rows.get((model, *s))) for s in SECTIONS.values())) for model in MAIN]
    guesses = [f"{guessed(question, length):.3f}" for question, length, _ in SECTIONS.values()]
    return table(("model", *SECTIONS), [*body, ("control: the most frequent value", *guesses)])


def parts() -> str:
    """What each part bought, and what was tried beside."""
    results = read_results(RECALL)
    body = [(words, *(_at_step(results, model, length) for length in (64, 256))) for words, model in PARTS.items()]
    return table(("what", "64 steps", "256 steps"), body)


def _at_step(results: list[dict[str, Any]], model: str, length: int, step: int = 1500) -> str:
    """Accuracy after some steps, of longer runs, too: nothing in training depends on how long it will last."""
    points = [
        point
        for result in results
        if (result["model"], result["question"], result["length"]) == (model, "key", length)
        for point in result["curve"]
        if point["step"] == step
    ]
    if not points:
        return ""
    accuracy, found = (mean(point[name] for point in points) for name in ("accuracy", "found"))
    return f"{accuracy:.3f} ({found:.2f}) [{len(points)}]"


def periods() -> str:
    """Shortest period of the rhythms, on the question by time."""
    body = [(words, _cell(rows().get((model, "time", 64, 1500)))) for words, model in PERIODS.items()]
    return table(("shortest period", "by time, 64 steps"), body)


def draw_recall() -> bytes:
    """Learning curves of the main models."""
    wanted = set(SECTIONS.values())
    results = [r for r in read_results(RECALL) if r["model"] in MAIN]
    return plot_recall([r for r in results if (r["question"], r["length"], r["steps"]) in wanted])


TABLES = {
    "answers": answers,
    "parts": parts,
    "periods": periods,
    "origin": lambda: origin(load_all("recall")),
}
FIGURES = {"recall.png": draw_recall}
