"""docs/performance.md, from bench*.json, long/ and speed-steps.json under results/."""

from collections.abc import Callable
from typing import Any

from nacre.bench.figures import plot_training
from nacre.bench.record import BenchResult
from nacre.bench.selection import SelectionRow, plot_recall
from nacre.bench.training import SHAPES, TRAINING_REFERENCE

from ._shared import bench, load, megabytes, milliseconds, number, table

RECALL_LENGTHS = (1024, 16_384, 65_536)
METHODS = ("sqrt", "exact")  # the file has one more, deleted since


def by_length() -> str:
    """Forward passes of a sweep: times side by side, and the memory of nac."""
    rows = {(row["model"], row["length"]): row for row in load("bench-sweep.json")["results"]}
    models = list(dict.fromkeys(model for model, _ in rows))
    body = []
    for length in dict.fromkeys(length for _, length in rows):
        forward, step = (rows["nac", length][action] for action in ("forward", "step"))
        times = [milliseconds(rows[model, length]["forward"]) for model in models]
        body.append((f"{length:,}", *times, megabytes(forward), milliseconds(step), megabytes(step)))
    titles = ("length", *(f"`{model}` ms" for model in models), "`nac` MB", "`nac` training ms", "MB")
    return table(titles, body)


def exponents() -> str:
    """How time and memory grow."""
    body = []
    for row in load("bench-sweep.json")["growth"]:
        fits = [row[f"{a}_{q}"] for a in ("forward", "step") for q in ("seconds", "added_bytes")]
        shown = ["" if fit is None else f"{fit['exponent']:.2f}" for fit in fits]
        span = f"{fits[0]['shortest']:,} to {fits[0]['longest']:,}"
        body.append((f"`{row['model']}`", *shown, span, row["complexity (paper)"] or ""))
    costs = ("forward time", "memory", "training time", "memory")
    return table(("model", *costs, "forward fitted to", "the paper states"), body)


def long() -> str:
    """A million steps."""
    (row,) = load("long/bench-sweep.json")["results"]
    cost = row["forward"]
    speed = (f"{row['length']:,}", number(cost["seconds"]), f"{row['forward_throughput']:,.0f}")
    cells = (*speed, megabytes(cost), number(cost["peak_bytes"] / 1e6))
    return table(("length", "forward s", "steps a second", "MB added", "MB resident at the peak"), [cells])


def steps(part: str, base: str, titles: tuple[str, str]) -> str:
    """Times of bench_steps.py, and how many times as fast as one of them each is."""
    data = load("speed-steps.json")
    both = [data[action][part] for action in ("forward", "step")]
    body = [
        (name, *(cell for times in both for cell in (number(times[name]), number(times[base] / times[name]))))
        for name in both[0]
    ]
    return table((titles[0], "forward ms", titles[1], "training ms", titles[1]), body)


def recall() -> str:
    """How many of the best keys "sqrt" finds, and the time of both ways of selecting."""
    rows = {(r["keys"], r["causal"], r["length"], r["method"]): r for r in load("bench-selection.json")["results"]}
    body = []
    for keys, causal, length, method in rows:
        if method == "sqrt" and length in RECALL_LENGTHS:
            sqrt, exact = (rows[keys, causal, length, name] for name in METHODS)
            cells = (f"{keys}, causal" if causal else keys, f"{length:,}", f"{sqrt['recall']:.3f}")
            times = (number(row["milliseconds"]) for row in (sqrt, exact))
            body.append((*cells, str(sqrt["vectors"]), *times))
    return table(("keys", "length", "recall of sqrt", "vectors of sqrt", "ms sqrt", "ms exact"), body)


def training() -> str:
    """Training steps and forward passes at the shapes of the tasks: ms of dot products, and ratios."""
    rows = {
        (row["length"], row["batch"], row["d_model"], row["num_heads"], row["model"]): row
        for row in load("bench-training.json")["results"]
    }
    models = [name for name in dict.fromkeys(key[-1] for key in rows) if name != TRAINING_REFERENCE]
    body = []
    for name, shape in SHAPES.items():
        found = [rows[shape.length, shape.batch, shape.d_model, shape.num_heads, model] for model in models]
        first = rows[shape.length, shape.batch, shape.d_model, shape.num_heads, TRAINING_REFERENCE]
        cells = [c for a in ("step", "forward") for c in (milliseconds(first[a]), *(_ratio(r[a]) for r in found))]
        body.append((f"{name}: {shape}", *cells))
    titles = [t for a in ("training", "forward") for t in (f"{a}, `sdpa` ms", *(f"`{m}`" for m in models))]
    return table(("", *titles), body)


def _ratio(cost: dict[str, Any]) -> str:
    return cost["state"] if cost["ratio"] is None else number(cost["ratio"])


def streams() -> str:
    """Streamed steps: one stream, many at once, and what PyTorch takes for them."""
    data = load("speed-stream.json")
    one, many, count = data["one"], data["many"], data["size"]["streams"]
    body = []
    for model in ("nac", "nac-plus"):
        slow = f"{model} in PyTorch"
        alone, together = one[model], many[model] / count
        cells = (1e3 * alone, one[slow] / alone, 1e6 * together, many[slow] / many[model], alone / together)
        body.append((f"`{model}`", *map(number, cells)))
    body.append(("`sdpa` over the whole window", number(1e3 * data["window"]["sdpa"]), "", "", "", ""))
    fast = "times as fast as PyTorch"
    together = f"{count:,} at once, µs a stream"
    return table(("", "one stream, ms a step", fast, together, fast, "times one stream"), body)


def threads() -> str:
    """Training steps a second by how threads wait, alone and beside other work."""
    rows = load("threads.json")["steps_a_second"]
    found = {(row["load"], row["model"], row["way"]): number(row["median"]) for row in rows}
    models = list(dict.fromkeys(row["model"] for row in rows))
    cases = [(load, model) for load in ("alone", "busy") for model in models]
    body = [(way, *(found[*case, way] for case in cases)) for way in dict.fromkeys(row["way"] for row in rows)]
    words = {"alone": "alone", "busy": "beside two busy processes"}
    return table(("steps a second", *(f"`{model}`, {words[load]}" for load, model in cases)), body)


def cell_time() -> str:
    """Where the time of cells goes, in shares."""
    body = []
    for cell in load("cell-time.json")["cells"]:
        seconds, whole = cell["seconds"], sum(cell["seconds"].values())
        shares = (f"{100 * taken / whole:.0f} %" for taken in seconds.values())
        body.append((f"`{cell['model']}` on `{cell['task']}`", number(whole), *shares))
    return table(("", "seconds", *load("cell-time.json")["cells"][0]["seconds"]), body)


def draw_training() -> bytes:
    """Ratios at the shapes of training."""
    return plot_training([BenchResult.from_dict(row) for row in load("bench-training.json")["results"]])


def draw_recall() -> bytes:
    """Recall over length."""
    data = load("bench-selection.json")
    rows = [SelectionRow(**row) for row in data["results"] if row["method"] in METHODS]
    return plot_recall(rows, data["settings"]["top_k"])


TABLES: dict[str, Callable[[], str]] = {
    "bench": lambda: bench("bench.json"),
    "by-length": by_length,
    "exponents": exponents,
    "long": long,
    "kernels": lambda: steps("kernels", "PyTorch alone", ("", "times as fast")),
    "sparsity": lambda: steps("sparsity", "0.2", ("sparsity", "speed by that of 0.2")),
    "padding": lambda: steps("padding", "without mask", ("", "times as fast")),
    "recall": recall,
    "training": training,
    "streams": streams,
    "threads": threads,
    "cell-time": cell_time,
}
FIGURES = {"bench-selection.png": draw_recall, "bench-training.png": draw_training}
