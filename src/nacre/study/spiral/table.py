"""The results of a spiral study as rows: read, averaged over seeds, printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from nacre._util.text import console_table
from nacre.study.runs import read_files
from nacre.study.spiral.claims import claims_of, sentences
from nacre.study.spiral.data import PARTS
from nacre.study.spiral.grid import WIDTH, Section, SpiralSetting, sections_of
from nacre.train.report.statistics import mean_and_std
from nacre.train.report.words import with_std

CONTROLS = {
    "direction_mean": "mean training spiral of its direction",
    "overall_mean": "mean training spiral",
    "persistence": "last point seen",
}
_NEEDED = {"heads", "sparsity", "top_k", "length", "steps", "seed", "parameters", "seconds"}


@dataclass(frozen=True)
class SpiralRow:
    """One setting of a section, over its seeds. Errors are means over seeds; deviations are None for one seed."""

    section: str  # what its table varies
    heads: int
    sparsity: float
    top_k: int
    length: int
    steps: int
    seeds: int  # how many
    mse_interpolation: float  # of the first half
    mse_interpolation_std: float | None
    mse_extrapolation: float
    mse_extrapolation_std: float | None
    mae_interpolation: float
    mae_interpolation_std: float | None
    mae_extrapolation: float
    mae_extrapolation_std: float | None
    parameters: int
    seconds: float  # mean time of a run
    direction_mean_mse_interpolation: float
    direction_mean_mse_extrapolation: float
    overall_mean_mse_interpolation: float
    overall_mean_mse_extrapolation: float
    persistence_mse_interpolation: float
    persistence_mse_extrapolation: float

    def mse(self, part: str) -> float:
        """Mean squared error of "interpolation" or "extrapolation"."""
        return getattr(self, f"mse_{part}")


def read_results(out: Path) -> list[dict[str, Any]]:
    """All result files below a folder; refuses damaged ones."""
    return read_files(out, _is_complete)


def _is_complete(result: dict[str, Any]) -> bool:
    scores = [result, *(result["controls"][name] for name in CONTROLS)]
    return {*result} >= _NEEDED and all({*PARTS} <= {*s[metric]} for s in scores for metric in ("mse", "mae"))


def setting_of(result: dict[str, Any]) -> SpiralSetting:
    """The setting that a result is of."""
    return SpiralSetting(result["heads"], result["sparsity"], result["top_k"], result["length"])


def rows_of(results: Iterable[dict[str, Any]]) -> list[SpiralRow]:
    """Means over seeds, in order of section, steps, length and what is varied."""
    groups: dict[tuple[Section, int, SpiralSetting], list[dict[str, Any]]] = {}
    for result in results:
        setting = setting_of(result)
        for section in sections_of(setting):
            groups.setdefault((section, result["steps"], setting), []).append(result)
    rows = [_row(section, setting, steps, group) for (section, steps, setting), group in groups.items()]
    order = list(Section)
    return sorted(
        rows, key=lambda r: (order.index(Section(r.section)), r.steps, r.length, r.heads, r.sparsity, r.top_k)
    )


def _row(section: Section, setting: SpiralSetting, steps: int, group: Sequence[dict[str, Any]]) -> SpiralRow:
    numbers = {}
    for metric in ("mse", "mae"):
        for part in PARTS:
            spread = mean_and_std([result[metric][part] for result in group])
            numbers[f"{metric}_{part}"], numbers[f"{metric}_{part}_std"] = spread
    for name in CONTROLS:
        for part in PARTS:
            numbers[f"{name}_mse_{part}"] = mean(result["controls"][name]["mse"][part] for result in group)
    return SpiralRow(
        section=str(section),
        **vars(setting),
        steps=steps,
        seeds=len(group),
        parameters=group[0]["parameters"],
        seconds=mean(result["seconds"] for result in group),
        **numbers,
    )


def print_rows(rows: Sequence[SpiralRow], console: Console) -> None:
    """A table for each section and budget; below it the controls, and a check of the paper's claims."""
    for section, steps in dict.fromkeys((row.section, row.steps) for row in rows):
        some = [row for row in rows if (row.section, row.steps) == (section, steps)]
        varied = ("length", "top_k") if section == Section.KEYS else (section,)
        table = console_table(
            (*("K" if name == "top_k" else name for name in varied), *_HEADS),
            title=f"{_TITLES[Section(section)]}; {steps:,} training steps",
            caption=f"{_caption(some)}\n{_claims(rows, steps, Section(section))}".rstrip(),
        )
        for row in some:
            table.add_row(*(f"{getattr(row, name):,}" for name in varied), *_numbers(row))
        console.print(table)


_HEADS = ("MSE, 1st half", "MSE, 2nd half", "MAE, 1st", "2nd", "seeds", "weights", "s")
_TITLES = {
    Section.HEADS: f"heads, {WIDTH} / heads wide each ({WIDTH // 32} for 32), at sparsity 0.5, K=8, 150 points",
    Section.SPARSITY: "sparsity, with 4 heads, K=8, 150 points",
    Section.KEYS: "keys of a query (K) by length, with 4 heads, sparsity 0.5",
}


def _numbers(row: SpiralRow) -> tuple[str, ...]:
    """Cells of a row; errors are enlarged, as the caption says."""
    return (
        *(with_std(1e4 * row.mse(part), _times(1e4, getattr(row, f"mse_{part}_std")), 2) for part in PARTS),
        *(f"{100 * getattr(row, f'mae_{part}'):.2f}" for part in PARTS),
        str(row.seeds),
        f"{row.parameters:,}",
        f"{row.seconds:.0f}",
    )


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _caption(rows: Sequence[SpiralRow]) -> str:
    """Units, and errors of the controls, which differ by length only where a control uses observations."""
    parts = []
    for name, title in CONTROLS.items():
        ends = []
        for part in PARTS:
            values = [1e4 * getattr(row, f"{name}_mse_{part}") for row in rows]
            ends.append(" to ".join(dict.fromkeys(f"{value:,.2f}" for value in (min(values), max(values)))))
        parts.append(f"{title} {ends[0]} and {ends[1]}")
    return (
        "1st half: interpolation, 2nd: extrapolation; the spirals fill the unit square; MSE in 1e-4, MAE in 1e-2; "
        "s: seconds of a run. "
        f"MSE of controls: {'; '.join(parts)}"
    )


def _claims(rows: Sequence[SpiralRow], steps: int, section: Section) -> str:
    """What the rows of a budget say of the paper's claims about a section."""
    same = [row for row in rows if row.steps == steps]
    said = {part: sentences(claims_of(same, part)).get(section) for part in PARTS}
    return "\n".join(f"MSE of {part}: {words}" for part, words in said.items() if words)
