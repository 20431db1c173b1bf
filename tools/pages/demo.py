"""docs/demo.md, from results/spirals-demo.json of tools/demo_seeds.py."""

from statistics import mean

from ._shared import load, mean_of, table

_METRICS = {"mse": 5, "mae": 4}  # and their places


def errors() -> str:
    """Mean and standard deviation over seeds."""
    found = load("spirals-demo.json")
    body = []
    for name in found["mse"]:
        size = found["parameters"].get(name)
        cells = [mean_of(v, places) for metric, places in _METRICS.items() for v in found[metric][name].values()]
        about = (
            (f"{size['all']:,} ({size['layer']:,})", f"{mean(found['seconds'][name]):.0f}") if size else ("", "")
        )
        body.append((f"`{name}`" if size else name, *cells, *about))
    parts = [f"{metric.upper()}, {part}" for metric in _METRICS for part in ("interpolation", "extrapolation")]
    return table(("", *parts, "parameters (layer)", "seconds"), body)


def machine() -> str:
    """Where the numbers come from."""
    found = load("spirals-demo.json")
    where = "{processor}, {cpus} CPUs, threads of torch: {threads}".format_map(found["machine"])
    return f"{found['setting']}; commit `{found['commit']}`, {where}.\n"


TABLES = {"errors": errors, "machine": machine}
