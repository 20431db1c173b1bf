"""What `nacre tune` searches: spaces of models, the space around a recipe, and recipes at its points."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data import Kind
from nacre.models._registry import list_models, model_options, model_space
from nacre.models._search_space import Choice, Real, Whole
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import list_recipes, load_recipe, parse_recipe, to_toml
from nacre.tasks.recipe_sections import NetworkRecipe
from nacre.train.tuning.space import LAYER, recipe_at, space_of, start_of, values_of
from support.train import TINY


def values_in(dimension):
    if isinstance(dimension, Choice):
        return st.sampled_from(dimension.options)
    if isinstance(dimension, Real):
        return st.floats(dimension.low, dimension.high)
    return st.integers(0, (dimension.high - dimension.low) // dimension.step).map(
        lambda i: dimension.low + i * dimension.step
    )


def ends(dimension):
    return dimension.options if isinstance(dimension, Choice) else (dimension.low, dimension.high)


def network(recipe, model):
    part = recipe.network
    return TaskNetwork(
        model,
        Kind.STEP_REGRESSION,
        3,
        2,
        d_model=part.d_model,
        num_heads=part.num_heads,
        conv=part.conv,
        dense=part.dense,
        dropout=part.dropout,
        options=recipe.options(model),
    )


def test_a_models_space_holds_its_defaults_and_only_its_own_options():
    for model in list_models():
        own = values_of(TINY, model)
        for option, dimension in model_space(model).items():
            assert dimension.nearest(own[LAYER + option]) == own[LAYER + option], (model, option)
            assert len(set(ends(dimension))) > 1, (model, option)
        known = model_options(model)
        if known is not None:
            assert {name: own[LAYER + name] for name in model_space(model)}.items() <= known.items(), model


FEW = ("cfc-fc", "mtan", "nac-plus", "s4")


@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=() if name in FEW else pytest.mark.deep) for name in list_models()]
)
def test_networks_at_the_ends_of_each_dimension_run_and_differ(model):
    x, time = torch.randn(2, 9, 3), torch.rand(2, 9).cumsum(1)
    space = space_of(TINY, model)
    start = start_of(TINY, model, space) | {"d_model": 16, "conv_layers": 1, "dense_layers": 1}
    for name in [n for n in space if n.startswith(LAYER) or n in ("d_model", "num_heads", "conv_layers")]:
        digests = set()
        for value in ends(space[name]):
            recipe = recipe_at(TINY, model, start | {name: value})
            digests.add(recipe.digest)
            out = network(recipe, model)(x, time, torch.zeros(2, 9, dtype=torch.bool))
            assert out.shape == (2, 9, 2)
            assert out.isfinite().all()
        assert len(digests) == len(set(ends(space[name])))


@given(st.data())
def test_every_point_is_a_recipe_that_a_file_can_hold(data):
    model = data.draw(st.sampled_from(["nac", "nac-plus", "mtan", "s4", "cfc-fc"]))
    base = load_recipe(data.draw(st.sampled_from(list_recipes())))
    space = space_of(base, model)
    point = {name: data.draw(values_in(dimension), name) for name, dimension in space.items()}
    recipe = recipe_at(base, model, point)
    assert parse_recipe(to_toml(recipe), recipe.name) == recipe
    if "num_heads" in point:
        assert recipe.network.d_model % point["num_heads"] == 0
        assert point["d_model"] <= recipe.network.d_model < point["d_model"] + point["num_heads"]
    got = values_of(recipe, model)
    used = {"conv": point["conv_layers"], "dense": point["dense_layers"]}
    for name, value in point.items():
        part = name.rstrip("0123456789").split("_")[0].rstrip("0123456789")
        number = "".join(c for c in name if c.isdigit())
        if name == "d_model" or (part in used and number and int(number) > used[part]):
            continue  # rounded, or of a layer that is not there
        assert got[name] == value, name


def test_a_search_begins_with_the_recipe_itself():
    for name, model in product(list_recipes(), ["nac", "cfc-ncp", "nac-2k"]):
        recipe = load_recipe(name)
        found = recipe_at(recipe, model, start_of(recipe, model, space_of(recipe, model)))
        assert replace(found, models={}) == replace(recipe, models={}), (name, model)
        assert values_of(found, model) == values_of(recipe, model), (name, model)


def test_bounds_widen_to_the_recipe_and_strides_are_kept():
    conv = ((200, 11, 1), (16, 3, 2), (24, 5, 1))
    recipe = replace(TINY, network=NetworkRecipe(d_model=300, num_heads=3, conv=conv, dense=(7, 8, 9)))
    space = space_of(recipe, "nac")
    assert space["d_model"] == Whole(16, 300, log=True)
    assert 3 in space["num_heads"].options
    assert space["conv1_filters"].high == 200
    assert space["conv1_kernel"].high == 11
    assert space["conv_layers"].high == space["dense_layers"].high == 3
    assert space["dense1"].low == 7
    assert recipe_at(recipe, "nac", start_of(recipe, "nac", space)).network == recipe.network
    fewer = recipe_at(recipe, "nac", {"conv_layers": 2, "conv2_filters": 32})
    assert fewer.network.conv == ((200, 11, 1), (32, 3, 2))


def test_without_convolutions_none_are_searched():
    space = space_of(TINY, "nac", convolutions=False)
    assert space.keys() == {name for name in space_of(TINY, "nac") if not name.startswith("conv")}
    assert recipe_at(TINY, "nac", start_of(TINY, "nac", space)).network.conv == TINY.network.conv


def test_a_value_that_no_bound_can_hold_is_taken_to_the_nearest():
    recipe = replace(TINY, training=replace(TINY.training, weight_decay=0.0))
    space = space_of(recipe, "nac")
    assert start_of(recipe, "nac", space)["weight_decay"] == space["weight_decay"].low > 0
    assert Whole(1, 9, step=2).including(4) == Whole(1, 9, step=2)
    assert [Whole(1, 9, step=2).nearest(v) for v in (-5, 1, 4, 99)] == [1, 1, 3, 9]
    assert Choice(("a", "b")).nearest("c") == "a"


def test_options_of_the_recipe_stay_and_no_pattern_overrules_what_was_found():
    recipe = replace(TINY, models={"nac": {"top_k": 4, "phi": "tanh"}, "nac*": {"sparsity": 0.2}})
    assert values_of(recipe, "nac")["layer.top_k"] == 4
    found = recipe_at(recipe, "nac", {"layer.sparsity": 0.7})
    assert found.options("nac") == {"top_k": 4, "phi": "tanh", "sparsity": 0.7}
    assert found.options("nac-2k") == recipe.options("nac-2k")
    assert parse_recipe(to_toml(found), "x").options("nac") == found.options("nac")


def test_rows_of_the_papers_table_keep_what_they_stand_for():
    assert "top_k" not in model_space("nac-2k")
    assert "sparsity" not in model_space("nac-09s")
    assert "mode" not in model_space("nac-euler")
    assert {"top_k", "sparsity", "mode"} <= {*model_space("nac")} <= {*model_space("nac-plus")}


def test_models_without_heads_have_none_to_search():
    assert "num_heads" not in space_of(TINY, "cfc-fc")
    assert recipe_at(TINY, "cfc-fc", {"d_model": 17}).network.d_model == 17


def test_only_some_is_searched_if_so_wanted_and_unknown_names_are_refused():
    assert [*space_of(TINY, "nac", ["layer.top_k", "lr"])] == ["lr", "layer.top_k"]
    with pytest.raises(ValueError, match=r"only must name what can be searched, got 'top_k'.*layer.top_k"):
        space_of(TINY, "nac", ["top_k"])


def test_spaces_read_well():
    assert str(Real(1e-4, 0.01, log=True)) == "0.0001 to 0.01, log"
    assert str(Whole(1, 9, step=2)) == "1 to 9, steps of 2"
