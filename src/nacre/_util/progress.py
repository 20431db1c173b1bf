"""The progress bars of long work. Needs rich."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def bars(console: Console) -> Progress:
    """Bars that vanish when done; their tasks have a field `loss`, a text beside the count."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    return Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
