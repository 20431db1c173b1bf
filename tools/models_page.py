"""Write the tables of docs/models.md from the registry and results/counterparts.json: python tools/models_page.py.

Each table stands between two markers, `<!-- table: name -->` and `<!-- end -->`; a test asks whether the page is
what this writes.
"""

from __future__ import annotations

import sys

from performance_tables import MARKED, bench, load, number
from provenance import ROOT

from nacre.models import list_models, model_info, model_options
from nacre.models._listing import parameters
from nacre.models._registry import KINDS

PAGE = ROOT / "docs" / "models.md"


def rows_of(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown, everything to the left."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *rows))


def models() -> str:
    """Every model with what the registry knows about it, a table for each kind, in the order of the paper's."""
    infos = [model_info(name) for name in list_models()]
    head = ("name", "what it is", "time", "causal", "cost", "size", "checked against")
    parts = []
    for kind in KINDS:
        rows = [
            (
                f"`{info.name}`",
                f"{info.summary} ({info.paper})",
                "yes" if info.uses_time else "no",
                "yes" if info.causal else "no",
                info.cost.replace(" ", "\N{NO-BREAK SPACE}"),
                f"{parameters(info.name):,}",
                info.checked,
            )
            for info in infos
            if info.kind == kind
        ]
        parts.append(f"### {kind}\n\n{rows_of(head, rows)}")
    return "\n".join(parts)


def options() -> str:
    """Options of the baselines, with their defaults."""
    found = {name: model_options(name) for name in list_models()}
    return rows_of(
        ("name", "options"),
        [
            (f"`{name}`", ", ".join(f"`{option}={value!r}`" for option, value in mine.items()) or "none")
            for name, mine in found.items()
            if mine is not None
        ],
    )


def counterparts() -> str:
    """How much faster than the public implementation."""
    rows = load("counterparts.json")["results"]
    head = ("name", "public counterpart", "batch", "forward", "training step", "forward without kernels")
    return rows_of(
        head,
        [
            (
                f"`{row['model']}`",
                row["counterpart"],
                str(row["batch"]),
                *(number(row[key]["speedup"]) if key in row else "" for key in ("forward", "step", "torch")),
            )
            for row in rows
        ],
    )


def cost() -> str:
    """Time and memory beside MultiheadAttention."""
    return bench("zoo/bench.json")


TABLES = {"models": models, "options": options, "counterparts": counterparts, "cost": cost}


def page() -> str:
    """The page with its tables written anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", PAGE.read_text())


if __name__ == "__main__":
    text = page()
    PAGE.write_text(text)
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
