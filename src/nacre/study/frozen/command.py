"""`nacre study frozen`: how wrong does a logit get whose gates are frozen at their first values?

NAC solves da/dt = -omega a + phi in closed form, with both gates held at their values at 0. Here they change, in
four regimes and two strengths, and the frozen logit is compared with the true one.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre.study.frozen.figures import plot_frozen
from nacre.study.frozen.gates import Regime, Strength
from nacre.study.frozen.run import FrozenRun, Start
from nacre.study.frozen.table import print_rows, read_results, rows_of
from nacre.study.profile import StudyProfile
from nacre.study.runs import run_study, write_report


@dataclass(frozen=True)
class Frozen:
    """What to look at."""

    profile: str = StudyProfile.QUICK  # how finely
    start: Start = field(default_factory=Start)
    out: Path = Path("studies/frozen")


def run_frozen(study: Frozen) -> list[dict[str, Any]]:
    """Run what is not done yet; print tables of this study's results, and write them with a figure.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if the profile is unknown; at the end, if runs failed.
    """
    runs = [FrozenRun(regime, strength, study.profile, study.start) for strength in Strength for regime in Regime]

    def report(console: Console) -> None:
        """Of these runs only: another profile, or another start, is another study."""
        if results := [result for result in read_results(study.out) if FrozenRun.of(result) in runs]:
            rows = rows_of(results)
            print_rows(rows, console)
            write_report(study.out / "frozen", rows, plot_frozen(results), console)

    return run_study(runs, study.out, _describe, report)


def _describe(result: dict[str, Any]) -> str:
    return f"error [bold]mean {result['mean_error']:.2f} %, max {result['max_error']:.2f} %[/]"
