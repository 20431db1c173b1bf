"""Write the tables of docs/studies.md and docs/tuning.md: python tools/studies_page.py [STUDIES TUNING RUNS].

With the folders that `nacre study frozen|uat|spiral`, `nacre tune spiral -m nac` and `nacre train` of the tuned
recipe filled, their results are taken over into results/studies and results/tuning first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from performance_tables import MARKED, table
from provenance import ROOT
from results_page import came_from, replace_results

from nacre._util.files import write_atomic
from nacre.study.frozen.figures import plot_frozen
from nacre.study.frozen.table import read_results as read_frozen
from nacre.study.frozen.table import rows_of as frozen_rows
from nacre.study.spiral.claims import claims_of, sentences
from nacre.study.spiral.data import PARTS
from nacre.study.spiral.figures import plot_spiral
from nacre.study.spiral.table import CONTROLS, Row
from nacre.study.spiral.table import read_results as read_spiral
from nacre.study.spiral.table import rows_of as spiral_rows
from nacre.study.uat.data import controls
from nacre.study.uat.figures import plot_uat
from nacre.study.uat.table import read_results as read_uat
from nacre.study.uat.table import rows_of as uat_rows

STUDIES, TUNING = ROOT / "results" / "studies", ROOT / "results" / "tuning"
PAGES = (ROOT / "docs" / "studies.md", ROOT / "docs" / "tuning.md")
IMAGES = ROOT / "docs" / "images"
TUNED = ("history.png", "importance.png", "slices.png")


def frozen_errors() -> str:
    """Errors beside the paper's."""
    rows = [row for row in frozen_rows(read_frozen(STUDIES / "frozen")) if row.strength == "reported"]
    body = [
        (
            row.regime,
            *(f"{x:.2f}" for x in (row.phi_variation, row.omega_variation, row.mean_error, row.max_error)),
            f"{row.limit:.2f}",
            f"{row.reported_mean:.2f}",
            f"{row.reported_max:.2f}",
        )
        for row in rows
    ]
    head = ("regime", "φ varies", "ω varies", "mean", "max", "cannot exceed", "mean, reported", "max, reported")
    return table(head, body)


def frozen_orders() -> str:
    """The bound, and how errors grow."""
    body = []
    for row in frozen_rows(read_frozen(STUDIES / "frozen")):
        bound = "none applies" if row.bound_holds is None else "holds" if row.bound_holds else "BROKEN"
        nearest = "" if row.bound_nearest is None else f"{row.bound_nearest:.2f}"
        finer = "exact" if row.refrozen_slope is None else f"{row.refrozen_slope:.2f}"
        figures = (
            f"{row.mean_error:.2f}",
            f"{row.max_error:.2f}",
            bound,
            nearest,
            f"{row.halved_slope:.2f}",
            finer,
        )
        body.append((f"{row.regime}, {row.strength}", *figures))
    return table(
        ("regime, variation", "mean %", "max %", "bound", "error / bound", "order in T", "order in n"), body
    )


def uat_errors() -> str:
    """Errors by width."""
    rows = uat_rows(read_uat(STUDIES / "uat"))
    widths = sorted({row.width for row in rows})
    by = {(row.target, row.variant, row.width): row for row in rows}
    body = []
    for target, variant in dict.fromkeys((row.target, row.variant) for row in rows):
        some = [by[target, variant, width] for width in widths]
        figures = [f"{row.error:.4f} ({row.lowest:.4f} to {row.highest:.4f})" for row in some]
        body.append((f"{target}, {variant}", *figures, f"{some[-1].share:.2f}"))
    return table(("function, variant", *(f"width {width}" for width in widths), "widest / narrowest"), body)


def uat_controls() -> str:
    """What fits without a network get."""
    body = [
        (target, ", ".join(f"{name} {error:.4f}" for name, error in controls(target).items()))
        for target in ("sin", "set")
    ]
    return table(("function", "mean squared error without a network"), body)


def _spirals() -> list[Row]:
    return spiral_rows(read_spiral(STUDIES / "spiral"))


def spiral_claims() -> str:
    """The paper's claims, and what the results say of them."""
    body = []
    for part in PARTS:
        body += [(str(section), part, words) for section, words in sentences(claims_of(_spirals(), part)).items()]
    return table(("varied", "mean squared error of", "found, and the paper's word"), body).replace("---:", "---")


def spiral_errors() -> str:
    """Every setting."""
    body = [
        (
            row.section,
            str(row.heads),
            f"{row.sparsity:g}",
            str(row.top_k),
            f"{row.length:,}",
            *(f"{1e4 * row.mse(part):.2f}" for part in PARTS),
            str(row.seeds),
        )
        for row in _spirals()
    ]
    head = ("varied", "heads", "sparsity", "K", "length", "first half, 1e-4", "second half, 1e-4", "seeds")
    return table(head, body)


def spiral_controls() -> str:
    """Errors of controls at the default length."""
    row = next(row for row in _spirals() if row.section == "heads")
    body = [
        (title, *(f"{1e4 * getattr(row, f'{name}_mse_{part}'):.2f}" for part in PARTS))
        for name, title in CONTROLS.items()
    ]
    return table(("control", "first half, 1e-4", "second half, 1e-4"), body)


def tuned() -> str:
    """What the search found."""
    found = _search()
    words = {"best": "best trial", "recipe": "the recipe as it was", "median": "median of the finished trials"}
    body = [(name, f"{found[key]:.4f}") for key, name in words.items()]
    body += [(f"trials {outcome}", str(count)) for outcome, count in found["outcomes"].items()]
    body += [("minutes of trials", f"{found['seconds'] / 60:.0f}")]
    return table(("`nac` on `spiral`, quick profile", "validation loss, or count"), body)


def tuned_point() -> str:
    """The best values."""
    found = _search()
    body = [
        (f"`{name}`", found["space"][name], f"{value:.4g}" if isinstance(value, float) else str(value))
        for name, value in found["best_point"].items()
    ]
    return table(("searched", "range", "best"), body)


def tuned_test() -> str:
    """Errors on test folds of the recipe as it was, as it was found, and of controls."""
    runs = [json.loads(path.read_bytes()) for path in sorted((TUNING / "runs").rglob("result.json"))]
    values = {(run["task"], run["model"], run["fold"]): run["value"] for run in runs}
    folds = sorted({run["fold"] for run in runs})
    names = {
        (run["task"], run["model"]): run for run in sorted(runs, key=lambda run: (run["control"], run["task"]))
    }
    body = [
        (
            f"`{model}` on `{task}`",
            *(f"{values[task, model, fold]:.4f}" for fold in folds),
            f"{run['parameters']:,}",
        )
        for (task, model), run in names.items()
    ]
    return table(("", *(f"test MSE, fold {fold + 1}" for fold in folds), "parameters"), body)


def _search() -> dict[str, Any]:
    return json.loads((TUNING / "search.json").read_bytes())


def studies_origin() -> str:
    """Where the figures come from."""
    return "".join(
        f"**{name}**\n\n{came_from(STUDIES / name, '*.json')}\n" for name in ("frozen", "uat", "spiral")
    )


def tuning_origin() -> str:
    """Where the figures come from."""
    return came_from(TUNING, "*.json")


TABLES = {
    "frozen-errors": frozen_errors,
    "frozen-orders": frozen_orders,
    "uat-errors": uat_errors,
    "uat-controls": uat_controls,
    "spiral-claims": spiral_claims,
    "spiral-errors": spiral_errors,
    "spiral-controls": spiral_controls,
    "studies-origin": studies_origin,
    "tuned": tuned,
    "tuned-point": tuned_point,
    "tuned-test": tuned_test,
    "tuning-origin": tuning_origin,
}


def page(path: Path) -> str:
    """A page with its tables written anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", path.read_text())


def _take_over(studies: Path, tuning: Path, runs: Path) -> None:
    for name in ("frozen", "uat", "spiral"):
        replace_results(STUDIES / name, studies / name, "*.json")
    replace_results(TUNING, tuning, "search.json")
    replace_results(TUNING / "runs", runs, "result.json")
    for name in TUNED:
        write_atomic(IMAGES / f"tuning-{name}", (tuning / name).read_bytes())


def main() -> None:
    """Take results over, if there are any, and write pages and pictures."""
    if len(sys.argv) > 1:
        _take_over(*map(Path, sys.argv[1:]))
    plots = {
        "frozen": (plot_frozen, read_frozen),
        "uat": (plot_uat, read_uat),
        "spiral": (plot_spiral, read_spiral),
    }
    for name, (plot, read) in plots.items():
        write_atomic(IMAGES / f"study-{name}.png", plot(read(STUDIES / name)))
    for path in PAGES:
        write_atomic(path, page(path).encode())


if __name__ == "__main__":
    main()
