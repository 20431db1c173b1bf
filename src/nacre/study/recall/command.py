"""`nacre study recall`: can a model find one item among many, by its key or by its time?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import choice, whole
from nacre.study.recall.data import Question
from nacre.study.recall.network import RecallNetwork
from nacre.study.recall.run import RecallRun
from nacre.study.recall.table import Row, print_rows, read_results, rows_of
from nacre.study.runs import csv_text, run_all, write_files
from nacre.study.spec import ModelSpec

MODELS = ("nac", "nac-plus", "sdpa")


@dataclass(frozen=True)
class Recall:
    """What to ask of whom.

    Attributes:
        models: Models, with options if need be: "nac-plus" or "nac:match=content".
        questions: "key", "time" or both.
        lengths: Steps of a sequence.
        top_k: Keys a query attends to, for NAC layers; empty for each layer's own.
        seeds: How many seeds, from 0 on.
        steps: Training steps.
        out: Where results go.
    """

    models: Sequence[str] = MODELS
    questions: Sequence[str] = (Question.KEY,)
    lengths: Sequence[int] = (64,)
    top_k: Sequence[int] = ()
    seeds: int = 1
    steps: int = 1500
    out: Path = Path("studies/recall")


def run_recall(study: Recall) -> list[dict[str, Any]]:
    """Run what is not done yet; print a table of all results in the folder, and write it with a plot.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if a model, question or number makes no sense; at the end, if runs
            failed.
    """
    todo = list(_runs(study))
    for spec in dict.fromkeys(run.spec for run in todo):
        RecallNetwork(spec)  # refuses options that do not suit
    console = Console()
    ran = run_all(todo, study.out, console, _describe)
    _report(study.out, console)
    ran.require_success()
    return ran.made


def _runs(study: Recall) -> Iterator[RecallRun]:
    """All runs, seed by seed, so that a part of them is of use."""
    specs = [ModelSpec.parse(text) for text in study.models]
    for question in study.questions:
        choice("question", question, Question)
    for length in study.lengths:
        whole("length", length, 3)
    if Question.TIME in study.questions:
        for spec in specs:
            _require_any_order(spec)
    for seed in range(whole("seeds", study.seeds, 1)):
        for question in study.questions:
            for length in study.lengths:
                for spec in specs:
                    for chosen in _with_keys(spec, study.top_k):
                        yield RecallRun(question, chosen, length, whole("steps", study.steps, 1), seed)


def _require_any_order(spec: ModelSpec) -> None:
    """The step that asks comes last, whatever its time: its place must not tell what is near."""
    if spec.uses_time and not spec.is_nac:
        raise ValueError(
            f"{spec} needs stamps in order, but the question 'time' is asked by the last step of a sequence about "
            "an earlier time; it can be asked of the NAC family, and of models without time as controls"
        )


def _with_keys(spec: ModelSpec, top_k: Sequence[int]) -> list[ModelSpec]:
    """The model once for each number of keys, if it chooses any."""
    if not (top_k and spec.is_nac):
        return [spec]
    return [spec.replace(top_k=whole("top_k", k, 1)) for k in top_k]


def _describe(result: dict[str, Any]) -> str:
    found = "" if result["found"] is None else f", found {result['found']:.2f}"
    return f"[bold]accuracy {result['accuracy']:.3f}[/]{found}, {result['seconds']:.0f} s"


def _report(out: Path, console: Console) -> None:
    results = read_results(out)
    if not results:
        return
    from nacre.study.recall.figures import plot_recall

    rows = rows_of(results)
    print_rows(rows, console)
    table, picture = csv_text(rows, Row).encode(), plot_recall(results)
    write_files({out / "recall.csv": table, out / "recall.png": picture}, console)
