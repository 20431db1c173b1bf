"""docs/differences.md, from results/torch-nac.json of tools/compare_torch_nac.py."""

from ._shared import load, table


def measured() -> str:
    """torch-nac and nacre side by side."""
    body = []
    for what, value in load("torch-nac.json").items():
        if not isinstance(value, dict) or "torch-nac" not in value or what == "versions":
            continue
        if "ratio" in value:
            body.append(("speed of a forward pass", "1", f"{value['ratio']:.1f}"))
        else:
            pair = (value["torch-nac"], value["nacre"])
            body.append((what, *(f"{x:.2g}" if isinstance(x, float) else str(x) for x in pair)))
    return table(("what", "torch-nac 0.0.2", "nacre"), body)


TABLES = {"measured": measured}
