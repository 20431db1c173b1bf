"""The search space around a recipe, and the recipe with the values of a point."""

from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from nacre._util.checks import there_are
from nacre.layer.config import NACConfig
from nacre.models._registry import has_heads, model_options, model_preset, model_space
from nacre.models._search_space import Choice, Real, Space, Whole
from nacre.tasks.recipe import Recipe
from nacre.tasks.recipe_sections import NetworkRecipe

LAYER = "layer."  # before the names of the model's own options
_MOST_LAYERS = 2  # convolutions, dense layers; more if the recipe has more
_FILTERS, _KERNEL, _DENSE = 64, 5, 64  # of a layer that the recipe does not have

_TRAINING: Space = {
    "lr": Real(1e-4, 1e-2, log=True),
    "weight_decay": Real(1e-6, 1e-1, log=True),
    "batch_size": Whole(8, 128, log=True),
    "optimizer": Choice(("adam", "adamw")),
}


def space_of(recipe: Recipe, model: str, only: Sequence[str] = (), *, convolutions: bool = True) -> Space:
    """What is searched for a model on a task: training, what surrounds the layer, and the layer's own options.

    Bounds are widened where necessary, so that the recipe itself is a point of the space. `only` names what to
    search; empty for all. Without `convolutions` none are searched: networks whose rows only ask cannot have them.

    Example:
        >>> from nacre.tasks.recipe import load_recipe
        >>> space_of(load_recipe("spiral"), "nac", ["lr", "layer.top_k"])
        {'lr': Real(low=0.0001, high=0.01, log=True), 'layer.top_k': Whole(low=2, high=32, log=True, step=1)}
    """
    space = dict(_TRAINING)
    space["d_model"] = Whole(16, 128, log=True)
    if has_heads(model):
        space["num_heads"] = Choice((1, 2, 4, 8, 16))
    space |= _convolutions(recipe.network) if convolutions else {}
    space |= _dense_layers(recipe.network)
    space["dropout"] = Real(0.0, 0.5)
    space |= {LAYER + option: dimension for option, dimension in model_space(model).items()}
    for name in only:
        if name not in space:
            raise ValueError(f"only must name what can be searched, got {name!r}; {there_are(name, list(space))}")
    own = values_of(recipe, model)
    return {name: part.including(own[name]) for name, part in space.items() if name in only or not only}


def _convolutions(network: NetworkRecipe) -> Space:
    most = max(_MOST_LAYERS, len(network.conv))
    space: Space = {"conv_layers": Whole(0, most)}
    even = {i for i, (_, kernel, _) in enumerate(network.conv, 1) if kernel % 2 == 0}  # with stride 1
    for i in range(1, most + 1):
        kernel = Whole(1, 9, step=1 if i in even else 2)
        space |= {f"conv{i}_filters": Whole(8, 128, log=True), f"conv{i}_kernel": kernel}
    return space


def _dense_layers(network: NetworkRecipe) -> Space:
    most = max(_MOST_LAYERS, len(network.dense))
    widths: Space = {f"dense{i}": Whole(8, 256, log=True) for i in range(1, most + 1)}
    return {"dense_layers": Whole(0, most), **widths}


def values_of(recipe: Recipe, model: str) -> dict[str, Any]:
    """What a recipe says about everything that can be searched."""
    training, network = recipe.training, recipe.network
    values: dict[str, Any] = {name: getattr(training, name) for name in _TRAINING}
    values |= {"d_model": network.d_model, "num_heads": network.num_heads, "dropout": network.dropout}
    values |= {"conv_layers": len(network.conv), "dense_layers": len(network.dense)}
    for i in range(max(_MOST_LAYERS, len(network.conv))):
        filters, kernel, _ = network.conv[i] if i < len(network.conv) else (_FILTERS, _KERNEL, 1)
        values |= {f"conv{i + 1}_filters": filters, f"conv{i + 1}_kernel": kernel}
    for i in range(max(_MOST_LAYERS, len(network.dense))):
        values[f"dense{i + 1}"] = network.dense[i] if i < len(network.dense) else _DENSE
    options = model_options(model)
    if options is None:  # those of NAC
        options = {field.name: field.default for field in fields(NACConfig) if field.default is not MISSING}
        options |= model_preset(model)
    options = options | recipe.options(model)
    return values | {LAYER + option: options[option] for option in model_space(model)}


def start_of(recipe: Recipe, model: str, space: Space) -> dict[str, Any]:
    """The recipe as a point of the space, or the nearest one: where a search begins."""
    own = values_of(recipe, model)
    return {name: part.nearest(own[name]) for name, part in space.items()}


def recipe_at(recipe: Recipe, model: str, point: dict[str, Any]) -> Recipe:
    """The recipe with the values of a point, by name; what the point does not name stays.

    The width is rounded up to a multiple of the heads. Convolutions keep their strides, new ones have stride 1.

    Example:
        >>> from nacre.tasks.recipe import load_recipe
        >>> recipe_at(load_recipe("spiral"), "nac", {"d_model": 30, "num_heads": 8}).network.d_model
        32
    """
    values = values_of(recipe, model) | point
    network = recipe.network
    strides = [stride for _, _, stride in network.conv]
    conv = [
        (values[f"conv{i + 1}_filters"], values[f"conv{i + 1}_kernel"], strides[i] if i < len(strides) else 1)
        for i in range(values["conv_layers"])
    ]
    heads = values["num_heads"]
    width = -(-values["d_model"] // heads) * heads if has_heads(model) else values["d_model"]
    options = {name.removeprefix(LAYER): point[name] for name in point if name.startswith(LAYER)}
    others = {name: table for name, table in recipe.models.items() if name != model}
    return replace(
        recipe,
        network=replace(
            network,
            d_model=width,
            num_heads=heads,
            conv=tuple(conv),
            dense=tuple(values[f"dense{i + 1}"] for i in range(values["dense_layers"])),
            dropout=values["dropout"],
        ),
        training=replace(recipe.training, **{name: values[name] for name in _TRAINING}),
        models={**others, model: recipe.options(model) | options},  # last, so that no pattern overrules it
    )
