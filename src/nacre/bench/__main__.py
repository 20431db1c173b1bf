"""`python -m nacre.bench`: print the speed table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from nacre.bench.speed import measure


def main() -> None:
    """Measure and print."""
    timings = measure()
    base = timings[0]
    table = Table(title="length 1,024, width 64, 4 heads, batch 1; median ± interquartile range")
    for column in ("model", "parameters", "forward", "ratio", "training step", "ratio"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for t in timings:
        table.add_row(
            t.name,
            f"{t.parameters:,}",
            f"{t.forward * 1e3:.1f} ± {t.forward_spread * 1e3:.1f} ms",
            f"{t.forward / base.forward:.1f}",
            f"{t.step * 1e3:.1f} ± {t.step_spread * 1e3:.1f} ms",
            f"{t.step / base.step:.1f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
