"""`nacre bench --selection`: how many of the best keys sqrt selection finds, and what it costs."""

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.plotting import legend_below, open_frame, png
from nacre._util.provenance import provenance
from nacre._util.text import console_table, csv_text
from nacre.bench.selection_keys import SelectionSettings, make_keys, train_layer
from nacre.layer.selection.choose import sqrt_topk
from nacre.layer.selection.topk import best_columns

_CHUNK = 2**23  # exact scores at a time
_STYLES = {
    "exact": ("#000000", "^", "exact (compares with every key)"),
    "sqrt": ("#d55e00", "s", "sqrt (blocks of neighbours)"),
}


@dataclass(frozen=True)
class SelectionRow:
    """One way of selecting at one length."""

    keys: str  # what kind
    causal: bool  # whether a query sees only keys up to itself
    length: int  # number of keys and of queries
    method: str  # "sqrt" or "exact"
    recall: float  # share of the exact top K that is found
    vectors: int  # that the last query is compared with
    milliseconds: float  # median time for all queries; of "exact" scaled up from the compared queries


def run_selection(out: Path, settings: SelectionSettings | None = None) -> None:
    """Measure recall and cost of selection on random, smooth and learned keys; print a table.

    Writes `bench-selection.json`, `.csv` and `.png`.
    """
    settings = settings or SelectionSettings()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("training a layer", total=settings.steps)
        trained = train_layer(settings, lambda: progress.advance(bar))
        bar = progress.add_task("selecting keys", total=6 * len(settings.lengths))
        rows: list[SelectionRow] = []
        for length in settings.lengths:
            for name, (q, k) in make_keys(settings, length, trained).items():
                for causal in (False, True):
                    rows += measure(name, q, k, settings, causal=causal)
                    progress.advance(bar)
    _print_table(rows)
    results = [asdict(row) for row in rows]
    record = {
        "provenance": provenance(),
        "settings": asdict(settings),
        "training": trained.report,
        "results": results,
    }
    files = {
        "json": (json.dumps(record, indent=1) + "\n").encode(),
        "csv": csv_text([field.name for field in fields(SelectionRow)], results).encode(),
        "png": plot_recall(rows, settings.top_k),
    }
    out.mkdir(parents=True, exist_ok=True)
    for suffix, data in files.items():
        path = write_atomic(out / f"bench-selection.{suffix}", data)
        Console().print(f"wrote {path}", soft_wrap=True)


def measure(name: str, q: Tensor, k: Tensor, settings: SelectionSettings, *, causal: bool) -> list[SelectionRow]:
    """Recall and cost of both methods; their rounds alternate, so that a busy machine slows both."""
    length, top_k = k.shape[2], settings.top_k
    generator = torch.Generator().manual_seed(settings.seed)
    rows = torch.randperm(length, generator=generator)[: settings.queries].sort().values
    times: dict[str, list[float]] = {"sqrt": [], "exact": []}
    found = best = (rows, rows)
    for _ in range(settings.rounds):
        start = time.perf_counter()
        found = sqrt_topk(q, k, top_k, causal=causal)
        middle = time.perf_counter()
        best = exact_rows(q, k, rows, top_k, causal=causal)
        times["sqrt"].append(middle - start)
        times["exact"].append((time.perf_counter() - middle) * length / len(rows))
    recalls = {"sqrt": recall((found[0][:, :, rows], found[1][:, :, rows]), best), "exact": 1.0}
    vectors = vectors_scored(length, top_k, causal=causal)
    return [
        SelectionRow(name, causal, length, m, recalls[m], vectors[m], 1e3 * statistics.median(times[m]))
        for m in times
    ]


def exact_rows(q: Tensor, k: Tensor, rows: Tensor, top_k: int, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Exact top-K for some of the queries, as `exact_topk` finds it: [B, H, rows, K]."""
    position = torch.arange(k.shape[2])
    parts: list[tuple[Tensor, Tensor]] = []
    for part in rows.split(max(1, _CHUNK // (q.shape[0] * q.shape[1] * k.shape[2]))):
        scores = q[:, :, part] @ k.transpose(-1, -2)
        allowed = position <= part.unsqueeze(1) if causal else (position >= 0).expand(len(part), -1)
        parts.append(best_columns(scores, allowed.expand_as(scores), top_k))
    return torch.cat([p[0] for p in parts], 2), torch.cat([p[1] for p in parts], 2)


def recall(found: tuple[Tensor, Tensor], best: tuple[Tensor, Tensor]) -> float:
    """Share of the best keys that are found; both are index and valid, [..., K].

    Example:
        >>> there = torch.tensor([True, True])
        >>> recall((torch.tensor([1, 5]), there), (torch.tensor([5, 7]), there))
        0.5
    """
    equal = (best[0].unsqueeze(-1) == found[0].unsqueeze(-2)) & found[1].unsqueeze(-2)
    return ((equal.any(-1) & best[1]).sum() / best[1].sum()).item()


def vectors_scored(length: int, top_k: int, *, causal: bool) -> dict[str, int]:
    """Vectors that the last query is compared with, by method, with default block sizes.

    Example:
        >>> vectors_scored(1024, 8, causal=False)
        {'sqrt': 64, 'exact': 1024}
    """
    block = math.isqrt(length)
    blocks = math.ceil(length / block)
    width = block if causal else math.ceil(length / blocks)
    sqrt = blocks + (min(math.ceil(top_k / block), blocks) + causal) * width
    return {"sqrt": sqrt, "exact": length}


def _print_table(rows: list[SelectionRow]) -> None:
    table = console_table(
        ("keys", "length", "recall", "vectors", "ms\nsqrt", "\nexact"),
        title="selection of keys",
        caption="recall: share of the best keys found; vectors: compared with the last query; ms: for all queries",
    )
    for sqrt, exact in zip(rows[::2], rows[1::2], strict=True):
        keys = f"{sqrt.keys}, causal" if sqrt.causal else sqrt.keys
        times = (f"{row.milliseconds:,.0f}" for row in (sqrt, exact))
        table.add_row(keys, f"{sqrt.length:,}", f"{sqrt.recall:.3f}", f"{sqrt.vectors}", *times)
    Console().print(table)


def plot_recall(rows: Sequence[SelectionRow], top_k: int) -> bytes:
    """Recall over length: a line for each method, a panel for each kind of keys, without and with causality."""
    kinds = list(dict.fromkeys(row.keys for row in rows))
    figure = Figure(figsize=(3.8 * len(kinds), 6.4), layout="constrained")
    axes = figure.subplots(2, len(kinds), squeeze=False, sharex=True, sharey=True)
    for line, causal in zip(axes, (False, True), strict=True):
        for ax, kind in zip(line, kinds, strict=True):
            _plot_panel(ax, [row for row in rows if row.keys == kind and row.causal == causal])
            ax.set_title(f"{kind}, causal" if causal else kind, loc="left", fontsize=12)
    axes[0, 0].set_ylim(0, 1.05)
    for ax in axes[:, 0]:
        ax.set_ylabel(f"recall@{top_k}", fontsize=12)
    for ax in axes[-1]:
        ax.set_xlabel("number of keys", fontsize=12)
    legend_below(figure, 3, 11.5)
    figure.suptitle(f"Share of the {top_k} best keys that a query finds", fontsize=14)
    return png(figure)


def _plot_panel(ax: Axes, rows: Sequence[SelectionRow]) -> None:
    for method, (colour, marker, label) in _STYLES.items():
        points = sorted((row.length, row.recall) for row in rows if row.method == method)
        ax.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.8, label=label)
    lengths = sorted({row.length for row in rows})
    ax.set_xscale("log")
    ax.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=35)
    ax.set_xticks([], minor=True)
    open_frame(ax)
