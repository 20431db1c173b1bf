"""docs/models.md, from the registry, results/counterparts.json and results/zoo."""

from nacre.models import model_info, model_options
from nacre.models._listing import parameters
from nacre.models._registry import KINDS, own_models

from ._shared import bench, columns, load, number, table


def models() -> str:
    """Every model with what the registry knows about it, a table for each kind, in the order of the paper's."""
    formats = {
        "name": "`{name}`",
        "what it is": "{summary} ({paper})",
        "time": "{time}",
        "causal": "{is_causal}",
        "cost": "{cost}",
        "size": "{size:,}",
        "checked against": "{checked}",
    }
    rows = []
    for info in map(model_info, own_models()):
        yes = {"time": "yes" if info.uses_time else "no", "is_causal": "yes" if info.causal else "no"}
        cost = info.cost.replace(" ", "\N{NO-BREAK SPACE}")
        rows.append(vars(info) | yes | {"cost": cost, "size": parameters(info.name)})
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS if kind != "other"}
    return "\n".join(f"### {kind}\n\n{columns(formats, some, text=True)}" for kind, some in kinds.items())


def options() -> str:
    """Options of the baselines, with their defaults."""
    found = {name: model_options(name) for name in own_models()}
    body = [
        (f"`{name}`", ", ".join(f"`{option}={value!r}`" for option, value in mine.items()) or "none")
        for name, mine in found.items()
        if mine is not None
    ]
    return table(("name", "options"), body, text=True)


def counterparts() -> str:
    """How much faster than the public implementation."""
    body = []
    for row in load("counterparts.json")["results"]:
        times = [number(row[key]["speedup"]) if key in row else "" for key in ("forward", "step", "torch")]
        body.append((f"`{row['model']}`", row["counterpart"], str(row["batch"]), *times))
    titles = ("name", "public counterpart", "batch", "forward", "training step", "forward without kernels")
    return table(titles, body, text=True)


TABLES = {
    "models": models,
    "options": options,
    "counterparts": counterparts,
    "cost": lambda: bench("zoo/bench.json"),
}
