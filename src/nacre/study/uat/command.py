"""`nacre study uat`: does a wider NAC layer fit a function better, and what does its time weighting do?

The paper's theorem says that one wide enough layer approximates every continuous function. What makes the layer
nonlinear differs from the paper's proof: with one step the softmax is 1 and the circuit has no say. The tanh
neurons of the value gate are one source, the weighting of values with the internal time t is the other. See
`UatNetwork`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import choice
from nacre.study.runs import csv_text, run_all, write_files
from nacre.study.uat.data import Target
from nacre.study.uat.network import Variant
from nacre.study.uat.run import BUDGETS, UatRun
from nacre.study.uat.table import Row, print_rows, read_results, rows_of
from nacre.tasks.recipe import Profile

WIDTHS = {Profile.QUICK: (4, 16, 64), Profile.PAPER: (4, 8, 16, 32, 64)}
SEEDS = 3


@dataclass(frozen=True)
class Uat:
    """What to train.

    Attributes:
        profile: How much: "quick" or "paper".
        out: Where results go.
    """

    profile: str = Profile.QUICK
    out: Path = Path("studies/uat")


def run_uat(study: Uat) -> list[dict[str, Any]]:
    """Run what is not done yet; print tables of this study's results, and write them with a picture.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if the profile is unknown; at the end, if runs failed.
    """
    runs = runs_of(study.profile)
    console = Console()
    ran = run_all(runs, study.out, console, _describe)
    _report(runs, study.out, console)
    ran.require_success()
    return ran.made


def runs_of(profile: str) -> list[UatRun]:
    """All runs of a profile, seed by seed, so that a part of them is of use."""
    choice("profile", profile, Profile)
    budgets, widths = BUDGETS[Profile(profile)], WIDTHS[Profile(profile)]
    return [
        UatRun(target, variant, width, seed, budgets[target])
        for seed in range(SEEDS)
        for target in Target
        for variant in Variant
        for width in widths
    ]


def _describe(result: dict[str, Any]) -> str:
    return f"[bold]error {result['error']:.4f}[/], {result['seconds']:.0f} s"


def _report(runs: Sequence[UatRun], out: Path, console: Console) -> None:
    """Of these runs only: another budget is another study."""
    results = [result for result in read_results(out) if UatRun.of(result) in runs]
    if not results:
        return
    from nacre.study.uat.figures import plot_uat

    rows = rows_of(results)
    print_rows(rows, console)
    table, picture = csv_text(rows, Row).encode(), plot_uat(results)
    write_files({out / "uat.csv": table, out / "uat.png": picture}, console)
