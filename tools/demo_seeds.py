"""Run the demo's comparison on seeds 1 to 5, into results/spirals-demo.json: python tools/demo_seeds.py."""

from __future__ import annotations

from measured import provenance, write_result
from rich.console import Console

from nacre.demo.run import SPREAD, STEPS, DemoResult, compare

SEEDS = (1, 2, 3, 4, 5)
PARTS = ("interpolation", "extrapolation")


def errors(runs: list[DemoResult], metric: str) -> dict[str, dict[str, list[float]]]:
    """By method, then by part: one number for each run."""
    return {
        name: {part: [{**run.models, **run.controls}[name][metric][part] for run in runs] for part in PARTS}
        for name in (*runs[0].models, *runs[0].controls)
    }


def main() -> None:
    """Measure and write."""
    console = Console(stderr=True)
    origin = provenance()  # of the code that runs, whatever is committed meanwhile
    runs = [compare(console, STEPS, seed, SPREAD)[0] for seed in SEEDS]
    result = {
        **origin,
        "setting": f"steps {STEPS}, spread {SPREAD}, errors on 100 test spirals after training on 200",
        "seeds": SEEDS,
        "parameters": runs[0].parameters,
        "rmse": errors(runs, "rmse"),
        "mae": errors(runs, "mae"),
    }
    write_result("spirals-demo.json", result)


if __name__ == "__main__":
    main()
