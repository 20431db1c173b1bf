"""`nacre data check`: what is in data sets, and all that is wrong with recipes of your own."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.budget import at_most
from nacre._util.hearing import heard
from nacre.data.files.listing import check_data, describe
from nacre.data.tables.check import csv_problems
from nacre.models._registry import list_models
from nacre.tasks.recipe import SUFFIX, load_recipe, recipe_of, toml_table
from nacre.tasks.sources import csv_option_problems, csv_options
from nacre.tasks.task import Task, load_task

_REFUSALS = (ValueError, TypeError, OSError, RuntimeError, MemoryError)
_NUMBERS = 10**9  # of a network


def check(names: Sequence[str], data_dir: Path | None = None) -> None:
    """Check data sets that nacre knows, and recipes (`.toml`), and print what they hold.

    Raises:
        ValueError: If something is missing, damaged or wrong, after all others have been checked.
    """
    recipes = [name for name in names if name.endswith(SUFFIX)]
    failed = [problem for name in recipes for problem in check_recipe(Path(name), data_dir)]
    others = [name for name in names if name not in recipes]
    if others or not names:
        try:
            check_data(others, data_dir)
        except ValueError as error:
            failed.append(str(error))
    if failed:
        raise ValueError(failed[0] if len(failed) == 1 else "\n  ".join([f"{len(failed)} problems:", *failed]))


def check_recipe(path: Path, data_dir: Path | None = None) -> list[str]:
    """Print what a recipe and its data are, the guessed kind first; returns all that is wrong with them."""
    console, printed = Console(), set[str]()

    def say(line: str) -> None:
        if line not in printed:
            printed.add(line)
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)

    console.print(str(path), markup=False, highlight=False)
    with heard(say):
        problems = list(dict.fromkeys(_recipe_problems(path)))
        if problems:
            return problems
        try:
            task = load_task(load_recipe(path), data_dir)
        except _REFUSALS as error:
            return [str(error)]
    for line in describe(task.data):
        say(line.strip().removeprefix("note: "))
    first = task.splits[0]
    parts = f"{len(first.train):,}, {len(first.valid):,} and {len(first.test):,}"
    say(f"folds: {len(task.splits)}; the first trains, validates and tests with {parts} sequences")
    return list(_network_problems(task))


def _recipe_problems(path: Path) -> Iterator[str]:
    """What is wrong with a recipe: each key by itself, then the table that it names."""
    yield from _refusal(load_recipe, path)
    try:
        table = toml_table(path.read_text("utf-8"), str(path))
    except (ValueError, OSError):  # said already
        return
    for key, value in table.items():
        parts: list[Any] = [{name: part} for name, part in value.items()] if isinstance(value, dict) else [value]
        for part in parts:
            yield from _refusal(recipe_of, {key: part}, path.stem, str(path))
    data = table.get("data", {})
    if isinstance(data, dict) and isinstance(data.get("csv"), str):
        options = {key: value for key, value in data.items() if key != "csv"}
        yield from csv_option_problems(options)
        known = csv_options(options)
        if {"time", "target"} <= known.keys():
            yield from csv_problems(path.parent / data["csv"], known)


def _network_problems(task: Task) -> Iterator[str]:
    """Why networks of the models that the recipe names, and of nac, cannot be made."""
    named = [name for name in task.recipe.models if name in list_models()]
    for model in dict.fromkeys(["nac", *named]):
        with at_most(_NUMBERS):
            yield from _refusal(task.network, model, 0, 0)


def _refusal(function: Callable[..., object], *args: object) -> list[str]:
    """The message with which a function refuses its arguments, if it does."""
    try:
        function(*args)
    except _REFUSALS as error:
        return [str(error)]
    return []
