"""docs/demo.md, from results/spirals-demo.json of tools/demo_seeds.py."""

from ._shared import load, mean_of, table


def errors() -> str:
    """Mean and standard deviation over seeds."""
    found = load("spirals-demo.json")
    body = []
    for name in found["rmse"]:
        size = found["parameters"].get(name)
        errors = [mean_of(values, 4) for metric in ("rmse", "mae") for values in found[metric][name].values()]
        body.append((name, f"{size['all']:,} ({size['core']:,})" if size else "control", *errors))
    parts = [f"{metric}, {part}" for metric in ("RMSE", "MAE") for part in ("interpolation", "extrapolation")]
    return table(("", "parameters (core)", *parts), body)


TABLES = {"errors": errors}
