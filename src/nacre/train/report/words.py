"""Numbers and headings of tables in words."""

import math
from collections.abc import Sequence

from nacre.train.report.compare import BlockSetting, ModelRow

MISSING = "–"  # noqa: RUF001  a dash


def heading(setting: BlockSetting) -> str:
    """What the runs of a block share.

    Example:
        >>> budget = ("quick", 300, 64, "0123456789")
        >>> heading(BlockSetting("jena", "mse", "lower", *budget, "official", "fedcba98", 5))
        'jena: mse, lower is better; quick: 300 steps of 64; recipe 0123456; official data fedcba9'
    """
    budget = f"{setting.profile}: {setting.steps:,} steps of {setting.batch_size:,}; recipe {setting.recipe[:7]}"
    form = setting.form if setting.form.endswith("data") else f"{setting.form} data"
    return f"{setting.task}: {setting.metric}, {setting.better} is better; {budget}; {form} {setting.data[:7]}"


def best_of(rows: Sequence[ModelRow]) -> set[str]:
    """Models of the best rank."""
    first = min((row.rank for row in rows if row.rank is not None), default=None)
    return {row.model for row in rows if row.rank is not None and row.rank == first}


def places_for(metric: str, values: Sequence[float]) -> int:
    """Digits after the point: 2 for percentages, else 4, fewer for large numbers and more for small ones.

    Example:
        >>> places_for("accuracy", [96.3]), places_for("mse", [0.03, 1.2]), places_for("mse", [0.00031])
        (2, 4, 6)
    """
    if metric.startswith("accuracy"):
        return 2
    smallest = min((abs(v) for v in values if math.isfinite(v) and v), default=1.0)
    return min(6, max(4, 2 - math.floor(math.log10(smallest)))) if smallest < 10 else 2


def number(value: float, places: int) -> str:
    """A number with so many digits after the point, but never rounded to nothing.

    Example:
        >>> number(0.03124, 4), number(0.0000012, 4), number(12345.6, 2), number(0.0, 2)
        ('0.0312', '1.2e-06', '12,345.60', '0.00')
    """
    text = f"{value:,.{places}f}"
    lost = value != 0 and not any(digit in "123456789" for digit in text)
    return f"{value:.1e}" if lost or abs(value) >= 1e7 else text


def with_std(mean: float, std: float | None, places: int) -> str:
    """Mean ± standard deviation, where there is one; equal numbers have none but rounding.

    Example:
        >>> with_std(0.5, 0.01, 3), with_std(0.5, None, 3), with_std(0.5, 1e-17, 3)
        ('0.500 ± 0.010', '0.500', '0.500 ± 0.000')
    """
    if std is None:
        return number(mean, places)
    return f"{number(mean, places)} ± {number(0.0 if std < 1e-12 * abs(mean) else std, places)}"


def value_of(row: ModelRow, places: int) -> str:
    """The mean with its spread, or how many runs diverged."""
    if row.diverged:
        return row.lost if row.diverged == row.runs else f"{row.lost} ({row.diverged} of {row.runs})"
    return with_std(row.mean, row.std, places)
