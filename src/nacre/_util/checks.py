"""Checks of plain values. An error message says what was wrong, what came and what was wanted."""

import difflib
import math
import sys
from collections.abc import Iterable


def choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a value that is not among the allowed ones."""
    options = [str(a) for a in allowed]
    if value not in options:
        hint = did_you_mean(value, options)
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}{hint}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """What to say after an unknown name: the nearest one that is known, or nothing.

    Example:
        >>> did_you_mean("sqr", ["sqrt", "exact"])
        "; did you mean 'sqrt'?"
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def there_are(name: object, known: Iterable[str]) -> str:
    """What to say after an unknown name: the nearest one that is known, and all of them."""
    names = list(known)
    near = did_you_mean(name, names).removeprefix("; ")
    return (f"{near} There are " if near else "there are ") + (", ".join(names) or "none")


def whole(name: str, value: object, at_least: int, at_most: int = 2**63 - 1) -> int:
    """Refuse what is not an integer from `at_least` to `at_most`, by default the largest that torch takes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {value}")
    return value


def real(name: str, value: object, low: float, high: float, *, open_low: bool = False) -> float:
    """Refuse what is not a finite number between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    if not low <= value <= high or abs(value) > sys.float_info.max or (open_low and value == low):
        left, right = "(" if open_low else "[", "]" if math.isfinite(high) else ")"
        raise ValueError(f"{name} must lie in {left}{low}, {high}{right}, got {value}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """Refuse what is not True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r} ({type(value).__name__})")
    return value
