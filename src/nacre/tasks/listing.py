"""`nacre tasks`: what there is to learn."""

from rich import box
from rich.console import Console
from rich.table import Table

from nacre.tasks.controls.registry import CONTROLS
from nacre.tasks.recipe import Recipe, list_recipes, load_recipe


def print_tasks() -> None:
    """Print the tasks that nacre comes with, and the controls."""
    console = Console(highlight=False)
    table = _table("tasks", ("name", "what", "epochs", "quick steps"))
    for name in list_recipes():
        recipe = load_recipe(name)
        what = f"{recipe.summary}\n[dim]{_details(recipe)}[/]"
        table.add_row(name, what, str(recipe.training.epochs), str(recipe.training.quick_steps))
    console.print(table)
    table = _table("controls", ("name", "what"))
    for name, control in CONTROLS.items():
        table.add_row(name, control.summary)
    console.print(table)
    console.print(
        "nacre train TASK -m MODEL trains; with a recipe of your own as TASK, on your own CSV file.", style="dim"
    )


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for column in columns:
        table.add_column(
            column, justify="left" if column in ("name", "what") else "right", no_wrap=column == "name"
        )
    return table


def _details(recipe: Recipe) -> str:
    network = recipe.network
    layers = network.image.conv if network.image else network.conv
    convolutions = [f"convolution {filters}@{kernel}" for filters, kernel, _ in layers]
    parts = [*convolutions, f"layer of width {network.d_model} with {network.num_heads} heads"]
    parts += [f"dense {width}" for width in network.dense]
    return f"{recipe.split.folds} folds, split by {recipe.split.by}; {', '.join(parts)}"
