"""Run the demo on seeds 1 to 3: python tools/demo_seeds.py.

Writes results/spirals-demo.json, and the spirals of the first seed as docs/images/spirals.png.
"""

from __future__ import annotations

from measured import RESULTS, provenance, write_result
from rich.console import Console

from nacre._util.files import write_atomic
from nacre.demo.run import SPREAD, STEPS, DemoResult, compare

SEEDS = (1, 2, 3)
PICTURE = RESULTS.parent / "docs" / "images" / "spirals.png"


def errors(runs: list[DemoResult], metric: str) -> dict[str, dict[str, list[float]]]:
    """By method, then by part: one number for each run."""
    found = [{**run.models, **run.controls} for run in runs]
    return {
        name: {part: [run[name][metric][part] for run in found] for part in parts[metric]}
        for name, parts in found[0].items()
    }


def main() -> None:
    """Measure and write."""
    console = Console(stderr=True)
    origin = provenance()  # of the code that runs, whatever is committed meanwhile
    found = [compare(console, STEPS, seed, SPREAD) for seed in SEEDS]
    runs = [result for result, _ in found]
    first, figures = found[0]
    result = {
        **origin,
        "setting": f"task spiral, standard profile, {first.settings['steps']} steps, spread {SPREAD}",
        "seeds": SEEDS,
        "spirals": first.spirals,
        "parameters": first.parameters,
        "seconds": {model: [run.seconds[model] for run in runs] for model in first.models},
        "mse": errors(runs, "mse"),
        "mae": errors(runs, "mae"),
    }
    write_result("spirals-demo.json", result)
    write_atomic(PICTURE, figures["spirals.png"])


if __name__ == "__main__":
    main()
