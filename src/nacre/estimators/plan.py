"""From the arguments of an estimator to a recipe, a setting, and a progress bar."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from nacre._util.checks import choice
from nacre._util.progress import bars
from nacre.data.missing import Missing
from nacre.models._registry import model_info
from nacre.tasks.recipe import Profile, Recipe, load_recipe
from nacre.train.run import Run

if TYPE_CHECKING:
    import lightning as L

    from nacre.train.fit import Setting

DEVICES = ("auto", "cpu", "cuda", "gpu", "mps")


@dataclass(frozen=True)
class Plan:
    """What an estimator says of network and training; None for what the recipe says."""

    d_model: int | None = None
    num_heads: int | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    steps: int | None = None
    options: Mapping[str, Any] | None = None  # of the model


def recipe_of(name: str, model: str, recipe: Any, plan: Plan) -> Recipe:  # noqa: ANN401
    """The recipe of an estimator: the defaults, a recipe or its file, with what the plan says.

    Example:
        >>> recipe_of("my", "sdpa", None, Plan(d_model=16, steps=100)).training.steps
        100
    """
    model_info(model)  # refuses names that are not known
    base = recipe or Recipe(name)
    if not isinstance(base, Recipe):
        if not isinstance(base, str | os.PathLike):
            raise TypeError(f"recipe must be a Recipe or a file, got {type(base).__name__}")
        base = load_recipe(Path(base))
    if base.data:
        raise ValueError(f"recipe has [data] of its own, {base.data}; leave it out, data comes with fit")
    base = replace(base.at(Profile.STANDARD), name=name)
    network = {"d_model": plan.d_model, "num_heads": plan.num_heads}
    training = {"lr": plan.learning_rate, "batch_size": plan.batch_size, "steps": plan.steps}
    return replace(
        base,
        network=replace(base.network, **_said(network)),
        training=replace(base.training, **_said(training)),
        models={**base.models, model: dict(plan.options)} if plan.options else base.models,
    )


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def device_of(device: str, logger: Any) -> Setting:  # noqa: ANN401
    """The setting of training on a device, whose best weights Ctrl-C keeps."""
    from nacre.train.fit import Setting  # Lightning takes seconds to import

    choice("device", device, DEVICES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda', but torch sees no GPU; say device='auto'")
    return Setting(accelerator=device, logger=logger if logger is not None else False, keeps=True)


@contextmanager
def shown(model: str, progress: bool | None) -> Iterator[list[L.Callback]]:
    """Callbacks that show how far training is; by default on a terminal only."""
    console = Console(stderr=True)
    if not (console.is_terminal if progress is None else progress):
        yield []
        return
    from nacre.train.bar import Bar

    with bars(console) as lines:
        yield [Bar(lines, lines.add_task(model, total=None, unit="steps", loss=""), console.print)]


def parameters_of(estimator: type, run: Run) -> dict[str, Any]:
    """Arguments of an estimator that trains such a run."""
    known = inspect.signature(estimator.__init__).parameters
    said = run.result.record.get("estimator", {}).get("parameters")
    if said is None:  # of `nacre train`
        missing = Missing.ERROR if run.columns is None else run.columns.reading.missing
        said = {"model": run.result.model, "missing": str(missing), "recipe": replace(run.recipe, data={})}
    return {name: value for name, value in said.items() if name in known} | {"random_state": run.result.seed}
