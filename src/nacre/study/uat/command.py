"""`nacre study uat`: does a wider NAC layer fit a function better, and what does its time weighting do?

The paper's theorem says that one wide enough layer approximates every continuous function. What makes the layer
nonlinear differs from the paper's proof: with one step the softmax is 1 and the circuit has no effect. The tanh
neurons of the value gate are one source, the weighting of values with the internal time t is the other. See
`UatNetwork`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import choice
from nacre.study.profile import StudyProfile
from nacre.study.runs import run_study, write_report
from nacre.study.uat.data import Target
from nacre.study.uat.figures import plot_uat
from nacre.study.uat.run import BUDGETS, UatRun, Variant
from nacre.study.uat.table import print_rows, read_results, rows_of

WIDTHS = {StudyProfile.QUICK: (4, 16, 64), StudyProfile.PAPER: (4, 8, 16, 32, 64)}
SEEDS = 3


@dataclass(frozen=True)
class Uat:
    """What to train."""

    profile: str = StudyProfile.QUICK
    out: Path = Path("studies/uat")


def run_uat(study: Uat) -> list[dict[str, Any]]:
    """Run what is not done yet; print tables of this study's results, and write them with a figure.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if the profile is unknown; at the end, if runs failed.
    """
    runs = runs_of(study.profile)

    def report(console: Console) -> None:
        """Of these runs only: another budget is another study."""
        if results := [result for result in read_results(study.out) if UatRun.of(result) in runs]:
            rows = rows_of(results)
            print_rows(rows, console)
            write_report(study.out / "uat", rows, plot_uat(results), console)

    return run_study(runs, study.out, lambda r: f"[bold]error {r['error']:.4f}[/], {r['seconds']:.0f} s", report)


def runs_of(profile: str) -> list[UatRun]:
    """All runs of a profile, seed by seed, so that a part of them is of use."""
    choice("profile", profile, StudyProfile)
    budgets, widths = BUDGETS[StudyProfile(profile)], WIDTHS[StudyProfile(profile)]
    return [
        UatRun(target, variant, width, seed, budgets[target])
        for seed in range(SEEDS)
        for target in Target
        for variant in Variant
        for width in widths
    ]
