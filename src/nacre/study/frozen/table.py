"""The results of a frozen study as rows: read and printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.text import console_table
from nacre.study.frozen.gates import REPORTED_ERROR, Regime, Strength
from nacre.study.frozen.run import FrozenRun
from nacre.study.runs import read_files

_NEEDED = {"mean_error", "max_error", "limit", "variation", "bound", "halved_slope", "refrozen_slope"}
_CURVE = {"t", "varying", "frozen", "error"}
_ERRORS = "phi, omega: (max - min) / mean of the gates; mean, max: |a - frozen a| over t > 0, in % of max |a|"
_REPORTED = (
    "; limit: what the error cannot exceed with gates of this shape, whatever their base values, the horizon and "
    "a start >= 0; reported: the paper's numbers, whose base values, horizon and definitions are not given; its "
    "oscillatory mean exceeds its max, and the average of its max column is 5.91 where it prints 5.18"
)
_ORDERS = (
    "bound: the theorem's, at every point of the grid, with the exact Lipschitz constants of the gates (a step "
    "has none); error / bound: the largest; over T: slope of log error over log horizon, T <= 1/8; over n: slope "
    "over log n, the gates frozen anew on each of n >= 8 intervals (exact for a step between two of them)"
)


@dataclass(frozen=True)
class FrozenRow:
    """One regime at one strength. Errors, limits and variations are in percent."""

    profile: str
    strength: str
    regime: str
    phi: float  # at 0, like the next two
    omega: float
    a: float
    phi_variation: float  # (max - min) / mean
    omega_variation: float
    mean_error: float  # over t > 0
    max_error: float
    limit: float  # of both errors, see `error_limit`
    reported_mean: float | None  # the paper's errors, where the variation is the paper's
    reported_max: float | None
    bound_holds: bool | None  # the theorem's bound at every point; None where none applies
    bound_nearest: float | None  # largest error / bound
    halved_slope: float | None  # order of the error in the horizon
    refrozen_slope: float | None  # order in the number of intervals; None where refreezing leaves no error


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder; refuses damaged ones."""
    return read_files(out, _is_complete)


def _is_complete(result: dict[str, Any]) -> bool:
    FrozenRun.of(result)
    return (
        {*result} >= _NEEDED
        and {*result["curve"]} >= _CURVE
        and {"horizon", "error"} <= {*result["halved"][-1]}
        and {"intervals", "error"} <= {*result["refrozen"][-1]}
    )


def rows_of(results: Iterable[dict[str, Any]]) -> list[FrozenRow]:
    """One row for each result: variation as reported before strong, regimes in the paper's order."""
    rows = [_row(result) for result in results]
    strengths, regimes = [str(s) for s in Strength], [str(r) for r in Regime]
    return sorted(rows, key=lambda row: (row.profile, strengths.index(row.strength), regimes.index(row.regime)))


def _row(result: dict[str, Any]) -> FrozenRow:
    paper = result["strength"] == Strength.REPORTED
    reported = REPORTED_ERROR[Regime(result["regime"])] if paper else (None, None)
    bound = result["bound"] or {"holds": None, "nearest": None}
    return FrozenRow(
        profile=result["profile"],
        strength=result["strength"],
        regime=result["regime"],
        **result["start"],
        phi_variation=result["variation"]["phi"],
        omega_variation=result["variation"]["omega"],
        reported_mean=reported[0],
        reported_max=reported[1],
        bound_holds=bound["holds"],
        bound_nearest=bound["nearest"],
        **{name: result[name] for name in ("mean_error", "max_error", "limit", "halved_slope", "refrozen_slope")},
    )


def print_rows(rows: Sequence[FrozenRow], console: Console) -> None:
    """Errors, those of the paper's variation beside the paper's; then the theorem's bound and orders of growth."""
    for strength in dict.fromkeys(row.strength for row in rows):
        _print_errors([row for row in rows if row.strength == strength], console)
    heads = ("variation", "regime", "bound", "error / bound", "over T", "over n")
    table = console_table(heads, title="bound and orders of growth", caption=_ORDERS, left=["regime"])
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        last = after is None or after.strength != row.strength
        table.add_row(row.strength, row.regime, *_orders(row), end_section=last)
    console.print(table)


def _print_errors(rows: Sequence[FrozenRow], console: Console) -> None:
    """Of one strength."""
    first = rows[0]
    start = f"from phi {first.phi:g}, omega {first.omega:g}, a {first.a:g}"
    paper = first.strength == Strength.REPORTED
    table = console_table(
        (
            "regime",
            "phi",
            "omega",
            "mean",
            "max",
            *(("limit", "reported\nmean", "reported\nmax") if paper else ()),
        ),
        title=f"errors in %, {first.strength} variation, {start}",
        caption=_ERRORS + _REPORTED if paper else _ERRORS,
    )
    for row in rows:
        numbers = [row.phi_variation, row.omega_variation, row.mean_error, row.max_error]
        if row.reported_mean is not None and row.reported_max is not None:
            numbers += [row.limit, row.reported_mean, row.reported_max]
        table.add_row(row.regime, *(f"{x:.2f}" for x in numbers))
    console.print(table)


def _orders(row: FrozenRow) -> list[str]:
    bound = ["none applies", "-"]
    if row.bound_holds is not None:
        bound = ["holds" if row.bound_holds else "[red]BROKEN[/]", f"{row.bound_nearest:.2f}"]
    over_t = "-" if row.halved_slope is None else f"{row.halved_slope:.2f}"
    over_n = "exact" if row.refrozen_slope is None else f"{row.refrozen_slope:.2f}"
    return [*bound, over_t, over_n]
