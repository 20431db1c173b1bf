"""What a search found: on the console, as CSV, as Markdown with pictures, and as a recipe. Needs optuna."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import FrozenTrial
from rich import box
from rich.console import Console
from rich.table import Table

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre.models._search_space import Space
from nacre.tasks.recipe import SUFFIX, to_toml
from nacre.train.tuning.space import recipe_at, start_of, values_of
from nacre.train.tuning.storage import ERROR, Outcome, finished, loss_of, outcome

if TYPE_CHECKING:
    from nacre.train.tuning.trial import Setting

_BEST = 5  # trials that the console shows


def introduce(setting: Setting, space: Space, where: str, console: Console) -> None:
    """Say what is searched, and where trials are kept."""
    table = Table(box=box.SIMPLE_HEAD, title=f"{setting.task.recipe.name}, {setting.model}: what is searched")
    for column in ("", "from", "the recipe's own"):
        table.add_column(column)
    own = values_of(setting.task.recipe, setting.model)
    for name, dimension in space.items():
        table.add_row(name, str(dimension), str(own[name]))
    console.print(table)
    console.print(f"study {where}", soft_wrap=True, highlight=False)


def write_report(study: optuna.Study, setting: Setting, space: Space, console: Console) -> None:
    """Write `trials.csv`; if a trial is finished, print the best and write their recipe, figures and pictures."""
    trials = study.get_trials(deepcopy=False)
    done = sorted(finished(study), key=lambda t: (loss_of(t), t.number))
    write_atomic(setting.out / "trials.csv", _csv(trials, setting, space).encode())
    if not done:
        return
    from nacre.train.tuning.figures import plots_of

    pictures = plots_of(study, start_of(setting.task.recipe, setting.model, space))
    for name, data in pictures.items():
        write_atomic(setting.out / name, data)
    recipe = _write_recipe(done[0], len(done), setting)
    summary = _summary(done, trials, setting, space)
    write_atomic(setting.out / "search.json", _search_json(done, trials, setting, space).encode())
    write_atomic(setting.out / "report.md", _markdown(done, summary, setting, space, pictures).encode())
    _print(done, summary, space, setting, console)
    for path in (setting.out / "report.md", recipe):
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)
    console.print(f"train it with: nacre train {recipe} -m {setting.model}", soft_wrap=True, highlight=False)


def _write_recipe(best: FrozenTrial, done: int, setting: Setting) -> Path:
    task, model = setting.task.recipe, setting.model
    head = (
        f"# Found by `nacre tune`: trial {best.number}, best of {done} by validation loss, {best.value:.6g}\n"
        f"# ({setting.profile} profile, {setting.folds} of {len(setting.task.splits)} folds). Meant for {model}.\n"
    )
    path = setting.out / f"{task.name}-tuned-{model}{SUFFIX}"
    return write_atomic(path, (head + to_toml(recipe_at(task, model, best.params))).encode())


def _search_json(done: list[FrozenTrial], trials: list[FrozenTrial], setting: Setting, space: Space) -> str:
    """The search in figures, and where they come from."""
    search = {
        "task": setting.task.recipe.name,
        "model": setting.model,
        "profile": str(setting.profile),
        "folds": setting.folds,
        "seed": setting.seed,
        "space": {name: str(dimension) for name, dimension in space.items()},
        "outcomes": Counter(map(outcome, trials)),
        "best": loss_of(done[0]),
        "best_point": _applied(done[0], setting, space),
        "median": median(map(loss_of, done)),
        "recipe": _own_loss(done, setting, space),
        "seconds": round(sum(t.duration.total_seconds() for t in trials if t.duration), 1),
        "provenance": provenance(None),
    }
    return json.dumps(search, indent=1) + "\n"


def _own_loss(done: list[FrozenTrial], setting: Setting, space: Space) -> float | None:
    """The loss of the recipe that the search began with, if that was finished."""
    start = start_of(setting.task.recipe, setting.model, space)
    return next((loss_of(trial) for trial in done if trial.params == start), None)


def _summary(done: list[FrozenTrial], trials: list[FrozenTrial], setting: Setting, space: Space) -> str:
    """How the best compares, in a line."""
    counts = Counter(map(outcome, trials))
    own = _own_loss(done, setting, space)
    words = [
        f"best validation loss {loss_of(done[0]):.4g}",
        f"median {median(map(loss_of, done)):.4g}",
        *([] if own is None else [f"the recipe as it was {own:.4g}"]),
        f"trials: {len(done)} finished",
        *(f"{counts[word]} {word}" for word in (Outcome.PRUNED, Outcome.FAILED) if counts[word]),
    ]
    return ", ".join(words)


def _shown(value: Any) -> str:  # noqa: ANN401
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _applied(trial: FrozenTrial, setting: Setting, space: Space) -> dict[str, Any]:
    """The values of a trial as the network got them: widths are rounded to the heads."""
    values = values_of(recipe_at(setting.task.recipe, setting.model, trial.params), setting.model)
    used = {"d_model": values["d_model"]} if "d_model" in space else {}
    return {name: value for name, value in (trial.params | used).items() if name in space}


def _print(done: list[FrozenTrial], summary: str, space: Space, setting: Setting, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="best trials")
    table.add_column("")
    for trial in done[:_BEST]:
        table.add_column(f"{trial.number}", justify="right")
    table.add_row("validation loss", *(_shown(t.value) for t in done[:_BEST]), end_section=True)
    applied = [_applied(trial, setting, space) for trial in done[:_BEST]]
    for name in space:
        table.add_row(name, *(_shown(values[name]) for values in applied))
    table.add_row("parameters", *(f"{t.user_attrs['parameters']:,}" for t in done[:_BEST]))
    console.print(table)
    console.print(summary, highlight=False)


def _csv(trials: list[FrozenTrial], setting: Setting, space: Space) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "validation_loss", "seconds", "parameters", *space, "error"])
    for t in trials:
        values = _applied(t, setting, space) if t.params else {}
        seconds = f"{t.duration.total_seconds():.1f}" if t.duration else ""
        loss = t.value if outcome(t) in (Outcome.FINISHED, Outcome.PRUNED) else ""
        head = [t.number, outcome(t), loss, seconds, t.user_attrs.get("parameters", "")]
        writer.writerow([*head, *(values.get(name, "") for name in space), t.user_attrs.get(ERROR, "")])
    return text.getvalue()


def _markdown(
    done: list[FrozenTrial], summary: str, setting: Setting, space: Space, pictures: dict[str, bytes]
) -> str:
    best = _applied(done[0], setting, space)
    own = values_of(setting.task.recipe, setting.model)
    lines = [
        f"# Tuning {setting.model} on {setting.task.recipe.name}",
        "",
        f"{summary[0].upper()}{summary[1:]}. Profile {setting.profile}, folds {setting.folds} of "
        f"{len(setting.task.splits)}, seed {setting.seed}. Validation loss only: the test part was not looked at.",
        "",
        "| | searched | the recipe's own | best |",
        "|---|---|---|---|",
        *(f"| {name} | {space[name]} | {_shown(own[name])} | {_shown(best[name])} |" for name in space),
        "",
        *(f"![{name.removesuffix('.png')}]({name})\n" for name in pictures),
    ]
    return "\n".join(lines)
