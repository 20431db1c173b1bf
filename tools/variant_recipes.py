"""Write recipes for variants of NAC+, one thing changed in each: python tools/variant_recipes.py FOLDER [TASK].

They train `nac` with the options of `nac-plus` but for that one. `--steps` shortens them, for choices made
on validation parts.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from nacre._util.files import write_atomic
from nacre.models.nac import PLUS
from nacre.tasks.recipe import Profile, load_recipe, to_toml

TASKS = ("spiral", "ettm1-gaps")
VARIANTS: dict[str, dict[str, Any]] = {
    "as-it-is": {},
    "match-at-start": {"match": "start"},
    "match-for-choosing": {"match": "none"},
    "match-and-rhythm": {"match": "both"},
    "gain-2": {"gain": 2.0},
    "tanh-sensory": {"sensory_activation": "tanh"},
    "values-by-time": {"integrate": True},
    "phi-sigmoid": {"phi": "sigmoid"},
    "no-inhibition": {"inhibition": False, "backbone_units": 22},
    "units-13": {"backbone_units": 13},
    "units-43": {"backbone_units": 43},
    "half-of-synapses": {"sparsity": 0.5},
    "settle-3": {"settle_steps": 3},
    "keys-8": {"top_k": 8, "near": 4},
    "keys-32": {"top_k": 32, "near": 16},
    "keys-32-near-8": {"top_k": 32},
    "keys-64": {"top_k": 64, "near": 32},
    "keys-64-near-8": {"top_k": 64},
    "near-0": {"near": 0},
    "near-4": {"near": 4},
    "near-12": {"near": 12},
    "clock-0": {"clock": 0},
    "clock-4": {"clock": 4},
    "clock-8": {"clock": 8},
}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task", nargs="*", default=TASKS)
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="all without this option")
    parser.add_argument("--steps", type=int, help="train for fewer steps than the standard profile")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for task in options.task:
        recipe = load_recipe(task).at(Profile.STANDARD)
        if options.steps:
            recipe = replace(recipe, training=replace(recipe.training, steps=options.steps))
        for name in options.variant or VARIANTS:
            changed = replace(recipe, models={**recipe.models, "nac": {**PLUS, **VARIANTS[name]}})
            write_atomic(options.folder / f"{task}-{name}.toml", to_toml(changed).encode())


if __name__ == "__main__":
    main()
