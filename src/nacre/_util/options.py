"""Options that carry their check in their type: `top_k: Annotated[int | None, Integer(1)] = 8`."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from nacre._util.checks import choice, flag, real, whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Integer:
    """A whole number between bounds."""

    least: int
    most: int = sys.maxsize

    def check(self, name: str, value: Any) -> int:  # noqa: ANN401
        """The value, or an error that says what it must be."""
        return whole(name, value, self.least, self.most)


@dataclass(frozen=True)
class Number:
    """A number between bounds, which becomes a float."""

    low: float
    high: float = math.inf
    open_low: bool = False  # whether the lower bound itself is refused

    def check(self, name: str, value: Any) -> float:  # noqa: ANN401
        """The value as a float, or an error that says what it must be."""
        return real(name, value, self.low, self.high, open_low=self.open_low)


@dataclass(frozen=True)
class OneOf:
    """One of some words: members of an enum, or keys of a dict."""

    words: Iterable[str]

    def check(self, name: str, value: Any) -> str:  # noqa: ANN401
        """The value, or an error with all words."""
        choice(name, value, self.words)
        return value


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: Any) -> bool:  # noqa: ANN401
        """The value, or an error that says what it must be."""
        return flag(name, value)


class _Checked(NamedTuple):
    name: str
    check: Callable[[str, Any], Any]
    optional: bool  # whether None is a value


def check_options(instance: "DataclassInstance") -> None:
    """Check all fields of a frozen dataclass whose types carry a check, and keep what the checks give.

    Example:
        >>> from typing import Annotated
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: Annotated[float, Number(0.0)] = 1.0
        ...     def __post_init__(self):
        ...         check_options(self)
        >>> Point(3).x
        3.0
        >>> Point(-1)
        Traceback (most recent call last):
        ValueError: x must lie in [0.0, inf), got -1
    """
    for name, check, optional in _checked(type(instance)):
        value = getattr(instance, name)
        if value is not None or not optional:
            object.__setattr__(instance, name, check(name, value))


@cache
def _checked(cls: type) -> tuple[_Checked, ...]:
    return tuple(_checks_of(get_type_hints(cls, include_extras=True)))


def _checks_of(hints: dict[str, Any]) -> Iterator[_Checked]:
    for name, hint in hints.items():
        for part in getattr(hint, "__metadata__", ()):
            if hasattr(part, "check"):
                yield _Checked(name, part.check, type(None) in get_args(hint.__origin__))
