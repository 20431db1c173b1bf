"""Progress bars. Needs rich."""

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Count(ProgressColumn):
    """How many of how many of what: the field `unit` of a task, such as "steps", if it has one."""

    def render(self, task: Task) -> Text:
        total = "?" if task.total is None else f"{int(task.total):,}"
        return Text(f"{int(task.completed):,}/{total} {task.fields.get('unit', '')}".rstrip())


def bars(console: Console) -> Progress:
    """Bars that vanish when done. Their tasks have a field `loss`, a text beside the count."""
    left = TimeRemainingColumn(), TextColumn("left")
    columns = "{task.description}", BarColumn(), _Count(), "{task.fields[loss]}", *left
    return Progress(*columns, console=console, transient=True)
