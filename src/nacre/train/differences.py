"""What differs between a cell and the result that lies in its place."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nacre.tasks.recipe import Recipe, load_recipe

if TYPE_CHECKING:  # cell.py imports this file
    from nacre.train.cell import Cell

_SHOWN = 5  # keys of a recipe, at most


def differences(cell: Cell, found: dict[str, Any]) -> list[str]:
    """In words, each "what THERE there, HERE here", from a result file; empty if it does not say."""
    budget, data = found.get("budget", {}), found.get("data", {})
    pairs = {
        "profile": (budget.get("profile"), str(cell.profile)),
        "precision": (budget.get("precision"), str(cell.precision)),
        "version of the model": (found.get("version", 1), cell.version),
    }
    said = [f"{name} {there} there, {here} here" for name, (there, here) in pairs.items() if there != here]
    if data.get("digest") != cell.task.data.digest:
        said.append("the data")
    elif found.get("split") != cell.split.digest:
        said.append("the folds")
    if found.get("recipe") != cell.task.recipe.digest and "profile" not in " ".join(said):
        said += _of_recipes(cell)
    return said


def _of_recipes(cell: Cell) -> list[str]:
    try:
        there = _flat(load_recipe(cell.directory / "recipe.toml"))
    except (ValueError, OSError):
        return ["the recipe"]
    here = _flat(cell.task.recipe)
    keys = [key for key in sorted(there.keys() | here.keys()) if there.get(key) != here.get(key)]
    said = [f"{key} {_word(there, key)} there, {_word(here, key)} here" for key in keys]
    more = [f"{len(said) - _SHOWN} more of the recipe"] if len(said) > _SHOWN else []
    return [*said[:_SHOWN], *more] or ["the recipe"]


def _flat(recipe: Recipe) -> dict[str, Any]:
    """Values by dotted names, without those that are words only, or where a file lies."""
    table = {k: v for k, v in asdict(recipe).items() if k not in ("name", "summary", "column")}
    flat: dict[str, Any] = {}

    def add(prefix: str, value: object) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                add(f"{prefix}.{key}" if prefix else str(key), part)
        elif value is not None:
            flat[prefix] = _plain(value)

    add("", table)
    flat.pop("data.csv", None)
    return flat


def _plain(value: object) -> object:
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def _word(flat: dict[str, Any], key: str) -> str:
    return repr(flat[key]) if key in flat else "not given"
