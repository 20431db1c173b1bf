"""`nacre tasks`: list tasks and controls."""

from rich.console import Console

from nacre._util.text import console_table
from nacre.tasks.controls import CONTROLS
from nacre.tasks.recipe import Profile, Recipe, list_recipes, load_recipe


def print_tasks() -> None:
    """Print the tasks that nacre comes with, and the controls."""
    console = Console(highlight=False)
    table = console_table(("name", "what", "steps", "epochs", "quick steps"), title="tasks", left=["what"])
    for name in list_recipes():
        recipe = load_recipe(name)
        what = f"{recipe.summary}\n[dim]{_details(recipe)}[/]"
        standard = recipe.at(Profile.STANDARD).training
        steps = (standard.steps, recipe.training.epochs, standard.quick_steps)
        table.add_row(name, what, *map(str, steps))
    console.print(table)
    table = console_table(("name", "what"), title="controls", left=["what"])
    for name, control in CONTROLS.items():
        table.add_row(name, control.summary)
    console.print(table)
    console.print(
        "nacre train TASK -m MODEL trains; with a recipe of your own as TASK, on your own CSV file.", style="dim"
    )


def _details(recipe: Recipe) -> str:
    network = recipe.network
    layers = network.image.conv if network.image else network.conv
    convolutions = [f"convolution {filters}@{kernel}" for filters, kernel, _ in layers]
    parts = [*convolutions, f"layer of width {network.d_model} with {network.num_heads} heads"]
    parts += [f"dense {width}" for width in network.dense]
    by = "group, or by time where groups are few" if recipe.split.by == "auto" else recipe.split.by
    return f"{recipe.split.folds} folds, split by {by}; {', '.join(parts)}"
