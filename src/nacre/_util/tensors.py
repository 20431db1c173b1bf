"""Whether tensors from a file are those of a module."""

from collections import Counter

import torch
from torch import Tensor

EXTRA_STATE = "_extra_state"  # how torch names what a module itself adds to its state dict
_TYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")  # that weights may have


def compare(expected: dict[str, Tensor], found: dict[str, Tensor], types: dict[str, str] | None) -> None:
    """Refuse tensors that a module does not expect, by name, shape or type.

    Weights may have any type that can compute, but all the same one, unless `types` names that of each. Extra
    states are left to the module.
    """
    wrong = [f"missing {name}" for name in expected if name not in found]
    wrong += [f"unexpected {name!r}" for name in found if name not in expected]
    common = Counter(type_of(t) for t in found.values() if has_fractions(t)).most_common(1)
    for name, t in found.items():
        if name not in expected or name.endswith(EXTRA_STATE):
            continue
        other = expected[name]
        if t.shape != other.shape:
            wrong.append(f"{name} has shape {[*t.shape]} and not {[*other.shape]}")
        wanted, usable = type_of(other), True
        if has_fractions(other):
            wanted = types.get(name) if types is not None else common[0][0] if common else wanted
            usable = wanted in _TYPES and t.is_complex() == other.is_complex()
        if type_of(t) != wanted or not usable:
            wrong.append(f"{name} has type {type_of(t)} and not {wanted if usable else type_of(other)}")
    if wrong:
        more = f" and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise ValueError("; ".join(wrong[:10]) + more)


def first_nonfinite(tensors: dict[str, Tensor]) -> str | None:
    """Name of the first tensor that holds NaN or an infinite number."""
    for name, t in tensors.items():
        if has_fractions(t) and t.numel():
            ends = (torch.view_as_real(t) if t.is_complex() else t).aminmax()  # makes no copy, as isfinite would
            if not all(end.isfinite() for end in ends):
                return name
    return None


def has_fractions(t: Tensor) -> bool:
    """Whether it is of floating point, real or complex."""
    return t.is_floating_point() or t.is_complex()


def type_of(t: Tensor) -> str:
    """Name of its type, such as "float32"."""
    return str(t.dtype).removeprefix("torch.")
