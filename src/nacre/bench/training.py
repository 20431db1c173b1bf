"""`nacre bench --training`: the shapes at which networks are trained, and the table of what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from nacre._util.text import console_table
from nacre.bench.record import ACTIONS, Action, BenchEntry, BenchResult
from nacre.bench.tables import TITLES, milliseconds, number, print_notes

TRAINING_REFERENCE = "sdpa"  # what ratios compare with: dot-product attention in the form of our own models
TRAINED = (TRAINING_REFERENCE, "cfc-fc", "nac", "nac-plus")  # what is measured unless others are named


@dataclass(frozen=True)
class Shape:
    """Sequences of a training step, and the width of the layer."""

    batch: int
    length: int
    d_model: int
    num_heads: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.batch} x {self.length:,}, {self.d_model}, {self.num_heads}"

    def entry(self, model: str) -> BenchEntry:
        """A model at this shape."""
        return BenchEntry(model, self.length, self.batch, self.d_model, self.num_heads, stamps=True)


# The first is that of forecasts in the standard profile. The next are those of the profile "paper", then comes the
# one at which the paper measured run time.
SHAPES = {
    "standard": Shape(64, 48, 32, 4),
    "forecasts": Shape(64, 48, 64, 16),
    "event MNIST": Shape(32, 120, 64, 8),
    "person activity": Shape(20, 32, 32, 4),
    "spirals": Shape(32, 150, 64, 4),
    "CarRacing": Shape(32, 8, 64, 16),
    "bearings": Shape(32, 32, 16, 8),
    "paper's bench": Shape(1, 1024, 64, 4),
    "2,048 steps": Shape(1, 2048, 64, 4),
}
_CAPTION = (
    "batch x steps, width, heads; irregular time stamps; ms: median of {0}; the others: time divided by that of "
    "{0}, in turns in one process"
)


def print_training(results: Sequence[BenchResult], console: Console) -> None:
    """A table for training steps and one for forward passes, each shape a row, and why anything is missing."""
    for action in reversed(ACTIONS):
        console.print(_table(results, action))
    print_notes(results, console)


def by_shape(results: Sequence[BenchResult]) -> dict[str, dict[str, BenchResult]]:
    """Results by the name of their shape and by model.

    Example:
        >>> found = by_shape([BenchResult(SHAPES["spirals"].entry("nac"))])
        >>> list(found), list(found["spirals"])
        (['spirals'], ['nac'])
    """
    found = {
        name: {r.entry.model: r for r in results if r.entry == shape.entry(r.entry.model)}
        for name, shape in SHAPES.items()
    }
    return {name: models for name, models in found.items() if models}


def _table(results: Sequence[BenchResult], action: Action) -> Table:
    rows = by_shape(results)
    others = [m for m in dict.fromkeys(r.entry.model for r in results) if m != TRAINING_REFERENCE]
    table = console_table(
        ("", "shape", f"{TRAINING_REFERENCE}\nms", *others),
        title=TITLES[action],
        caption=_CAPTION.format(TRAINING_REFERENCE),
        left=("shape",),
    )
    for name, models in rows.items():
        reference = models.get(TRAINING_REFERENCE)
        first = "" if reference is None else milliseconds(reference.cost(action))
        table.add_row(name, str(SHAPES[name]), first, *(_ratio(models.get(model), action) for model in others))
    return table


def _ratio(result: BenchResult | None, action: Action) -> str:
    if result is None:
        return ""
    cost = result.cost(action)
    return milliseconds(cost) if cost.ratio is None else number(cost.ratio)
