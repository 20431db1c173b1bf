"""Write the tables of docs/performance.md from the files under results/: python tools/performance_tables.py.

Each table stands between two markers, `<!-- table: name -->` and `<!-- end -->`; a test asks whether the page is
what this writes.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from provenance import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PAGE = ROOT / "docs" / "performance.md"
MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
RECALL_LENGTHS = (1024, 16_384, 65_536)


def load(name: str) -> dict[str, Any]:
    """A file under results/."""
    return json.loads((ROOT / "results" / name).read_text())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown, the first column to the left and the others to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def milliseconds(cost: dict[str, Any]) -> str:
    """Median, or why there is none; a star where it is of less than three rounds."""
    if cost["seconds"] is None:
        return cost["state"].partition(":")[0]
    return number(1e3 * cost["seconds"]) + ("" if cost["state"] == "ok" else "*")


def megabytes(cost: dict[str, Any]) -> str:
    """Added memory."""
    return "" if cost["added_bytes"] is None else number(cost["added_bytes"] / 1e6)


def bench(name: str = "bench.json") -> str:
    """Every model at 1,024 steps, the fastest first."""
    rows = sorted(load(name)["results"], key=lambda row: row["forward"]["ratio"] or 1e9)
    head = ("model", "parameters", "forward ms", "ratio", "MB", "training ms", "ratio", "MB", "reported s")
    cells = []
    for row in rows:
        costs = [
            (milliseconds(cost), "" if cost["ratio"] is None else number(cost["ratio"]), megabytes(cost))
            for cost in (row["forward"], row["step"])
        ]
        paper = row["reported (paper, GPU)"]
        reported = "" if paper is None else f"{paper['seconds']:.2f}"
        cells.append((f"`{row['model']}`", f"{row['parameters']:,}", *costs[0], *costs[1], reported))
    return table(head, cells)


def by_length() -> str:
    """Forward passes of a sweep: times side by side, and the memory of nac."""
    rows = {(row["model"], row["length"]): row for row in load("bench-sweep.json")["results"]}
    models = list(dict.fromkeys(model for model, _ in rows))
    lengths = list(dict.fromkeys(length for _, length in rows))
    head = ("length", *(f"`{model}` ms" for model in models), "`nac` MB", "`nac` training ms", "MB")
    cells = []
    for length in lengths:
        mine = rows["nac", length]
        times = [milliseconds(rows[model, length]["forward"]) for model in models]
        step = mine["step"]
        cells.append((f"{length:,}", *times, megabytes(mine["forward"]), milliseconds(step), megabytes(step)))
    return table(head, cells)


def exponents() -> str:
    """How time and memory grow."""
    cells = []
    for row in load("bench-sweep.json")["growth"]:
        fits = [row[f"{a}_{q}"] for a in ("forward", "step") for q in ("seconds", "added_bytes")]
        shown = ["" if fit is None else f"{fit['exponent']:.2f}" for fit in fits]
        span = f"{fits[0]['shortest']:,} to {fits[0]['longest']:,}"
        cells.append((f"`{row['model']}`", *shown, span, row["complexity (paper)"] or ""))
    head = ("model", "forward time", "memory", "training time", "memory", "forward fitted to", "the paper states")
    return table(head, cells)


def long() -> str:
    """A million steps."""
    (row,) = load("long/bench-sweep.json")["results"]
    head = ("length", "forward s", "steps a second", "MB added", "MB resident at the peak")
    cost = row["forward"]
    peak = number(cost["peak_bytes"] / 1e6)
    rate = f"{row['forward_throughput']:,.0f}"
    return table(head, [(f"{row['length']:,}", number(cost["seconds"]), rate, megabytes(cost), peak)])


def _steps(part: str, last: Callable[[dict[str, float]], float], names: tuple[str, str]) -> str:
    data = load("speed-steps.json")
    forward, step = (data[action][part] for action in ("forward", "step"))
    head = (names[0], "forward ms", names[1], "training ms", names[1])
    cells = []
    for name in forward:
        pairs = [(number(times[name]), number(last(times) / times[name])) for times in (forward, step)]
        cells.append((name, *pairs[0], *pairs[1]))
    return table(head, cells)


def kernels() -> str:
    """One kernel after the other."""
    return _steps("kernels", lambda times: times["PyTorch alone"], ("", "times as fast"))


def sparsity() -> str:
    """Layers with fewer and fewer synapses."""
    return _steps("sparsity", lambda times: times["0.2"], ("sparsity", "speed by that of 0.2"))


def padding() -> str:
    """A batch that is mostly padding."""
    return _steps("padding", lambda times: times["without mask"], ("", "times as fast"))


def recall() -> str:
    """What each way of selecting finds, and its time."""
    rows = {(r["keys"], r["causal"], r["length"], r["method"]): r for r in load("bench-selection.json")["results"]}
    head = ("keys", "length", "recall", "vectors", "ms sqrt", "exact")
    cells = []
    for keys, causal, length, method in rows:
        if method == "sqrt" and length in RECALL_LENGTHS:
            sqrt, exact = (rows[keys, causal, length, m] for m in ("sqrt", "exact"))
            cells.append(
                (
                    f"{keys}, causal" if causal else keys,
                    f"{length:,}",
                    f"{sqrt['recall']:.3f}",
                    str(sqrt["vectors"]),
                    *(number(r["milliseconds"]) for r in (sqrt, exact)),
                )
            )
    return table(head, cells)


TABLES: dict[str, Callable[[], str]] = {
    "bench": bench,
    "by-length": by_length,
    "exponents": exponents,
    "long": long,
    "kernels": kernels,
    "sparsity": sparsity,
    "padding": padding,
    "recall": recall,
}


def page() -> str:
    """The page with its tables as they should be."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
