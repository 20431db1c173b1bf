"""Error messages for bad input, in one place: what was wrong, what came, what was wanted."""

import difflib
import math
from collections.abc import Iterable

import torch
from torch import Tensor


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
    near = difflib.get_close_matches(str(name), names, n=1)
    return (f"did you mean {near[0]!r}? There are " if near else "there are ") + (", ".join(names) or "none")


def whole(name: str, value: object, at_least: int) -> int:
    """Refuse what is not an integer of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    return value


def real(name: str, value: object, low: float, high: float, *, open_low: bool = False) -> float:
    """Refuse what is not a number between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    inside = (low < value if open_low else low <= value) and value <= high and math.isfinite(value)
    if not inside:
        ends = "(" if open_low else "[", "]" if math.isfinite(high) else ")"
        raise ValueError(f"{name} must lie in {ends[0]}{low}, {high}{ends[1]}, got {value}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """Refuse what is not True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r} ({type(value).__name__})")
    return value


def require_tensor(name: str, value: object, *, last: int) -> Tensor:
    """Refuse what is not a floating-point tensor whose last dimension is `last`."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}; use {name}.float()")
    if value.dim() == 0 or value.shape[-1] != last:
        raise ValueError(f"{name} must have {last} numbers in its last dimension, got shape {tuple(value.shape)}")
    return value


def sequence(name: str, value: object, width: int, weight: Tensor) -> Tensor:
    """Refuse what is not a non-empty [batch, time, width] tensor of the layer's dtype."""
    if isinstance(value, Tensor) and value.dim() != 3:
        raise ValueError(
            f"{name} must have shape [batch, time, {width}], got {tuple(value.shape)}; "
            f"use {name}.unsqueeze(0) for a single sequence"
        )
    tensor = require_tensor(name, value, last=width)
    if 0 in tensor.shape:
        raise ValueError(f"{name} must have at least one row and one step, got shape {tuple(tensor.shape)}")
    same_dtype(name, tensor, weight)
    return tensor


def same_dtype(name: str, value: Tensor, weight: Tensor) -> None:
    """Refuse a tensor that the layer's weights cannot multiply."""
    if value.dtype != weight.dtype and not torch.is_autocast_enabled(value.device.type):
        raise TypeError(
            f"{name} has dtype {value.dtype} but the layer's weights are {weight.dtype}; "
            f"convert one of them, for example {name}.to({weight.dtype})"
        )


def padding_mask(name: str, value: object, shape: tuple[int, int]) -> Tensor:
    """Refuse what is not a bool tensor of shape [batch, time]."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a bool tensor with True at padding, got {got}")
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape} (batch, time), got {tuple(value.shape)}")
    return value


def time_stamps(name: str, value: object, shape: tuple[int, int]) -> Tensor:
    """Refuse what is not a real tensor of shape [batch, time]."""
    if not isinstance(value, Tensor) or value.dtype == torch.bool or value.is_complex():
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a tensor of real time stamps, got {got}")
    if value.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape} (batch, time), one stamp for each step, got {tuple(value.shape)}"
        )
    return value


def ascending(name: str, value: Tensor, padding: Tensor | None) -> None:
    """Refuse stamps [batch, time] that are not finite, or that go back from one valid step to the next.

    Skipped under torch.compile, where a check on values would break the graph.
    """
    if torch.compiler.is_compiling():
        return
    valid = torch.ones_like(value, dtype=torch.bool) if padding is None else ~padding
    lost = ~value.isfinite() & valid
    if lost.any():
        row, step = lost.nonzero()[0].tolist()
        raise ValueError(f"{name} must be finite, got {value[row, step].item()} at row {row}, step {step}")
    latest = value.masked_fill(~valid, -torch.inf).cummax(1).values
    back = (value < latest) & valid
    if back.any():
        row, step = back.nonzero()[0].tolist()
        raise ValueError(
            f"{name} must not go back within a row, got {value[row, step].item()} after "
            f"{latest[row, step].item()} at row {row}, step {step}; sort the steps of each row by time, and mark "
            "padding in key_padding_mask"
        )
