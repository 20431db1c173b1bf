"""Fingerprints: what makes a cell another one, and what does not."""

from dataclasses import asdict, fields, make_dataclass, replace

import pytest

from nacre._util.digest import differences
from nacre.tasks.recipe import Precision, Profile, Recipe, load_recipe, parse_recipe, to_toml
from nacre.tasks.recipe_sections import NetworkRecipe, SplitRecipe, TrainingRecipe
from nacre.train.format1 import old_digest, upgrade
from nacre.train.identity import Identity

RECIPE = Recipe("mine", data={"name": "spiral"}, standard={"network": {"d_model": 16}})
ONE = Identity(RECIPE, "sdpa", 0, "data", "split")


def changed(recipe=RECIPE, **parts):
    """The recipe with other values in its sections."""
    return replace(recipe, **{name: replace(getattr(recipe, name), **values) for name, values in parts.items()})


def test_whatever_decides_a_result_changes_the_fingerprint():
    others = [
        replace(ONE, model="nac"),
        replace(ONE, seed=1),
        replace(ONE, data="other"),
        replace(ONE, split="other"),
        replace(ONE, profile=Profile.QUICK),
        replace(ONE, precision=Precision.FLOAT64),
        replace(ONE, version=2),
        replace(ONE, source="other"),
        replace(ONE, recipe=replace(RECIPE, name="yours")),
        replace(ONE, recipe=replace(RECIPE, data={"name": "spiral", "n": 9})),
        replace(ONE, recipe=changed(training={"lr": 0.5})),
        replace(ONE, recipe=changed(training={"steps": 5})),
        replace(ONE, recipe=changed(network={"depth": 2})),
        replace(ONE, recipe=replace(RECIPE, models={"sd*": {"dropout": 0.5}})),
    ]
    assert len({ONE.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1
    assert {f.name for f in fields(Identity)} == {*vars(ONE)}  # none was forgotten above


@pytest.mark.parametrize("profile", Profile)
def test_numbers_that_only_other_profiles_use_do_not_count(profile):
    used = {
        Profile.QUICK: {"quick_steps", "quick_valid"},
        Profile.STANDARD: {"steps", "quick_valid"},
        Profile.PAPER: {"epochs"},
    }
    one = replace(ONE, profile=profile)
    for name in ("epochs", "steps", "quick_steps", "quick_valid"):
        other = replace(one, recipe=changed(training={name: 3}))
        assert (other.fingerprint != one.fingerprint) == (name in used[profile]), name
    sizes = replace(one, recipe=changed(network={"d_model": 48}))  # which [standard.network] replaces
    assert (sizes.fingerprint != one.fingerprint) == (profile is Profile.PAPER)
    small = replace(one, recipe=replace(RECIPE, standard={"network": {"d_model": 8}}))
    assert (small.fingerprint == one.fingerprint) == (profile is Profile.PAPER)


def test_options_of_other_models_do_not_count():
    other = replace(ONE, recipe=replace(RECIPE, models={"nac*": {"top_k": 3}}))
    assert other.fingerprint == ONE.fingerprint
    assert other.settings == ONE.settings  # nor do options of any: all models stay in one table
    assert replace(other, model="nac-2k").fingerprint != replace(ONE, model="nac-2k").fingerprint


def test_controls_depend_on_nothing_that_trains():
    control = replace(ONE, model="persistence")
    same = [
        replace(control, profile=Profile.PAPER),
        replace(control, precision=Precision.FLOAT64),
        replace(control, recipe=changed(network={"d_model": 4}, training={"lr": 0.5})),
    ]
    assert {control.fingerprint} == {other.fingerprint for other in same}
    assert replace(control, data="other").fingerprint != control.fingerprint
    assert replace(control, split="other").fingerprint != control.fingerprint


def test_a_new_option_with_a_default_changes_nothing():
    today = TrainingRecipe(lr=0.5)
    tomorrow = make_dataclass("Tomorrow", [("momentum", float, 0.9)], bases=(TrainingRecipe,), frozen=True)
    assert differences(tomorrow(lr=0.5)) == differences(today) == {"lr": 0.5}
    assert differences(tomorrow(momentum=0.5)) == {"momentum": 0.5}


DEFAULTS = {
    SplitRecipe: {"by": "auto", "folds": 5, "test_share": 0.2},
    NetworkRecipe: {
        **{"d_model": 64, "num_heads": 4, "conv": (), "dense": (), "dropout": 0.0, "time_scale": 0.0},
        **{"block": True, "depth": 1, "relative": True, "linear": True, "image": None},
    },
    TrainingRecipe: {
        **{"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.004, "batch_size": 64, "clip": 1.0},
        **{"schedule": "cosine", "warmup": 0.05, "epochs": 50, "patience": 10, "steps": 2000},
        **{"quick_steps": 200, "quick_valid": 500, "augment": ""},
    },
}


@pytest.mark.parametrize("section", DEFAULTS)
def test_defaults_stay_what_fingerprints_take_them_for(section):
    """If a default must change, raise `DIGEST_RULE` in tasks/recipe.py: all results become void."""
    assert asdict(section()).items() >= DEFAULTS[section].items()


# Format 1


def test_shipped_recipes_had_these_digests():
    known = {
        "ettm1": "cbfd7e8fd7f0f2d726cff1da537e1f3fdb6429d5aff9086f457ef1ab83ae1198",
        "person-activity": "88e4f5d3383da1c68e9a0177caf315c190b9e983f57c4c4d26895d3cc0a2cb19",
        "spiral": "9fe94478b5ad679a942d2f8b1f4bf7fda70e4ca3ce3fcd5b781e64207f774418",
    }
    for name, digest in known.items():
        network = {"block": False, "relative": False, "linear": False}
        recipe = changed(load_recipe(name), network=network, training={"schedule": "constant"})
        assert old_digest(replace(recipe, standard={})) == digest


def old_result(recipe, **changes):
    budget = {"profile": "standard", "precision": "32-true"}
    return {
        **{"format": 1, "task": "mine", "model": "sdpa", "seed": 0, "split": "split", "budget": budget},
        **{"data": {"digest": "data"}, "recipe": old_digest(recipe), "fingerprint": "old"},
        **changes,
    }


def test_results_of_format_1_get_the_fingerprints_of_today():
    recipe = RECIPE.at(Profile.STANDARD)
    written = parse_recipe(to_toml(recipe), "recipe")
    found = upgrade(old_result(recipe), written)
    assert (found["format"], found["version"]) == (2, 1)
    assert (found["recipe"], found["fingerprint"]) == (ONE.settings, ONE.fingerprint)
    later = upgrade(old_result(recipe, version=2), written)
    assert later["fingerprint"] == replace(ONE, version=2).fingerprint
    assert upgrade(found, written) is found


def test_a_recipe_of_before_blocks_is_read_as_it_was_meant():
    bare = changed(network={"block": False, "relative": False, "linear": False}, training={"schedule": "constant"})
    bare = replace(bare, standard={})
    silent = replace(RECIPE, standard={})  # its file did not say anything of blocks
    found = upgrade(old_result(bare), silent)
    assert found["fingerprint"] == replace(ONE, recipe=bare).fingerprint


def test_a_result_of_another_recipe_stays_as_it_is():
    result = old_result(RECIPE)
    assert upgrade(result, changed(training={"lr": 0.5})) is result
