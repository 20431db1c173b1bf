"""`nacre tasks`: what there is to learn."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.tasks.controls import CONTROLS
from nacre.tasks.recipe import list_recipes, load_recipe


def print_tasks() -> None:
    """Print the tasks that nacre comes with, and the controls."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title="tasks", title_justify="left")
    for column in ("name", "what", "split", "network", "quick steps", "epochs"):
        table.add_column(column, justify="right" if column in ("quick steps", "epochs") else "left")
    for name in list_recipes():
        recipe = load_recipe(name)
        network, training = recipe.network, recipe.training
        convolutions = "".join(f"{filters}@{kernel} " for filters, kernel, _ in network.conv)
        table.add_row(
            name,
            recipe.summary,
            f"{recipe.split.by}, {recipe.split.folds} folds",
            f"{convolutions}{network.d_model}-d {network.num_heads} heads",
            str(training.quick_steps),
            str(training.epochs),
        )
    console.print(table)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title="controls", title_justify="left")
    table.add_column("name")
    table.add_column("what")
    for name, control in CONTROLS.items():
        table.add_row(name, control.summary)
    console.print(table)
    console.print("`nacre train TASK -m MODEL` trains; your own data: a recipe with [data] csv = ...", style="dim")
