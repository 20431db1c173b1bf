"""Data as text: CSV, JSON, Markdown tables, tables for the console."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object] | Mapping[str, object]]) -> str:
    r"""Rows as CSV; a row is a sequence of cells, or a mapping from the header's names.

    Example:
        >>> csv_text(["a", "b"], [(1, 2), {"b": 4, "a": 3}])
        'a,b\n1,2\n3,4\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([row.get(name) for name in header] if isinstance(row, Mapping) else row for row in rows)
    return text.getvalue()


def json_text(data: object) -> str:
    r"""Data as JSON with a line for each value; numbers that are not finite become null.

    Example:
        >>> json_text({"loss": [0.5, float("nan")]})
        '{\n "loss": [\n  0.5,\n  null\n ]\n}\n'
    """
    return json.dumps(_finite(data), indent=1, allow_nan=False) + "\n"


def _finite(data: object) -> object:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def markdown_rows(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A Markdown table: the first column to the left, the others to the right.

    Example:
        >>> print(markdown_rows(["a", "b"], [["x|y", "1"]]))
        | a | b |
        | :-- | --: |
        | x\|y | 1 |
    """
    marks = [":--", *("--:" for _ in titles[1:])]
    table = [titles, marks, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table)


def console_table(
    columns: Iterable[str], *, title: str = "", caption: str = "", left: Sequence[str] = ()
) -> Table:
    """An empty table for the console. Needs rich.

    The first column and those named in `left` are aligned left, the others right; the first is never wrapped.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=title or None,
        title_justify="left",
        caption=caption or None,
        caption_justify="left",
    )
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 or name in left else "right", no_wrap=i == 0)
    return table
