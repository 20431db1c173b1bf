"""Code of others by its name, `package.module:attribute`: imported if the caller names it, or trusts its package.

What a user types is imported. What a file says is not, unless it belongs to a package that the caller trusts, or
to an installed one that offers it under an entry point.
"""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_packages: ContextVar[tuple[str, ...]] = ContextVar("packages", default=())  # that the caller trusts
_from_file: ContextVar[bool] = ContextVar("from_file", default=False)  # whether names come from a file


class UntrustedCode(ValueError):
    """A file names code that the caller has not said to trust."""


def is_reference(name: str) -> bool:
    """Whether a name is of the form package.module:attribute.

    Example:
        >>> is_reference("mydecay.models:Decay"), is_reference("nac-plus")
        (True, False)
    """
    return _REFERENCE.fullmatch(name) is not None


def package_list(packages: Sequence[str]) -> tuple[str, ...]:
    """Packages as a tuple; refuses a single name, whose letters would be taken for packages."""
    if isinstance(packages, str):
        raise TypeError(f"trust must be a list of packages, got {packages!r}; write [{packages!r}]")
    return tuple(packages)


@contextmanager
def trusting(packages: Sequence[str]) -> Iterator[None]:
    """Within this, files that are read may name code of these packages (or modules)."""
    token = _packages.set((*_packages.get(), *package_list(packages)))
    try:
        yield
    finally:
        _packages.reset(token)


def trusted_packages() -> tuple[str, ...]:
    """The packages that files may name code of."""
    return _packages.get()


@contextmanager
def names_from_a_file() -> Iterator[None]:
    """Within this, names come from a file: code is imported only if it is trusted."""
    token = _from_file.set(True)
    try:
        yield
    finally:
        _from_file.reset(token)


def import_reference(name: str, group: str) -> Any:  # noqa: ANN401
    """What a reference names.

    Args:
        name: package.module:attribute.
        group: Entry points under which installed packages offer such things; these are trusted.

    Raises:
        UntrustedCode: If the name comes from a file, and the caller does not trust it.
        ValueError: If there is no such thing.
    """
    module, _, attribute = name.partition(":")
    if not _is_trusted(name, group):
        package = module.partition(".")[0]
        raise UntrustedCode(
            f"{name!r} is code that is not of nacre, and is not imported because a file says so; if you trust "
            f"the package, say trust=[{package!r}] to nacre.load or Run.open, or --trust {package} to the command"
        )
    try:
        found = _import(module)
    except Exception as error:
        raise ValueError(
            f"cannot import {module}, of {name!r}: {type(error).__name__}: {error}; it must be installed, or a "
            "file in this folder"
        ) from error
    if not hasattr(found, attribute):
        raise ValueError(f"{found.__file__ or module} has no {attribute!r}, of {name!r}")
    return getattr(found, attribute)


def _is_trusted(name: str, group: str) -> bool:
    if not _from_file.get() or any(entry.value == name for entry in offers(group).values()):
        return True
    module = name.partition(":")[0]
    return any(module == package or module.startswith(f"{package}.") for package in _packages.get())


def _import(module: str) -> Any:  # noqa: ANN401
    """The module; one in the folder of the command, too, which is not on the path of an installed program."""
    here = str(Path.cwd())
    if here in sys.path or "" in sys.path:
        return importlib.import_module(module)
    sys.path.append(here)  # last: it must not hide what is installed
    try:
        importlib.invalidate_caches()
        return importlib.import_module(module)
    finally:
        sys.path.remove(here)


@cache
def offers(group: str) -> dict[str, EntryPoint]:
    """Entry points of installed packages in a group, by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def source_checksum(thing: object) -> str:
    """SHA-256 of the file that defines a class or function; raises ValueError if there is no such file."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(thing))  # pyright: ignore[reportArgumentType]
    except TypeError:
        path = None
    if path is None or not Path(path).is_file():
        raise ValueError(f"{thing!r} must be a class or function of a Python file, whose checksum is taken")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
