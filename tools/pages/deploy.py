"""docs/deploy.md, from results/exports.json of tools/check_exports.py."""

from typing import Any

from ._shared import load, table


def exports() -> str:
    """Every model that was tried: how far its answers are from PyTorch's, and the size of the files."""
    body = []
    for name, found in load("exports.json")["models"].items():
        window, step = found["window"], found.get("step")
        body.append((f"`{name}`", *_form(window), *(("-", "-") if step is None else _form(step))))
    return table(("model", "window", "kB", "step", "kB"), body)


def _form(found: dict[str, Any]) -> tuple[str, str]:
    if "error" in found:
        return "not exported", "-"
    apart = f" ({found['apart']} of {found['answers']} apart)" if found["apart"] else ""
    return f"{found['largest']:.1e}{apart}", f"{found['bytes'] / 1000:.0f}"


def machine() -> str:
    """What was compared, and where the numbers come from."""
    found = load("exports.json")
    size, lengths, batches = found["size"], found["lengths"], found["batches"]
    return (
        f"Width {size['d_model']}, {size['d_input']} features, {size['num_heads']} heads; "
        f"lengths {', '.join(map(str, lengths))}, each with {', '.join(map(str, batches))} sequences; "
        f"torch {found['versions']['torch']}, commit `{found['commit']}`.\n"
    )


TABLES = {"exports": exports, "machine": machine}
