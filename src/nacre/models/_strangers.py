"""Models of others: by entry points of installed packages, or by name, package.module:factory."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from nacre._util.foreign_code import import_reference, is_reference, offers, source_checksum
from nacre.models._info import ModelInfo
from nacre.models._search_space import Space

GROUP = "nacre.models"  # of entry points


@dataclass(frozen=True)
class Stranger:
    """A model that is not of nacre."""

    info: ModelInfo
    factory: Callable[..., nn.Module]
    space: Space
    reference: str  # package.module:factory
    package: str  # that offers it as an entry point, with its version; empty if none does

    @property
    def source(self) -> str:
        """Checksum of the file that defines it."""
        return source_checksum(self.factory)

    def describe(self) -> dict[str, Any]:
        """How to find it, as plain data."""
        return {"reference": self.reference, "package": self.package, "sha256": self.source}


def stranger_names() -> list[str]:
    """Names under which installed packages offer models."""
    return list(offers(GROUP))


def find_stranger(name: str) -> Stranger | None:
    """The model of an entry point or reference; None if the name is neither.

    Raises:
        ValueError: If there is no such model, it is none, or a file names it that the caller does not trust.
    """
    entry = offers(GROUP).get(name)
    if entry is None and not is_reference(name):
        return None
    reference = name if entry is None else entry.value
    factory = import_reference(reference, GROUP)
    _check(factory, name)
    package = f"{entry.dist.name} {entry.dist.version}" if entry is not None and entry.dist is not None else ""
    info = getattr(factory, "model_info", None)
    info = replace(info, name=name) if isinstance(info, ModelInfo) else _usual_info(name, factory)
    return Stranger(info, factory, dict(getattr(factory, "search_space", {})), reference, package)


def _check(factory: object, name: str) -> None:
    if not callable(factory):
        raise ValueError(f"model {name!r} must be a class or function that makes a module, got {factory!r:.100}")
    parameters = inspect.signature(factory).parameters
    missing = {"d_input", "d_model"} - {*parameters}
    if missing and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise ValueError(f"model {name!r} must take d_input and d_model, the widths of input and output")


def _usual_info(name: str, factory: object) -> ModelInfo:
    words = (inspect.getdoc(factory) or "").partition("\n")[0]
    return ModelInfo(
        name, kind="other", paper="", summary=words, uses_time=True, causal=False, cost="", checked=""
    )
