"""From the `[data]` table of a recipe to a data set."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nacre._util.checks import there_are
from nacre.data.dataset import Dataset, check_labels
from nacre.data.files.catalogue import loader_of
from nacre.data.tables.columns import Columns
from nacre.tasks.python_source import load_python

SOURCES = ("name", "csv", "python")  # keys of [data] that say where data comes from


def load_data(table: dict[str, Any], data_dir: Path | None = None) -> tuple[Dataset, Columns | None]:
    """The data that a recipe names and, for a CSV file, what its columns are.

    Args:
        table: `name` of a data set that nacre knows, `csv`, a file of your own, or `python`, a function of your
            own; all else are options of its reader.
        data_dir: Where data files lie.

    Example:
        >>> data, _ = load_data({"name": "spiral", "n": 30})
        >>> len(data)
        30
    """
    options = dict(table)
    if sum(key in options for key in SOURCES) != 1:
        came = ", ".join(options) or "nothing, as runs on data in memory"
        raise ValueError(
            "[data] must have one of name, a data set that nacre knows, csv, a file of your own, and python, a "
            f"function of your own (module:function), got {came}"
        )
    if "python" in options:
        return check_labels(load_python(options.pop("python"), options)), None
    name = "csv" if "csv" in options else options["name"]
    try:
        if "csv" in options:
            from nacre.data.tables.csv_dataset import read_csv_task

            path = Path(options.pop("csv"))
            _check(read_csv_task, options, "csv", ("path",))
            return read_csv_task(path, **options)
        loader = loader_of(options.pop("name"))
        _check(loader, options, name, ("data_dir",))
        places = {"data_dir": data_dir} if "data_dir" in inspect.signature(loader).parameters else {}
        return loader(**places, **options), None
    except TypeError as error:  # text where a number is wanted
        raise ValueError(f"[data] of {name}: {error}") from error


def csv_option_problems(options: dict[str, Any]) -> list[str]:
    """Options of a CSV file that do not exist, each with what there is, and those that must be and are not."""
    from nacre.data.tables.csv_dataset import read_csv_task

    return list(_problems(read_csv_task, options, "csv", ("path",)))


def csv_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those of some options of a CSV file that exist."""
    from nacre.data.tables.csv_dataset import read_csv_task

    return {key: value for key, value in options.items() if key in inspect.signature(read_csv_task).parameters}


def _check(reader: Callable[..., object], options: dict[str, Any], name: str, own: tuple[str, ...]) -> None:
    for problem in _problems(reader, options, name, own):
        raise ValueError(problem)


def _problems(
    reader: Callable[..., object], options: dict[str, Any], name: str, own: tuple[str, ...]
) -> Iterator[str]:
    parameters = {k: p for k, p in inspect.signature(reader).parameters.items() if k not in own}
    for key in options:
        if key not in parameters:
            yield f"unknown key data.{key} for {name}; {there_are(key, parameters)}"
    missing = [k for k, p in parameters.items() if p.default is p.empty and k not in options]
    if missing:
        yield f"[data] of {name} lacks {', '.join(missing)}"
