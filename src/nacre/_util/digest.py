"""Checksums of plain data, and of what in an object differs from its defaults."""

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def checksum(data: object) -> str:
    """SHA-256 of plain data; the order of keys does not count.

    Example:
        >>> checksum({"a": 1, "b": (2,)}) == checksum({"b": [2], "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def differences(instance: "DataclassInstance") -> dict[str, Any]:
    """Fields of a dataclass that differ from their defaults, or have none, as plain data.

    A field that is added later, with a default, changes nothing in what this gives for objects of before.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> differences(Point(1)), differences(Point(1, 2))
        ({'x': 1}, {'x': 1, 'y': 2})
    """
    found = {}
    for field in fields(instance):
        value = getattr(instance, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or value != default:
            nested = is_dataclass(value) and not isinstance(value, type)
            found[field.name] = differences(value) if nested else value  # pyright: ignore[reportArgumentType]
    return found
