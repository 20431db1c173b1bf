"""Every model by name, with what is known about it."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


@dataclass(frozen=True)
class ModelInfo:
    """What the registry knows about a model.

    Attributes:
        name: Name for `nacre.create`.
        kind: "NAC", "CT-RNN", "DT-attention" or "CT-attention", as in the paper's table.
        summary: One line.
        uses_time: Whether time stamps change its output.
        causal: Whether step i depends on steps up to i only, as created by default.
    """

    name: str
    kind: str
    summary: str
    uses_time: bool
    causal: bool


_REGISTRY: dict[str, tuple[ModelInfo, Callable[..., nn.Module]]] = {}


def register(
    name: str, *, kind: str, summary: str, uses_time: bool, causal: bool = False
) -> Callable[[Callable[..., nn.Module]], Callable[..., nn.Module]]:
    """Decorator: register a factory `(d_input, d_model, num_heads, **options) -> module` under a name."""

    def add(factory: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        if name in _REGISTRY:
            raise ValueError(f"model {name!r} is registered twice")
        _REGISTRY[name] = (ModelInfo(name, kind, summary, uses_time, causal), factory)
        return factory

    return add


def list_models(pattern: str = "*") -> list[str]:
    """Names of the registered models that match a shell-style pattern.

    Example:
        >>> list_models("nac-0*")
        ['nac-02s', 'nac-05sfc', 'nac-09s']
    """
    return sorted(fnmatch.filter(_REGISTRY, pattern))


def model_info(name: str) -> ModelInfo:
    """What the registry knows about a model."""
    return _find(name)[0]


def create(name: str, *, d_input: int, d_model: int, num_heads: int, **options: Any) -> nn.Module:  # noqa: ANN401
    """Make a model of the zoo.

    Args:
        name: One of `list_models()`.
        d_input: Width of the input.
        d_model: Width of the output.
        num_heads: Number of heads, where the model has any.
        **options: Further options of that model.

    Returns:
        A module called as `module(x, time=None, key_padding_mask=None)`: [B, T, d_input] -> [B, T, d_model].

    Example:
        >>> model = create("nac-steady", d_input=7, d_model=64, num_heads=4)
        >>> model(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """
    return _find(name)[1](d_input=d_input, d_model=d_model, num_heads=num_heads, **options)


def _find(name: str) -> tuple[ModelInfo, Callable[..., nn.Module]]:
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown model {name!r}{hint}; there are {', '.join(list_models())}")
    return _REGISTRY[name]
