"""Recipes: everything that a task fixes, as data. One TOML file each; yours look the same."""

import fnmatch
import logging
import tomllib
from dataclasses import asdict, dataclass, field, replace
from datetime import date, time
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from nacre._util.checks import choice, there_are
from nacre._util.digest import checksum, differences
from nacre.tasks.metrics import METRICS_OF
from nacre.tasks.recipe_sections import NetworkRecipe, Schedule, SplitRecipe, TrainingRecipe, check_keys

SUFFIX = ".toml"
_log = logging.getLogger("nacre")


class Profile(StrEnum):
    """How much is trained, and how large the networks are."""

    QUICK = "quick"  # a smoke run: the networks of "standard", a few steps
    STANDARD = "standard"  # small networks, until the validation loss stops improving or a limit of steps
    PAPER = "paper"  # the sizes and epochs of the paper's table


# Raise it if a default of a recipe changes: digests count only what differs from the defaults.
DIGEST_RULE = 2
_BUDGET_OF = {  # the numbers of [training] that say how long a profile trains
    Profile.QUICK: ("quick_steps", "quick_valid"),
    Profile.STANDARD: ("steps", "quick_valid"),
    Profile.PAPER: ("epochs",),
}
_BUDGET = ("epochs", "steps", "quick_steps", "quick_valid")


class Precision(StrEnum):
    """Numbers that a network is trained with, under Lightning's names."""

    FLOAT32 = "32-true"
    FLOAT64 = "64-true"
    MIXED_BFLOAT16 = "bf16-mixed"
    MIXED_FLOAT16 = "16-mixed"


@dataclass(frozen=True)
class Recipe:
    """All that a task fixes."""

    name: str
    summary: str = ""  # one line
    column: str = ""  # of the paper's results table, if it has one
    # Name of a data set, or csv, or python (a function), and their options; empty for data in memory.
    data: dict[str, Any] = field(default_factory=dict)
    split: SplitRecipe = field(default_factory=SplitRecipe)
    network: NetworkRecipe = field(default_factory=NetworkRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    # What the profiles "quick" and "standard" change of [network] and [training].
    standard: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)  # options, by name or pattern such as "nac*"
    metric: str = ""  # that judges, see `nacre.tasks.metrics.METRICS_OF`; none: the main one of the kind

    @property
    def digest(self) -> str:
        """Checksum of what affects results in some profile: all but the words, and where a file of yours lies."""
        parts = differences(replace(self, summary="", column="", data=self._source()))
        return checksum(parts | {"rule": DIGEST_RULE})

    def settings(self, profile: Profile) -> dict[str, Any]:
        """What acts on every model in a profile, as plain data: what differs from the defaults.

        Options of single models are not among it (`options`), nor numbers that only other profiles use.
        """
        recipe = self.at(profile)
        training = differences(recipe.training)
        unused = {*_BUDGET} - {*_BUDGET_OF[profile]}
        if recipe.training.schedule == Schedule.CONSTANT:
            unused.add("warmup")
        return {
            "name": recipe.name,
            **({"metric": recipe.metric} if recipe.metric else {}),
            "data": recipe._source(),
            "split": differences(recipe.split),
            "network": differences(recipe.network),
            "training": {key: value for key, value in training.items() if key not in unused},
        }

    def _source(self) -> dict[str, Any]:
        """The data, wherever a file of your own lies."""
        place = {"csv": Path(self.data["csv"]).name} if "csv" in self.data else {}
        return {**self.data, **place}

    def at(self, profile: Profile) -> "Recipe":
        """The recipe as a profile uses it."""
        if profile is Profile.PAPER or not self.standard:
            return self
        network, training = (self.standard.get(key, {}) for key in ("network", "training"))
        return replace(
            self,
            network=replace(self.network, **network),
            training=replace(self.training, **training),
            standard={},
        )

    def options(self, model: str) -> dict[str, Any]:
        """Options of a model: where several patterns match its name, the last one wins."""
        found: dict[str, Any] = {}
        for pattern, table in self.models.items():
            if fnmatch.fnmatch(model, pattern):
                found |= table
        return found


def list_recipes() -> list[str]:
    """Names of the tasks that nacre comes with.

    Example:
        >>> "ettm1" in list_recipes()
        True
    """
    return sorted(entry.name.removesuffix(SUFFIX) for entry in _shipped().iterdir() if entry.name.endswith(SUFFIX))


def load_recipe(name: str | Path) -> Recipe:
    """A task by its name, or from a TOML file of your own.

    Example:
        >>> load_recipe("ettm1").training.batch_size
        64
    """
    path = Path(name)
    if path.suffix != SUFFIX:
        name, names = str(name), list_recipes()
        if name not in names:
            file = f"did you mean the file {name}{SUFFIX}?" if Path(f"{name}{SUFFIX}").is_file() else ""
            known = file or f"{there_are(name, names)}, or a file that ends in .toml"
            raise ValueError(f"unknown task {name!r}; {known}")
        return parse_recipe(_shipped().joinpath(f"{name}{SUFFIX}").read_text("utf-8"), name)
    if not path.is_file():
        raise FileNotFoundError(f"no recipe {path}; `nacre tasks` lists the tasks that nacre comes with")
    if path.stem in list_recipes():
        _log.info(
            "%s has the name of a task that nacre comes with: its runs pass for runs of that, in tables, too; "
            "if that is not meant, give the file another name",
            path,
        )
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text, as TOML must be: {error}") from None
    recipe = parse_recipe(text, path.stem, source=str(path))
    if "csv" in recipe.data:  # relative to the recipe, wherever the command runs
        recipe = replace(recipe, data={**recipe.data, "csv": str((path.parent / recipe.data["csv"]).resolve())})
    return recipe


def parse_recipe(text: str, name: str, source: str = "recipe") -> Recipe:
    """A recipe from the text of a TOML file, which messages call `source`."""
    return recipe_of(toml_table(text, source), name, source)


def toml_table(text: str, source: str) -> dict[str, Any]:
    """What a TOML file, which messages call `source`, holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source} is not TOML: {error}") from None
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{source} holds what Python cannot read: {error}") from None
    except RecursionError:
        raise ValueError(f"{source} has too many brackets within brackets") from None


def recipe_of(table: dict[str, Any], name: str, source: str = "recipe") -> Recipe:
    """A recipe from what a TOML file, which messages call `source`, holds."""
    try:
        return _build(name, table)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source}: {error}") from None


_SECTIONS = {"split": SplitRecipe, "network": NetworkRecipe, "training": TrainingRecipe}


def _build(name: str, table: dict[str, Any]) -> Recipe:
    check_keys(Recipe, table, "")
    _check_values("", table)
    values = dict(table)
    for key in (*_SECTIONS, "data", "models", "standard"):
        if not isinstance(values.get(key, {}), dict):
            raise ValueError(f"{key} must be a table, [{key}], got {values[key]!r}")
    for model, options in values.get("models", {}).items():
        if not isinstance(options, dict):
            raise ValueError(f"models.{model} must be a table of options, [models.{model}], got {options!r}")
    texts = {key: values.get(key, "") for key in ("summary", "column", "metric")}
    texts |= {f"data.{key}": values.get("data", {}).get(key, "") for key in ("csv", "python")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"{key} must be text, got {value!r}")
    for key, section in _SECTIONS.items():
        if key in values:
            check_keys(section, values[key], f"{key}.")
            values[key] = section(**values[key])
    for key, changes in values.get("standard", {}).items():
        choice("table of standard", key, ("network", "training"))
        check_keys(_SECTIONS[key], changes, f"standard.{key}.")
    choice("metric", values.get("metric", ""), ["", *dict.fromkeys(m for of in METRICS_OF.values() for m in of)])
    recipe = Recipe(name=name, **values)
    recipe.at(Profile.STANDARD)  # checks what it changes
    return recipe


def _check_values(where: str, value: object) -> None:
    """Refuse dates and integers that torch cannot hold, anywhere in a table."""
    if isinstance(value, dict):
        for key, part in value.items():
            _check_values(f"{where}.{key}" if where else str(key), part)
    elif isinstance(value, list):
        for part in value:
            _check_values(where, part)
    elif isinstance(value, (date, time)):
        raise ValueError(f'{where} must not be a date or a time, got {value}; for text write "{value}"')
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{where} must be an integer of 64 bits, got one of {value.bit_length()}")


def _shipped() -> Any:  # noqa: ANN401 (importlib's Traversable is not a public type in 3.11)
    return files("nacre.tasks") / "recipes"


def to_toml(recipe: Recipe) -> str:
    """The recipe as a TOML file that `load_recipe` reads."""
    import tomli_w  # not needed to read a recipe

    table = _without_none(asdict(recipe))
    return f"# {table.pop('name')}\n{tomli_w.dumps(table)}"


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no word for None."""
    pairs = ((k, _without_none(v) if isinstance(v, dict) else v) for k, v in table.items())
    return {key: value for key, value in pairs if value is not None}
