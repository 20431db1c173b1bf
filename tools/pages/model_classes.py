"""docs/model-classes.md, from the registry: the docstrings of the models."""

import inspect
from functools import partial

from nacre.models import create, model_info
from nacre.models._registry import KINDS, model_factory, own_models


def classes(kind: str) -> str:
    """What mkdocstrings shows of the models of a kind: their classes, and functions that choose one."""
    parts = []
    for name in own_models():
        if model_info(name).kind == kind:
            factory, cls = model_factory(name), type(create(name, d_input=5, d_model=8, num_heads=2))
            if inspect.isfunction(factory):
                parts.append(_entry(f"{factory.__module__}.{factory.__name__}", name))
            parts.append(_entry(f"{cls.__module__}.{cls.__name__}", f"{name}: {cls.__name__}"))
    return "\n".join(parts)


def _entry(path: str, heading: str) -> str:
    return f"::: {path}\n    options:\n      heading: '{heading}'\n      members: false\n"


TABLES = {kind.lower(): partial(classes, kind) for kind in KINDS if kind not in ("NAC", "other")}
