"""`nacre models`: the registry as a table."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.models.registry import create, list_models, model_info

_SIZE = {"d_input": 64, "d_model": 64, "num_heads": 4}


def print_models(pattern: str = "*") -> None:
    """Print the models whose name matches a shell-style pattern.

    Raises:
        ValueError: If none does.
    """
    names = list_models(pattern)
    if not names:
        raise ValueError(f"no model matches {pattern!r}; nacre models lists all")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="size: parameters at width 64 with 4 heads")
    for column in ("name", "kind", "time", "causal", "size", "what it is"):
        justify = "right" if column == "size" else "left"
        table.add_column(column, justify=justify, no_wrap=column != "what it is")
    for name in names:
        info = model_info(name)
        parameters = sum(p.numel() for p in create(name, **_SIZE).parameters())
        table.add_row(name, info.kind, _yes(info.uses_time), _yes(info.causal), f"{parameters:,}", info.summary)
    Console().print(table)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
