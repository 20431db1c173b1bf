"""`csv_problems`: all that is wrong with a CSV file and what is said of its columns, not only the first thing."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from nacre.data.tables.cells import Table, read_table
from nacre.data.tables.csv_dataset import read_csv_task
from nacre.data.tables.reading import Duplicates, Reading, vocabulary
from nacre.data.tables.roles import check_target, choose_features, choose_kind, target_cells, without_gaps
from nacre.data.tables.sequences import order_rows, read_clock

_T = TypeVar("_T")


def csv_problems(path: str | os.PathLike[str], options: dict[str, Any]) -> list[str]:
    r"""Messages about a file that `read_csv_task` would be given these options for; none if it would read it.

    Each column is looked at by itself, so that one bad column hides no other. What rests on a bad column, such as
    the order of rows whose stamps cannot be read, is not looked at.

    Example:
        >>> _ = (tmp / "odd.csv").write_text("t,a,y\n0,one,0.5\n1,2,\n2,3,1.5\n3,4,2.5\n")
        >>> options = {"time": "t", "target": "y", "features": ["a", "b"], "kind": "step-regression"}
        >>> for problem in csv_problems(tmp / "odd.csv", options):
        ...     print(problem.rpartition("odd.csv")[2].partition(";")[0])
         has no column 'b'. Its columns are 't', 'a', 'y'
        , line 3: column 'y' is empty
        , line 2: column 'a' holds 'one', not a finite number
    """
    try:
        read_csv_task(path, **options)
    except (ValueError, TypeError, OSError) as error:
        first = str(error)
    else:
        return []
    found = _Problems()
    gaps = options.get("missing", "error") != "error"
    table = found.of(read_table, path, None, {}, options.get("decimal", "."), gaps)
    if table is not None and not options.get("variable"):  # a long table is looked at as a whole
        found.of(_look, table, options, found)
    return found.said if first in found.said else [first, *found.said]


class _Problems:
    """What went wrong, each once."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def of(self, function: Callable[..., _T], *args: object) -> _T | None:
        """What the function returns; None, and its message is kept, if it refuses."""
        try:
            return function(*args)
        except (ValueError, TypeError, OSError) as error:
            if str(error) not in self.said:
                self.said.append(str(error))
            return None


def _look(table: Table, options: dict[str, Any], found: _Problems) -> None:
    """Look at each column, then at what rests on several."""
    time, group, kind = options["time"], options.get("group"), options.get("kind")
    target, features = options["target"], options.get("features")
    targets = (target,) if isinstance(target, str) else tuple(target)
    categories = tuple(options.get("categories", ()))
    roles = {time: "time", **dict.fromkeys(targets, "target"), **dict.fromkeys(features or (), "features")}
    roles |= dict.fromkeys(categories, "categories") | ({} if group is None else {group: "group"})
    there = {name for name in roles if found.of(_present, table, roles[name], name)}

    clock = found.of(read_clock, table, time) if time in there else None
    named = group is None or (group in there and found.of(table.filled, group, "group") is not None)
    answers = [found.of(_target, table, name, group if named else None, kind) for name in targets if name in there]
    inputs = table.frame.columns if features is None else [name for name in features if name in there]
    for name in inputs:
        found.of(_look_at_input, table, name, roles.get(name, ""), features is None)
    for name in categories:
        if name in there:
            found.of(vocabulary, table, name)

    reading = Reading(options.get("sort", False), options.get("duplicates", "error"))
    rows = None
    if clock is not None and named:
        rows = found.of(order_rows, table, time, group, clock[1], reading)
        if rows is None:  # the order is wrong: go on as if it were right
            rows = order_rows(table, time, group, clock[1], Reading(True, Duplicates.KEEP))
    cells = [answer[rows.row] for answer in answers if answer is not None] if rows is not None else []
    if rows is not None and targets and len(cells) == len(targets):
        guess = found.of(choose_kind, kind, targets, cells, rows)
        if guess is not None:
            found.of(check_target, table, rows, guess[0], targets, cells)
            found.of(choose_features, table, features, guess[0], {time, group}, targets, categories)


def _target(table: Table, name: str, group: str | None, kind: str | None) -> NDArray:
    return target_cells(without_gaps(table, name, group)[0], name, kind)


def _present(table: Table, role: str, name: str) -> bool:
    table.require(role, name)
    return True


def _look_at_input(table: Table, name: str, role: str, guessed: bool) -> None:
    """Refuse a column that is an input, or would become one, and holds what is no number."""
    if role not in ("", "features"):
        return
    if guessed and (name.startswith("(column ") or table.is_text(name)):
        table.refuse_commas(name, "features")
    else:
        table.numbers(name)
