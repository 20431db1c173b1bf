"""`nacre study spiral`: what heads, sparsity and the number of keys do to NAC on irregular spirals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import choice, whole
from nacre.study.profile import StudyProfile
from nacre.study.runs import run_study, write_report
from nacre.study.spiral.data import PARTS
from nacre.study.spiral.figures import plot_spiral
from nacre.study.spiral.grid import GRIDS, Section
from nacre.study.spiral.run import SpiralRun
from nacre.study.spiral.table import print_rows, read_results, rows_of


@dataclass(frozen=True)
class SpiralStudy:
    """What to run."""

    profile: str = StudyProfile.QUICK
    sections: Sequence[str] = tuple(Section)  # what to vary
    seeds: int | None = None  # how many, from 0 on; None for the profile's
    steps: int | None = None  # of training; None for the profile's
    out: Path = Path("studies/spiral")

    def runs(self) -> list[SpiralRun]:
        """All runs, seed by seed, so that a part of them is of use; a setting of two sections is run once.

        Raises:
            ValueError: If the profile, a section or a number makes no sense.

        Example:
            >>> runs = SpiralStudy(sections=["heads", "sparsity"], seeds=1).runs()
            >>> len(runs), str(runs[0])
            (10, '1 heads, sparsity 0.5, K=8, 150 points, seed 0')
        """
        choice("profile", self.profile, StudyProfile)
        for section in self.sections:
            choice("section", section, Section)
        grid = GRIDS[StudyProfile(self.profile)]
        seeds = grid.seeds if self.seeds is None else whole("seeds", self.seeds, 1)
        # A schedule of one step would begin at its end, with a rate of nearly 0.
        steps = grid.steps if self.steps is None else whole("steps", self.steps, 2)
        settings = dict.fromkeys(s for section in self.sections for s in grid.settings(Section(section)))
        return [SpiralRun(setting, steps, seed) for seed in range(seeds) for setting in settings]


def run_spiral(study: SpiralStudy) -> list[dict[str, Any]]:
    """Run what is not done yet; print tables of all results in the folder, and write them with a figure.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if a number or name makes no sense; at the end, if runs failed.
    """
    todo = study.runs()

    def report(console: Console) -> None:
        """Tables and CSV of all results; the figure shows those of this study's budget."""
        results = read_results(study.out)
        if rows := rows_of(results):
            print_rows(rows, console)
            same = [result for result in results if result["steps"] == todo[0].steps]
            write_report(study.out / "spiral", rows, plot_spiral(same) if same else None, console)

    return run_study(todo, study.out, _describe, report)


def _describe(result: dict[str, Any]) -> str:
    mse = ", ".join(f"{part} {result['mse'][part]:.2e}" for part in PARTS)
    return f"[bold]MSE {mse}[/], {result['seconds']:.0f} s"
