"""docs/performance.md, from bench*.json, long/ and speed-steps.json under results/."""

from collections.abc import Callable

from nacre.bench.selection import SelectionRow, plot_recall

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
}
FIGURES = {"bench-selection.png": draw_recall}
