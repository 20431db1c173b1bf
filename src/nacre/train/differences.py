"""What differs between a cell and the result that lies in its place."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nacre.tasks.recipe import Precision, Recipe, load_recipe
from nacre.train.result import Result

if TYPE_CHECKING:  # cell.py imports this file
    from nacre.train.cell import Cell

_SHOWN = 5  # keys of a recipe, at most


def differences(cell: Cell, found: Result) -> list[str]:
    """In words, each "what THERE there, HERE here"; empty if the result does not say."""
    pairs = {
        "profile": (found.profile, str(cell.profile)),
        "precision": (found.record["budget"].get("precision", str(Precision.FLOAT32)), str(cell.precision)),
        "version of the model": (found.version, cell.version),
    }
    if cell.final is not None:
        pairs["steps"] = (found.steps, cell.final.steps)
    said = [f"{name} {there} there, {here} here" for name, (there, here) in pairs.items() if there != here]
    if found.data != cell.task.data.digest:
        said.append("the data")
    elif found.split != cell.split.digest:
        said.append("the folds")
    return said if found.profile != cell.profile else said + _of_recipes(cell)


def _of_recipes(cell: Cell) -> list[str]:
    """What differs in the recipes, as the profile and the model use them."""
    try:
        there = _flat(load_recipe(cell.directory / "recipe.toml"), cell)
    except (ValueError, OSError):
        return ["the recipe"]
    here = _flat(cell.task.recipe, cell)
    keys = [key for key in sorted(there.keys() | here.keys()) if there.get(key) != here.get(key)]
    said = [f"{key} {_word(there, key)} there, {_word(here, key)} here" for key in keys]
    more = [f"{len(said) - _SHOWN} more of the recipe"] if len(said) > _SHOWN else []
    return [*said[:_SHOWN], *more]


def _flat(recipe: Recipe, cell: Cell) -> dict[str, Any]:
    """Values by dotted names, without those that are words only, or where a file lies."""
    table = {
        k: v for k, v in asdict(recipe.at(cell.profile)).items() if k in ("data", "split", "network", "training")
    }
    table["models"] = {cell.model: recipe.options(cell.model)}
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
