"""A demo that takes seconds: few spirals, a small network."""

from dataclasses import replace

from nacre.demo import run
from nacre.tasks.recipe import load_recipe

N = 30


def make_small(patch):
    """Make the demo's task a small one, until the patch is undone."""

    def small(name):
        recipe = load_recipe(name)
        network = replace(recipe.network, d_model=16, num_heads=2, dense=(16,))
        training = replace(recipe.training, batch_size=8, lr=0.01)
        return replace(recipe, data={**recipe.data, "n": N}, network=network, training=training, standard={})

    patch.setattr(run, "load_recipe", small)
