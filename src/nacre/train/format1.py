"""Result files of format 1, whose checksums followed another rule: what they are by the rule of today."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nacre.tasks.recipe import Precision, Profile, Recipe
from nacre.tasks.recipe_sections import Schedule
from nacre.train.identity import Identity

# What recipes had in the days of format 1.
_KNOWN = {
    "network": "d_model num_heads conv dense dropout time_scale block depth relative linear image",
    "training": "optimizer lr weight_decay batch_size clip schedule warmup epochs patience steps quick_steps "
    "quick_valid augment",
    "split": "by folds test_share",
}


def upgrade(result: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The result in format 2, with the checksums of today; as it is, if this is not its recipe.

    Args:
        result: Contents of a `result.json`.
        recipe: What it was trained by, as far as its `recipe.toml` says.
    """
    if result.get("format") != 1:
        return result
    for one in _readings(replace(recipe, name=result["task"])):
        if old_digest(one) == result["recipe"]:
            found = _identity(result, one)
            return result | {
                "format": 2,
                "version": found.version,
                "recipe": found.settings,
                "fingerprint": found.fingerprint,
            }
    return result


def _readings(recipe: Recipe) -> Iterator[Recipe]:
    """What a file may have meant: options that it lacks are as by default, or were not there then."""
    yield recipe
    network = replace(recipe.network, block=False, relative=False, linear=False)
    yield replace(recipe, network=network, training=replace(recipe.training, schedule="constant"), standard={})


def _identity(result: dict[str, Any], recipe: Recipe) -> Identity:
    budget = result["budget"]
    return Identity(
        recipe,
        result["model"],
        result["seed"],
        result["data"]["digest"],
        result["split"],
        Profile(budget["profile"]),
        Precision(budget.get("precision", Precision.FLOAT32)),
        result.get("version", 1),  # first versions had no number
    )


def old_digest(recipe: Recipe) -> str:
    """Checksum of a recipe as in format 1: all values, but for some that were added in its days and not used."""
    place = {"csv": Path(recipe.data["csv"]).name} if "csv" in recipe.data else {}
    data = asdict(replace(recipe, summary="", column="", data={**recipe.data, **place}))
    for section, names in _KNOWN.items():
        data[section] = {key: data[section][key] for key in names.split()}
    network, training = data["network"], data["training"]
    later = [
        (data, "standard", {}),
        (data, "metric", ""),
        (training, "augment", ""),
        (training, "steps", 2000),
        (network, "image", None),
        (network, "block", False),
        (network, "depth", 1),
        (network, "relative", False),
        (network, "linear", False),
    ]
    if training["schedule"] == Schedule.CONSTANT:
        later += [(training, "schedule", Schedule.CONSTANT), (training, "warmup", training["warmup"])]
    if image := network["image"]:
        later.append((image, "dropout_after", "each"))
    for table, key, unused in later:
        if table[key] == unused:
            del table[key]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
