"""`nacre bench --selection`: how many of the best keys each way of selecting finds, and what it costs."""

import csv
import io
import json
import math
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre.bench.selection_figures import plot_recall
from nacre.bench.selection_keys import SelectionSettings, make_keys, train_layer
from nacre.layer.selection import best_columns, sqrt_topk

_CHUNK = 2**23  # exact scores at a time
_METHODS = {"sqrt": sqrt_topk}


@dataclass(frozen=True)
class SelectionRow:
    """One way of selecting at one length.

    Attributes:
        keys: Kind of keys.
        causal: Whether a query sees only keys up to itself.
        length: Number of keys and of queries.
        method: "sqrt" or "exact".
        recall: Share of the exact top K that is found.
        vectors: Vectors that the last query is compared with.
        milliseconds: Median time for all queries; of "exact" scaled up from the compared queries.
    """

    keys: str
    causal: bool
    length: int
    method: str
    recall: float
    vectors: int
    milliseconds: float


def run_selection(out: Path, settings: SelectionSettings | None = None) -> None:
    """Measure recall and cost of selection on random, smooth and learned keys; print a table, write three files.

    Args:
        out: Directory for `bench-selection.json`, `.csv` and `.png`.
        settings: What to measure.
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
    record = {
        "provenance": provenance(None),
        "settings": asdict(settings),
        "training": trained.report,
        "results": [asdict(row) for row in rows],
    }
    out.mkdir(parents=True, exist_ok=True)
    for suffix, data in (
        ("json", (json.dumps(record, indent=1) + "\n").encode()),
        ("csv", _to_csv(rows).encode()),
        ("png", plot_recall(rows, settings.top_k)),
    ):
        path = write_atomic(out / f"bench-selection.{suffix}", data)
        Console().print(f"wrote {path}", soft_wrap=True)


def measure(name: str, q: Tensor, k: Tensor, settings: SelectionSettings, *, causal: bool) -> list[SelectionRow]:
    """Recall and cost of every method; the rounds alternate between them, so that a busy machine slows all."""
    length, top_k = k.shape[2], settings.top_k
    generator = torch.Generator().manual_seed(settings.seed)
    rows = torch.randperm(length, generator=generator)[: settings.queries].sort().values
    best: tuple[Tensor, Tensor] = (rows, rows)
    found: dict[str, tuple[Tensor, Tensor]] = {}
    times: dict[str, list[float]] = {name: [] for name in (*_METHODS, "exact")}
    for _ in range(settings.rounds):
        for method, select in _METHODS.items():
            start = time.perf_counter()
            found[method] = select(q, k, top_k, causal=causal)
            times[method].append(time.perf_counter() - start)
        start = time.perf_counter()
        best = exact_rows(q, k, rows, top_k, causal=causal)
        times["exact"].append((time.perf_counter() - start) * length / len(rows))
    recalls = {m: recall([x[:, :, rows] for x in found[m]], best) for m in _METHODS} | {"exact": 1.0}
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


def recall(found: list[Tensor] | tuple[Tensor, Tensor], best: tuple[Tensor, Tensor]) -> float:
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
    table = Table(
        title="selection of keys",
        caption="recall: share of the best keys found; vectors: compared with the last query; "
        "ms: for all queries.",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("keys", "length", "recall", "vectors", "ms\nsqrt", "\nexact"):
        table.add_column(name, justify="left" if name == "keys" else "right", no_wrap=True)
    cells = {(r.keys, r.causal, r.length, r.method): r for r in rows}
    for keys, causal, length, method in cells:
        if method == "sqrt":
            sqrt, exact = (cells[keys, causal, length, m] for m in ("sqrt", "exact"))
            table.add_row(
                f"{keys}, causal" if causal else keys,
                f"{length:,}",
                f"{sqrt.recall:.3f}",
                f"{sqrt.vectors}",
                *(f"{r.milliseconds:,.0f}" for r in (sqrt, exact)),
            )
    Console().print(table)


def _to_csv(rows: list[SelectionRow]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(SelectionRow.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return buffer.getvalue()
