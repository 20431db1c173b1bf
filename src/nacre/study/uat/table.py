"""The results of an approximation study as rows: read, averaged over seeds, printed and written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.study.runs import read_files
from nacre.study.uat.data import GRID_POINTS, Target, controls
from nacre.study.uat.network import Variant
from nacre.study.uat.run import UatRun

TITLES = {
    Target.SIN: "sin x, one step",
    Target.SET: "smooth maximum of a set of 8",
}


@dataclass(frozen=True)
class Row:
    """One variant and width on one function, over its seeds.

    Attributes:
        target: "sin" or "set".
        variant: What is done with the layer's values.
        width: d_model.
        steps: Training steps.
        seeds: How many seeds.
        error: Mean of their mean squared errors on held-out points.
        lowest: The lowest of them.
        highest: The highest.
        largest: Mean over seeds of the largest absolute error.
        share: `error` as a share of that of the least width.
        parameters: Trainable numbers, of which some cannot act where a sequence has one step.
    """

    target: str
    variant: str
    width: int
    steps: int
    seeds: int
    error: float
    lowest: float
    highest: float
    largest: float
    share: float
    parameters: int


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder.

    Raises:
        ValueError: If one of them cannot be read.
    """
    return read_files(out, _is_whole)


def _is_whole(result: dict[str, Any]) -> bool:
    drawn = result["fit"] is None if UatRun.of(result).target != Target.SIN else len(result["fit"]) == GRID_POINTS
    return drawn and {"error", "largest", "parameters"} <= {*result}


def rows_of(results: Iterable[dict[str, Any]]) -> list[Row]:
    """Means over seeds, by function and variant, narrow layers first."""
    groups: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    targets, variants = [str(t) for t in Target], [str(v) for v in Variant]
    for result in results:
        key = (targets.index(result["target"]), variants.index(result["variant"]), result["width"])
        groups.setdefault(key, []).append(result)
    rows: list[Row] = []
    for (target, variant, width), group in sorted(groups.items()):
        errors = [r["error"] for r in group]
        same = [row for row in rows if (row.target, row.variant) == (targets[target], variants[variant])]
        rows.append(
            Row(
                target=targets[target],
                variant=variants[variant],
                width=width,
                steps=group[0]["budget"]["steps"],
                seeds=len(group),
                error=mean(errors),
                lowest=min(errors),
                highest=max(errors),
                largest=mean(r["largest"] for r in group),
                share=mean(errors) / same[0].error if same else 1.0,
                parameters=group[0]["parameters"],
            )
        )
    return rows


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """A table for each function, with what fits without a network get."""
    for target in dict.fromkeys(row.target for row in rows):
        some = [row for row in rows if row.target == target]
        least = ", ".join(f"{name} {error:.4f}" for name, error in controls(target).items())
        seeds = min(row.seeds for row in some)
        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"{TITLES[Target(target)]}, {some[0].steps:,} training steps, seeds: {seeds}",
            title_justify="left",
            caption="error: mean squared, on held-out points, mean over seeds; share: of the error of the least "
            f"width; largest: absolute error; least squares without a network: {least}",
            caption_justify="left",
        )
        table.add_column("variant")
        for column in ("width", "error", "lowest", "highest", "share", "largest", "weights"):
            table.add_column(column, justify="right")
        for row in some:
            numbers = (f"{x:.4f}" for x in (row.error, row.lowest, row.highest))
            rest = (f"{row.share:.2f}", f"{row.largest:.2f}", f"{row.parameters:,}")
            table.add_row(row.variant, str(row.width), *numbers, *rest)
        console.print(table)
