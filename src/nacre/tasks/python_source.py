"""Data of your own from a function: `python = "module:function"` in the `[data]` table of a recipe.

The function is imported because a recipe that you run names it, from an installed package or a file in the folder
of the command. What a saved run names is imported only if you trust the package.
"""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nacre._util.checks import there_are
from nacre._util.digest import checksum
from nacre._util.foreign_code import import_reference, is_reference
from nacre.data.dataset import Dataset
from nacre.data.tables.arrays import from_arrays
from nacre.data.tables.csv_dataset import from_frame

ENTRY_POINTS = "nacre.data"
_ROLES = ("kind", "features", "classes", "targets", "parts", "static", "missing")
_ROLES += ("target_column", "one_hot", "guess", "window", "neutral")


def load_python(reference: str, options: Mapping[str, Any]) -> Dataset:
    """The data set that a function gives.

    Args:
        reference: package.module:function. It returns a `Dataset`, or a dictionary of arguments of
            `nacre.data.from_arrays` or, with a `frame`, of `nacre.data.from_frame`.
        options: Its arguments: the other keys of `[data]`.

    Raises:
        ValueError: If there is no such function, it fails, takes other arguments, or gives something else.
    """
    if not is_reference(reference):
        raise ValueError(f"data.python must be of the form module:function, got {reference!r}")
    function = import_reference(reference, ENTRY_POINTS)
    if not callable(function):
        raise ValueError(f"data.python: {reference!r} is a {type(function).__name__}, wanted a function")
    _check_options(function, options, reference)
    try:
        made = function(**options)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename}, line {last.lineno}"
        raise ValueError(f"{reference!r} failed ({where}): {type(error).__name__}: {error}") from error
    if isinstance(made, Mapping):
        made = _from_arguments(made, reference)
    if not isinstance(made, Dataset):
        raise ValueError(
            f"{reference!r} must return a nacre.data.Dataset, such as from_arrays or from_csv makes, or a "
            f"dictionary of the arguments of from_arrays or from_frame, got a {type(made).__name__}"
        )
    return made if made.form != "generated" else replace(made, form="your own")


def roles_checksum(data: Dataset) -> str:
    """Checksum of what a data set says of its columns and answers, which its digest does not hold."""
    parts: dict[str, Any] = {name: getattr(data, name) for name in _ROLES}
    for name in ("test", "transfer", "before", "part"):
        tensor = getattr(data, name)
        parts[name] = None if tensor is None else tensor.tolist()
    return checksum(parts)


def _from_arguments(made: Mapping[str, Any], reference: str) -> Dataset:
    maker, needed = (from_frame, ("frame", "time", "target")) if "frame" in made else (from_arrays, ("x", "y"))
    known = inspect.signature(maker).parameters
    wrong = next((key for key in made if key not in known), None)
    if wrong is not None or not {*needed} <= made.keys():
        missing = " and ".join(key for key in needed if key not in made)
        why = f"{wrong!r} is none of them" if wrong is not None else f"without {missing}"
        raise ValueError(f"{reference!r} must return arguments of {maker.__name__}, {', '.join(known)}; {why}")
    return maker(**{"name": reference.rpartition(":")[2], **made})


def _check_options(function: Callable[..., object], options: Mapping[str, Any], reference: str) -> None:
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for key in options:
        if key not in parameters:
            raise ValueError(f"unknown key data.{key} for {reference}; {there_are(key, parameters)}")
    missing = [k for k, p in parameters.items() if p.default is p.empty and k not in options]
    if missing:
        raise ValueError(f"[data] lacks {', '.join(missing)}, which {reference} takes")
