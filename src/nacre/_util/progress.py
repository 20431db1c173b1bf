"""Progress bars. Needs rich."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn


def bars(console: Console) -> Progress:
    """Bars that vanish when done. Their tasks have a field `loss`, a text beside the count."""
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[loss]}", TimeRemainingColumn()
    return Progress(*columns, console=console, transient=True)
