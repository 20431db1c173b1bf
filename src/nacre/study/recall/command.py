"""`nacre study recall`: can a model find one item among many, by its key or by its time?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import choice, whole
from nacre.study.recall.data import Question
from nacre.study.recall.figures import plot_recall
from nacre.study.recall.run import RecallNetwork, RecallRun
from nacre.study.recall.table import print_rows, read_results, rows_of
from nacre.study.runs import run_study, write_report
from nacre.study.spec import ModelSpec

MODELS = ("nac", "nac-plus", "sdpa")


@dataclass(frozen=True)
class Recall:
    """What to ask of whom."""

    models: Sequence[str] = MODELS  # with options if need be: "nac-plus" or "nac:match=content"
    questions: Sequence[str] = (Question.KEY,)
    lengths: Sequence[int] = (64,)  # steps of a sequence
    top_k: Sequence[int] = ()  # keys a query attends to, for NAC layers; empty for each layer's own
    seeds: int = 1  # how many, from 0 on
    steps: int = 1500  # of training
    ask_at: Sequence[int] = ()  # other lengths at which trained networks are asked
    out: Path = Path("studies/recall")


def run_recall(study: Recall) -> list[dict[str, Any]]:
    """Run what is not done yet; print a table of all results in the folder, and write it with a figure.

    Returns:
        The results made now.

    Raises:
        ValueError: Before anything is run, if a model, question or number makes no sense; at the end, if runs
            failed.
    """
    todo = list(_runs(study))
    for spec in dict.fromkeys(run.spec for run in todo):
        RecallNetwork(spec)  # refuses options that do not suit

    def report(console: Console) -> None:
        if results := read_results(study.out):
            rows = rows_of(results)
            print_rows(rows, console)
            write_report(study.out / "recall", rows, plot_recall(results), console)

    return run_study(todo, study.out, _describe, report)


def _runs(study: Recall) -> Iterator[RecallRun]:
    """All runs, seed by seed, so that a part of them is of use."""
    specs = [ModelSpec.parse(text) for text in study.models]
    for question in study.questions:
        choice("question", question, Question)
    for length in study.lengths:
        whole("length", length, 3)
    ask_at = tuple(whole("ask_at", length, 3) for length in study.ask_at)
    if Question.TIME in study.questions:
        for spec in specs:
            _require_any_order(spec)
    for seed in range(whole("seeds", study.seeds, 1)):
        for question in study.questions:
            for length in study.lengths:
                for spec in specs:
                    for chosen in _with_keys(spec, study.top_k):
                        yield RecallRun(question, chosen, length, whole("steps", study.steps, 1), seed, ask_at)


def _require_any_order(spec: ModelSpec) -> None:
    """The step that asks comes last, whatever its time: its position must not tell what is near."""
    if spec.uses_time and not spec.is_nac:
        raise ValueError(
            f"{spec} needs stamps in order, but the question 'time' is asked by the last step of a sequence about "
            "an earlier time; it can be asked of the NAC family, and of models without time as controls"
        )


def _with_keys(spec: ModelSpec, top_k: Sequence[int]) -> list[ModelSpec]:
    """The model once for each number of keys, if it selects keys."""
    if not (top_k and spec.is_nac):
        return [spec]
    return [spec.replace(top_k=whole("top_k", k, 1)) for k in top_k]


def _describe(result: dict[str, Any]) -> str:
    found = "" if result["found"] is None else f", found {result['found']:.2f}"
    also = "".join(f", {r['accuracy']:.3f} at {r['length']:,} steps" for r in result["asked_at"])
    return f"[bold]accuracy {result['accuracy']:.3f}[/]{found}{also}, {result['seconds']:.0f} s"
