"""Write recipes of the standard profile with a bare layer: python tools/plain_recipes.py FOLDER [TASK ...].

They are what networks were before they had blocks: no residual path, a constant learning rate of 0.001, answers
that are not relative to anything. Training them beside the shipped recipes shows what the network is worth.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from nacre._util.files import write_atomic
from nacre.tasks.recipe import Profile, Recipe, load_recipe, to_toml

TASKS = ("event-mnist", "person-activity", "ettm1", "jena", "spiral")


def plain(recipe: Recipe) -> Recipe:
    """The recipe of the standard profile, with as many steps, and a bare layer."""
    recipe = recipe.at(Profile.STANDARD)
    network = replace(recipe.network, block=False, relative=False, linear=False)
    return replace(recipe, network=network, training=replace(recipe.training, schedule="constant", lr=1e-3))


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task", nargs="*", default=TASKS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.task:
        write_atomic(options.folder / f"{name}.toml", to_toml(plain(load_recipe(name))).encode())


if __name__ == "__main__":
    main()
