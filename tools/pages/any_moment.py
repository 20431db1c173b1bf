"""docs/any-moment.md, from results/cells/standard: interpolation and forecasts of ETTm1 and Jena."""

from nacre.train.report.statistics import mean_and_std

from ._shared import load_cells, origin, table

TASKS = ("ettm1-gaps", "jena-gaps", "ettm1-irregular", "jena-irregular")
MODELS = ("nac-plus", "mtan", "cfc-fc", "interpolation", "linear", "persistence")


def cells() -> list[dict]:
    """The cells that the table shows."""
    found = [cell for task in TASKS for cell in load_cells(f"cells/standard/{task}.jsonl")]
    return [cell for cell in found if cell["model"] in MODELS]


def any_moment() -> str:
    """Mean ± standard deviation over folds, by model and task; the lowest of each task is bold."""
    values: dict[tuple[str, str], list[float]] = {}
    for cell in cells():
        values.setdefault((cell["model"], cell["task"]), []).append(cell["value"])
    means = {key: mean_and_std(numbers) for key, numbers in values.items()}
    best = {task: min(mean for (_, of), (mean, _) in means.items() if of == task) for task in TASKS}
    body = []
    for model in MODELS:
        row = [f"`{model}`"]
        for task in TASKS:
            if (model, task) not in means:
                row.append("")
                continue
            mean, std = means[model, task]
            said = f"{mean:.4f} ± {std:.4f}"
            row.append(f"**{said}**" if mean == best[task] else said)
        body.append(row)
    return table(("", *(f"`{task}`" for task in TASKS)), body)


TABLES = {"any-moment": any_moment, "origin": lambda: origin(cells())}
