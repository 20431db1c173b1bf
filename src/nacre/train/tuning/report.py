"""What a search found: on the console, as CSV, as Markdown with figures, and as a recipe. Needs optuna."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import FrozenTrial
from rich.console import Console

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre._util.text import console_table, csv_text, json_text, markdown_rows
from nacre.models._registry import model_folder
from nacre.tasks.recipe import SUFFIX, to_toml
from nacre.train.tuning.space import recipe_at, values_of
from nacre.train.tuning.storage import ERROR, TrialOutcome, finished, loss_of, outcome

if TYPE_CHECKING:
    from nacre.train.tuning.trial import SearchContext

_BEST = 5  # trials that the console shows


def introduce(context: SearchContext, where: str, console: Console) -> None:
    """Say what is searched, and where trials are kept."""
    columns = ("", "from", "the recipe's own")
    title = f"{context.task.recipe.name}, {context.model}: what is searched"
    table = console_table(columns, title=title, left=columns)
    own = values_of(context.task.recipe, context.model)
    for name, dimension in context.space.items():
        table.add_row(name, str(dimension), str(own[name]))
    console.print(table)
    console.print(f"study {where}", soft_wrap=True, highlight=False)


def write_report(study: optuna.Study, context: SearchContext, console: Console) -> None:
    """Write `trials.csv`; if a trial is finished, print the best and write recipe, report and figures."""
    trials = study.get_trials(deepcopy=False)
    done = sorted(finished(study), key=lambda t: (loss_of(t), t.number))
    write_atomic(context.out / "trials.csv", _csv(trials, context).encode())
    if not done:
        return
    from nacre.train.tuning.figures import figures_of

    figures = figures_of(study, context.start)
    for name, data in figures.items():
        write_atomic(context.out / name, data)
    recipe = _write_recipe(done[0], len(done), context)
    summary = _summary(done, trials, context)
    write_atomic(context.out / "search.json", json_text(_describe(done, trials, context)).encode())
    write_atomic(context.out / "report.md", _markdown(done, summary, context, figures).encode())
    _print(done, summary, context, console)
    for path in (context.out / "report.md", recipe):
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)
    console.print(f"train it with: nacre train {recipe} -m {context.model}", soft_wrap=True, highlight=False)


def _write_recipe(best: FrozenTrial, done: int, context: SearchContext) -> Path:
    task, model = context.task.recipe, context.model
    head = (
        f"# Found by `nacre tune`: trial {best.number}, best of {done} by validation loss, {best.value:.6g}\n"
        f"# ({context.profile} profile, {context.folds} of {len(context.task.splits)} folds). Meant for {model}.\n"
    )
    path = context.out / f"{task.name}-tuned-{model_folder(model)}{SUFFIX}"
    return write_atomic(path, (head + to_toml(recipe_at(task, model, best.params))).encode())


def _describe(done: list[FrozenTrial], trials: list[FrozenTrial], context: SearchContext) -> dict[str, Any]:
    """The search in numbers, and where they come from."""
    return {
        **context.describe(),
        "outcomes": Counter(map(outcome, trials)),
        "best": loss_of(done[0]),
        "best_point": _applied(done[0], context),
        "median": median(map(loss_of, done)),
        "recipe": _own_loss(done, context),
        "seconds": round(sum(t.duration.total_seconds() for t in trials if t.duration), 1),
        "provenance": provenance(None),
    }


def _own_loss(done: list[FrozenTrial], context: SearchContext) -> float | None:
    """The loss of the recipe that the search began with, if that was finished."""
    start = context.start
    return next((loss_of(trial) for trial in done if trial.params == start), None)


def _summary(done: list[FrozenTrial], trials: list[FrozenTrial], context: SearchContext) -> str:
    """The best trial beside the others, in a line."""
    counts = Counter(map(outcome, trials))
    own = _own_loss(done, context)
    words = [
        f"best validation loss {loss_of(done[0]):.4g}",
        f"median {median(map(loss_of, done)):.4g}",
        *([] if own is None else [f"the recipe as it was {own:.4g}"]),
        f"trials: {len(done)} finished",
        *(f"{counts[word]} {word}" for word in (TrialOutcome.PRUNED, TrialOutcome.FAILED) if counts[word]),
    ]
    return ", ".join(words)


def _shown(value: Any) -> str:  # noqa: ANN401
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _applied(trial: FrozenTrial, context: SearchContext) -> dict[str, Any]:
    """The values of a trial as the network got them: widths are rounded to the heads."""
    values = values_of(recipe_at(context.task.recipe, context.model, trial.params), context.model)
    used = {"d_model": values["d_model"]} if "d_model" in context.space else {}
    return {name: value for name, value in (trial.params | used).items() if name in context.space}


def _print(done: list[FrozenTrial], summary: str, context: SearchContext, console: Console) -> None:
    table = console_table(["", *(str(trial.number) for trial in done[:_BEST])], title="best trials")
    table.add_row("validation loss", *(_shown(t.value) for t in done[:_BEST]), end_section=True)
    applied = [_applied(trial, context) for trial in done[:_BEST]]
    for name in context.space:
        table.add_row(name, *(_shown(values[name]) for values in applied))
    table.add_row("parameters", *(f"{t.user_attrs['parameters']:,}" for t in done[:_BEST]))
    console.print(table)
    console.print(summary, highlight=False)


def _csv(trials: list[FrozenTrial], context: SearchContext) -> str:
    rows = []
    for t in trials:
        values = _applied(t, context) if t.params else {}
        seconds = f"{t.duration.total_seconds():.1f}" if t.duration else ""
        loss = t.value if outcome(t) in (TrialOutcome.FINISHED, TrialOutcome.PRUNED) else ""
        head = [t.number, outcome(t), loss, seconds, t.user_attrs.get("parameters", "")]
        rows.append([*head, *(values.get(name, "") for name in context.space), t.user_attrs.get(ERROR, "")])
    return csv_text(["trial", "state", "validation_loss", "seconds", "parameters", *context.space, "error"], rows)


def _markdown(done: list[FrozenTrial], summary: str, context: SearchContext, figures: dict[str, bytes]) -> str:
    best = _applied(done[0], context)
    own = values_of(context.task.recipe, context.model)
    rows = [[name, str(context.space[name]), _shown(own[name]), _shown(best[name])] for name in context.space]
    lines = [
        f"# Tuning {context.model} on {context.task.recipe.name}",
        "",
        f"{summary[0].upper()}{summary[1:]}. Profile {context.profile}, folds {context.folds} of "
        f"{len(context.task.splits)}, seed {context.seed}. Validation loss only: the test part was not looked at.",
        "",
        markdown_rows(["", "searched", "the recipe's own", "best"], rows),
        "",
        *(f"![{name.removesuffix('.png')}]({name})\n" for name in figures),
    ]
    return "\n".join(lines)
