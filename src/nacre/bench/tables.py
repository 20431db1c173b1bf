"""What a run prints on the console. Needs rich."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from nacre._util.text import console_table
from nacre.bench.entries import REFERENCE
from nacre.bench.fit import growth
from nacre.bench.paper import COLUMN, reported
from nacre.bench.record import ACTIONS, MIN_ROUNDS, NOT_RUN, OK, Action, BenchResult, Cost

_WIDE, _WIDEST = 120, 150  # columns of a console that has room for more
TITLES = {"forward": "forward", "step": "training"}
_WORDS = {"forward": "forward pass", "step": "training step"}
_STAR = f"*: timed less than {MIN_ROUNDS} times"
_CAPTION = (
    f"ms: median; {_STAR}; ±: interquartile range; "
    f"ratio: time divided by that of {REFERENCE}, in turns in one process; "
    "added: peak resident memory above what was resident before."
)


def print_results(results: Sequence[BenchResult], console: Console) -> None:
    """One table a length, each model a row, and why anything is missing."""
    for length in dict.fromkeys(r.entry.length for r in results):
        console.print(_table([r for r in results if r.entry.length == length], console.width))
    print_notes(results, console)


def print_sweep(results: Sequence[BenchResult], console: Console) -> None:
    """Time and memory by length, the exponents, and why anything is missing."""
    console.print(_by_length(results))
    console.print(_exponents(results))
    print_notes(results, console)


def milliseconds(cost: Cost) -> str:
    """Median time, or why there is none; a star where rounds are missing.

    Example:
        >>> from nacre.bench.record import Cost
        >>> milliseconds(Cost("ok", seconds=0.0123)), milliseconds(Cost("out of time"))
        ('12.3', 'out of time')
    """
    if cost.seconds is None:
        return "skipped" if cost.state.startswith("skipped") else cost.state
    return number(cost.seconds * 1e3) + ("" if cost.state == OK else "*")


def number(value: float | None) -> str:
    """About three digits.

    Example:
        >>> number(1234.5), number(12.345), number(1.2345), number(None)
        ('1,234', '12.3', '1.23', '')
    """
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _table(results: Sequence[BenchResult], width: int) -> Table:
    entry = results[0].entry
    columns = ["model", *(["parameters"] if width >= _WIDE else [])]
    columns += [column for action in ACTIONS for column in _columns(action, width)]
    columns += [COLUMN.replace(" (", "\n(")] if width >= _WIDEST else []
    title = f"length {entry.length:,}, {entry.d_model} features, {entry.num_heads} heads, batch {entry.batch}"
    table = console_table(columns, title=title, caption=_CAPTION)
    for result in results:
        table.add_row(*_row(result, width))
    return table


def _columns(action: Action, width: int) -> list[str]:
    columns = [f"{TITLES[action]}\nms", "\nratio", "added\nMB"]
    if width >= _WIDE:
        columns[1:1] = ["\n±"]
        columns.append("peak\nMB")
    if width >= _WIDEST:
        columns.append("\nsteps/s")
    return columns


def _row(result: BenchResult, width: int) -> list[str]:
    row = [result.entry.model]
    if width >= _WIDE:
        row.append("" if result.parameters is None else f"{result.parameters:,}")
    for action in ACTIONS:
        row += _cells(result, action, width)
    if width >= _WIDEST:
        row.append(str(reported(result.entry) or ""))
    return row


def _cells(result: BenchResult, action: Action, width: int) -> list[str]:
    cost = result.cost(action)
    cells = [milliseconds(cost), number(cost.ratio), _megabytes(cost.added_bytes)]
    if width >= _WIDE:
        cells[1:1] = ["" if cost.spread is None else number(cost.spread * 1e3)]
        cells.append(_megabytes(cost.peak_bytes))
    if width >= _WIDEST:
        cells.append(number(result.throughput(action)))
    return cells


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.0f}" if size >= 1e7 else f"{size / 1e6:.1f}"


def _by_length(results: Sequence[BenchResult]) -> Table:
    """One row for each model and length."""
    entry = results[0].entry
    table = console_table(
        ["model", "length", *(title for action in ACTIONS for title in (f"{TITLES[action]}\nms", "added\nMB"))],
        title=f"{entry.d_model} features, {entry.num_heads} heads, batch {entry.batch}",
        caption=f"ms: median; {_STAR}; added: peak resident memory above what was resident before.",
    )
    for model in dict.fromkeys(r.entry.model for r in results):
        for result in sorted((r for r in results if r.entry.model == model), key=lambda r: r.entry.length):
            costs = [result.cost(action) for action in ACTIONS]
            cells = [text for c in costs for text in (milliseconds(c), _megabytes(c.added_bytes))]
            table.add_row(model, f"{result.entry.length:,}", *cells)
        table.add_section()
    return table


def _exponents(results: Sequence[BenchResult]) -> Table:
    """One row for each model and action."""
    table = console_table(
        ("model", "", "time", "memory", "lengths", "paper"),
        title="exponents: cost grows like length to the power of",
        caption="lengths: those fitted; paper: its claim about time (n: length, k: width, S: solver steps)",
        left=("", "paper"),
    )
    for row in growth(results):
        for action in ACTIONS:
            time, memory = row.fits[action, "seconds"], row.fits[action, "added_bytes"]
            span = "" if time is None else f"{time.shortest:,}-{time.longest:,}"
            exponents = ["" if fit is None else f"{fit.exponent:.2f}" for fit in (time, memory)]
            name, paper = (row.model, row.paper or "") if action == ACTIONS[0] else ("", "")
            table.add_row(name, TITLES[action], *exponents, span, paper)
        table.add_section()
    return table


def print_notes(results: Sequence[BenchResult], console: Console) -> None:
    """Why anything is missing."""
    for result in results:
        for action in ACTIONS:
            cost = result.cost(action)
            if (cost.state == OK and not cost.note) or cost.state == NOT_RUN or cost.state.startswith("skipped"):
                continue
            rounds = f" (timed {cost.rounds} of {MIN_ROUNDS} times)" if cost.rounds and cost.state != OK else ""
            note = f": {cost.note}" if cost.note else ""
            where = f"{result.entry.model} at {result.entry.length:,}, {_WORDS[action]}"
            console.print(f"{where}: {cost.state}{rounds}{note}", markup=False, highlight=False, soft_wrap=True)
