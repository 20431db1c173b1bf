"""`nacre models`: the registry as a table."""

from rich.console import Console
from rich.table import Table

from nacre._util.text import console_table
from nacre.models._registry import KINDS, create, list_models, model_info

_WIDE = 130  # columns of a console that has room for all
_NARROW_CAPTION = (
    f"size: parameters at width 64 with 4 heads. A window of {_WIDE} columns has cost, paper and "
    "what each is checked against, too."
)
_CAPTION = (
    "size: parameters at width 64 with 4 heads. cost: T steps, d width, K keys of a query, n synapses of a "
    "circuit, S steps of a solver, m features, hidden units or points of reference, N state of a channel."
)


def print_models(pattern: str = "*") -> None:
    """Print the models whose name matches a shell-style pattern, a table for each kind.

    Raises:
        ValueError: If none does.
    """
    names = list_models(pattern)
    if not names:
        raise ValueError(f"no model matches {pattern!r}; nacre models lists all")
    console = Console()
    for kind in KINDS:
        if mine := [name for name in names if model_info(name).kind == kind]:
            console.print(_table(kind, mine, console.width >= _WIDE))
    console.print(_CAPTION if console.width >= _WIDE else _NARROW_CAPTION, style="dim")


def _table(kind: str, names: list[str], wide: bool) -> Table:
    text = ("time", "causal", "what it is", "cost", "paper", "checked against")
    titles = ("name", *text[:2], "size", *text[2:])
    table = console_table(titles if wide else titles[:5], title=kind, left=text)
    for column in table.columns:
        column.no_wrap, column.overflow = column.header in ("name", "size", "cost"), "fold"
    for name in names:
        info = model_info(name)
        answers = ("yes" if answer else "no" for answer in (info.uses_time, info.causal))
        row = (name, *answers, f"{parameters(name):,}", info.summary, info.cost, info.paper, info.checked)
        table.add_row(*row[: len(table.columns)])
    return table


def parameters(name: str) -> int:
    """Trainable numbers of a model at width 64 with 4 heads.

    Example:
        >>> parameters("sdpa")
        16576
    """
    return sum(p.numel() for p in create(name, d_input=64, d_model=64, num_heads=4).parameters())
