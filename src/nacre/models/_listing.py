"""`nacre models`: the registry as a table."""

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.models._registry import KINDS, create, list_models, model_info

_SIZE = {"d_input": 64, "d_model": 64, "num_heads": 4}
_WIDE = 130  # columns of a console that has room for what each model is
_CAPTION = (
    "size: parameters at width 64 with 4 heads. cost: T steps, d width, K keys of a query, n synapses of a "
    "circuit, S steps of a solver, m features, hidden units or points of reference, "
    "N state of a channel."
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
        mine = [name for name in names if model_info(name).kind == kind]
        if mine:
            console.print(_table(kind, mine, console.width >= _WIDE))
    console.print(_CAPTION, style="dim")


def _table(kind: str, names: list[str], wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=kind, title_justify="left")
    for column in ("name", "time", "causal", "size", "cost", "paper", "checked against"):
        justify = "right" if column == "size" else "left"
        table.add_column(column, justify=justify, no_wrap=column in ("name", "size", "cost"), overflow="fold")
    if wide:
        table.add_column("what it is")
    for name in names:
        info = model_info(name)
        answers = ("yes" if info.uses_time else "no", "yes" if info.causal else "no")
        row = (name, *answers, f"{parameters(name):,}", info.cost, info.paper, info.checked)
        table.add_row(*row, *([info.summary] if wide else []))
    return table


def parameters(name: str) -> int:
    """Trainable numbers of a model at width 64 with 4 heads.

    Example:
        >>> parameters("sdpa")
        16576
    """
    return sum(p.numel() for p in create(name, **_SIZE).parameters())
