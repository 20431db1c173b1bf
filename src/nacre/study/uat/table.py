"""The results of an approximation study as rows: read, averaged over seeds, printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from nacre._util.text import console_table
from nacre.study.runs import read_files
from nacre.study.uat.data import GRID_POINTS, Target, controls
from nacre.study.uat.run import UatRun, Variant

TITLES = {Target.SIN: "sin x, one step", Target.SET: "smooth maximum of a set of 8"}


@dataclass(frozen=True)
class UatRow:
    """One variant and width on one function, over its seeds."""

    target: str
    variant: str
    width: int  # d_model
    steps: int  # of training
    seeds: int  # how many
    error: float  # mean over seeds of the mean squared error on held-out points
    lowest: float  # error of a seed
    highest: float
    largest: float  # mean over seeds of the largest absolute error
    share: float  # `error` as a share of that of the least width
    parameters: int  # of which some cannot act where a sequence has one step


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder; refuses damaged ones."""
    return read_files(out, _is_complete)


def _is_complete(result: dict[str, Any]) -> bool:
    drawn = result["fit"] is None if UatRun.of(result).target != Target.SIN else len(result["fit"]) == GRID_POINTS
    return drawn and {"error", "largest", "parameters"} <= {*result}


def rows_of(results: Iterable[dict[str, Any]]) -> list[UatRow]:
    """Means over seeds, by function and variant, narrow layers first."""
    groups: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    targets, variants = [str(t) for t in Target], [str(v) for v in Variant]
    for result in results:
        key = (targets.index(result["target"]), variants.index(result["variant"]), result["width"])
        groups.setdefault(key, []).append(result)
    rows: list[UatRow] = []
    for (target, variant, width), group in sorted(groups.items()):
        errors = [r["error"] for r in group]
        same = [row for row in rows if (row.target, row.variant) == (targets[target], variants[variant])]
        row = UatRow(
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
        rows.append(row)
    return rows


def print_rows(rows: Sequence[UatRow], console: Console) -> None:
    """A table for each function, with the errors of fits without a network."""
    for target in dict.fromkeys(row.target for row in rows):
        some = [row for row in rows if row.target == target]
        least = ", ".join(f"{name} {error:.4f}" for name, error in controls(target).items())
        seeds = min(row.seeds for row in some)
        table = console_table(
            ("variant", "width", "error", "lowest", "highest", "share", "largest", "weights"),
            title=f"{TITLES[Target(target)]}, {some[0].steps:,} training steps, seeds: {seeds}",
            caption="error: mean squared, on held-out points, mean over seeds; share: of the error of the least "
            f"width; largest: absolute error; least squares without a network: {least}",
        )
        for row in some:
            errors = (f"{x:.4f}" for x in (row.error, row.lowest, row.highest))
            rest = (f"{row.share:.2f}", f"{row.largest:.2f}", f"{row.parameters:,}")
            table.add_row(row.variant, str(row.width), *errors, *rest)
        console.print(table)
