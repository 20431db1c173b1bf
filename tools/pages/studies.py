"""docs/studies.md, from results/studies: *.json of `nacre study frozen`, `uat` and `spiral`."""

from nacre.study.frozen.figures import plot_frozen
from nacre.study.frozen.table import read_results as read_frozen
from nacre.study.frozen.table import rows_of as frozen_rows
from nacre.study.spiral.claims import claims_of, sentences
from nacre.study.spiral.data import PARTS
from nacre.study.spiral.figures import plot_spiral
from nacre.study.spiral.table import CONTROLS
from nacre.study.spiral.table import read_results as read_spiral
from nacre.study.spiral.table import rows_of as spiral_rows
from nacre.study.uat.data import controls
from nacre.study.uat.figures import plot_uat
from nacre.study.uat.table import read_results as read_uat
from nacre.study.uat.table import rows_of as uat_rows

from ._shared import RESULTS, columns, load_all, origin, table

FROZEN, UAT, SPIRAL = (RESULTS / "studies" / name for name in ("frozen", "uat", "spiral"))
HALVES = dict(zip(PARTS, ("first half, 1e-4", "second half, 1e-4"), strict=True))


def frozen_errors() -> str:
    """Errors beside the paper's."""
    formats = {
        "regime": "{regime}",
        "φ varies": "{phi_variation:.2f}",
        "ω varies": "{omega_variation:.2f}",
        "mean": "{mean_error:.2f}",
        "max": "{max_error:.2f}",
        "cannot exceed": "{limit:.2f}",
        "mean, reported": "{reported_mean:.2f}",
        "max, reported": "{reported_max:.2f}",
    }
    return columns(formats, [row for row in frozen_rows(read_frozen(FROZEN)) if row.strength == "reported"])


def frozen_orders() -> str:
    """The bound, and how errors grow."""
    body = []
    for row in frozen_rows(read_frozen(FROZEN)):
        bound = {None: "none applies", True: "holds", False: "BROKEN"}[row.bound_holds]
        nearest = "" if row.bound_nearest is None else f"{row.bound_nearest:.2f}"
        finer = "exact" if row.refrozen_slope is None else f"{row.refrozen_slope:.2f}"
        errors = (f"{row.mean_error:.2f}", f"{row.max_error:.2f}")
        body.append((f"{row.regime}, {row.strength}", *errors, bound, nearest, f"{row.halved_slope:.2f}", finer))
    titles = ("regime, variation", "mean %", "max %", "bound", "error / bound", "order in T", "order in n")
    return table(titles, body)


def uat_errors() -> str:
    """Errors by width."""
    rows = uat_rows(read_uat(UAT))
    widths = sorted({row.width for row in rows})
    by = {(row.target, row.variant, row.width): row for row in rows}
    body = []
    for target, variant in dict.fromkeys((row.target, row.variant) for row in rows):
        some = [by[target, variant, width] for width in widths]
        errors = [f"{row.error:.4f} ({row.lowest:.4f} to {row.highest:.4f})" for row in some]
        body.append((f"{target}, {variant}", *errors, f"{some[-1].share:.2f}"))
    return table(("function, variant", *(f"width {width}" for width in widths), "widest / narrowest"), body)


def uat_controls() -> str:
    """What fits without a network get."""
    found = {target: controls(target) for target in ("sin", "set")}
    body = {
        target: ", ".join(f"{name} {error:.4f}" for name, error in each.items()) for target, each in found.items()
    }
    return table(("function", "mean squared error without a network"), body.items())


def spiral_claims() -> str:
    """The paper's claims, and what the results say of them."""
    rows = spiral_rows(read_spiral(SPIRAL))
    found = {part: sentences(claims_of(rows, part)) for part in PARTS}
    body = [(str(section), part, words) for part in PARTS for section, words in found[part].items()]
    return table(("varied", "mean squared error of", "found, and the paper's word"), body, text=True)


def spiral_errors() -> str:
    """Every setting."""
    rows = []
    for row in spiral_rows(read_spiral(SPIRAL)):
        rows.append(vars(row) | {part: 1e4 * row.mse(part) for part in PARTS})
    formats = {"varied": "{section}", "heads": "{heads}", "sparsity": "{sparsity:g}", "K": "{top_k}"}
    formats |= {"length": "{length:,}"} | {title: f"{{{part}:.2f}}" for part, title in HALVES.items()}
    return columns(formats | {"seeds": "{seeds}"}, rows)


def spiral_controls() -> str:
    """Errors of controls, and the lowest of NAC, at each length."""
    rows = spiral_rows(read_spiral(SPIRAL))
    body = []
    for length in sorted({row.length for row in rows}):
        some = [row for row in rows if row.length == length]
        for name, title in CONTROLS.items():
            errors = (getattr(some[0], f"{name}_mse_{part}") for part in PARTS)
            body.append((f"{length:,}", title, *(f"{1e4 * error:.2f}" for error in errors)))
        best = (min(row.mse(part) for row in some) for part in PARTS)
        body.append((f"{length:,}", "lowest of NAC", *(f"{1e4 * error:.2f}" for error in best)))
    return table(("length", "control", *HALVES.values()), body)


TABLES = {
    "frozen-errors": frozen_errors,
    "frozen-orders": frozen_orders,
    "uat-errors": uat_errors,
    "uat-controls": uat_controls,
    "spiral-claims": spiral_claims,
    "spiral-errors": spiral_errors,
    "spiral-controls": spiral_controls,
    "origin": lambda: "".join(
        f"**{name}**\n\n{origin(load_all(f'studies/{name}'))}\n" for name in ("frozen", "uat", "spiral")
    ),
}
FIGURES = {
    "study-frozen.png": lambda: plot_frozen(read_frozen(FROZEN)),
    "study-uat.png": lambda: plot_uat(read_uat(UAT)),
    "study-spiral.png": lambda: plot_spiral(read_spiral(SPIRAL)),
}
