"""`compare`: what `nacre train` and `nacre table` do, in Python, for a data set in memory."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre._util.checks import choice
from nacre.data.dataset import Dataset, check_labels
from nacre.tasks.recipe import Profile, Recipe, load_recipe
from nacre.tasks.task import task_on
from nacre.train.grid import Grid, cells, expand_models, run_grid
from nacre.train.report.results import Found
from nacre.train.report.tables import markdown_of
from nacre.train.result import Result
from nacre.train.run import Run


@dataclass(frozen=True)
class Compared:
    """Models on a data set; printed, it is the table of `nacre table` in Markdown."""

    results: tuple[Result, ...]  # one for each model, or control, fold and seed

    def __str__(self) -> str:
        """The table."""
        return markdown_of(Found([*self.results], []))

    def _repr_markdown_(self) -> str:
        """The table, for notebooks."""
        return str(self)


def compare(
    data: Dataset,
    models: Sequence[str] = ("nac-plus",),
    *,
    recipe: Recipe | str | os.PathLike[str] | None = None,
    folds: int | None = None,
    seeds: Sequence[int] = (0,),
    profile: str = Profile.STANDARD,
    controls: bool = True,
    out: str | os.PathLike[str] = "runs",
) -> Compared:
    """Train models on a data set of your own, fold by fold, beside the trivial controls.

    What is done is skipped, and what was interrupted resumes, as with the command. A cell is known by the content
    of the data, so changed data gives new cells, which need another `out`.

    Args:
        data: From `nacre.data.from_arrays`, `from_csv`, or made by you. Its name is that of the task.
        models: Names or patterns of models, or package.module:factory.
        recipe: How it is split, how networks look, how they are trained, and which metric judges: a recipe, or its
            file, without `[data]`. None for the defaults.
        folds: How many of the recipe's folds, from the first on; None for all.
        seeds: Seeds of weights and order.
        profile: "quick", "standard" or "paper".
        controls: Whether to run the trivial controls, too.
        out: Where runs go: out/NAME/MODEL/fold0-seed0 and so on, which `nacre.load` opens.

    Raises:
        ValueError: If a name or number makes no sense; at the end, if cells failed.

    Example:
        >>> from nacre.data import from_arrays
        >>> x, y = [[[i % 2], [i % 2]] for i in range(30)], ["ab"[i % 2] for i in range(30)]
        >>> data = from_arrays(x, y, name="toy")
        >>> compared = compare(data, [], out=tmp / "toy")  # doctest: +ELLIPSIS
        toy: classification, 30 sequences, ...
        >>> {result.model for result in compared.results} == {"majority", "linear", "time-only"}
        True
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a Dataset, such as nacre.data.from_arrays makes, got {type(data).__name__}")
    if isinstance(models, str):
        raise TypeError(f"models must be a list of names, got {models!r}; write [{models!r}]")
    choice("profile", profile, Profile)
    chosen = Profile(profile)
    plan = recipe or Recipe(data.name)
    if not isinstance(plan, Recipe):
        plan = load_recipe(Path(plan))
    if plan.data:
        raise ValueError(f"recipe has [data] of its own, {plan.data}; leave it out, or use `nacre train`")
    task = task_on(replace(plan, name=data.name).at(chosen), check_labels(data))
    grid = Grid([task], models, chosen, folds, seeds, Path(out), controls=controls)
    run_grid(grid)
    return Compared(tuple(Run.open(cell.directory).result for cell in cells(grid, [task], expand_models(models))))
