"""Every model by name, with what is known about it."""

import fnmatch
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from torch import nn

from nacre._util.checks import choice, did_you_mean, there_are, whole
from nacre.models._info import KINDS, ModelInfo
from nacre.models._search_space import Space
from nacre.models._strangers import GROUP, Stranger, find_stranger, stranger_names


class _Entry(NamedTuple):
    info: ModelInfo
    factory: Callable[..., nn.Module]
    space: Space
    preset: Mapping[str, Any]


_REGISTRY: dict[str, _Entry] = {}
_Factory = TypeVar("_Factory", bound="Callable[..., nn.Module]")


def register(
    info: ModelInfo, space: Space | None = None, preset: Mapping[str, Any] | None = None
) -> Callable[[_Factory], _Factory]:
    """Decorator: register a class or function that makes a model, and the options that `nacre tune` searches.

    The factory takes `d_input`, `d_model`, `num_heads` if the model has heads, and options of the model by name.
    `preset` holds options of `NAC` whose defaults are others in this model.
    """
    choice("kind", info.kind, KINDS)

    def add(factory: _Factory) -> _Factory:
        if info.name in _REGISTRY:
            raise ValueError(f"model {info.name!r} is registered twice")
        _REGISTRY[info.name] = _Entry(info, factory, space or {}, preset or {})
        return factory

    return add


def list_models(pattern: str = "*") -> list[str]:
    """Names of the models that match a shell-style pattern: those of nacre, and of installed packages.

    Example:
        >>> list_models("nac-0*")
        ['nac-02s', 'nac-05sfc', 'nac-09s']
    """
    return sorted(fnmatch.filter({*_REGISTRY, *stranger_names()}, pattern))


def own_models() -> list[str]:
    """Names of the models of nacre itself."""
    return sorted(_REGISTRY)


def model_info(name: str) -> ModelInfo:
    """What the registry knows about a model.

    Example:
        >>> model_info("cfc-ncp").uses_time
        True
    """
    return _find(name).info


def create(name: str, *, d_input: int, d_model: int, num_heads: int, **options: Any) -> nn.Module:  # noqa: ANN401
    """Make a model of the zoo.

    Args:
        name: One of `list_models()`, or package.module:factory, a class or function of your own.
        d_input: Width of the input.
        d_model: Width of the output.
        num_heads: Number of heads, where the model has any.
        **options: Further options of that model.

    Returns:
        A module called as `module(x, time=None, key_padding_mask=None)`: [B, T, d_input] -> [B, T, d_model].

    Example:
        >>> model = create("cfc-ncp", d_input=7, d_model=64, num_heads=4)
        >>> model(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """
    factory = _find(name).factory
    allowed = model_options(name)
    if allowed is not None:
        for option in options:
            if option not in allowed:
                near = did_you_mean(option, allowed)
                takes = f"{near} It takes" if near else "; it takes"
                raise TypeError(f"{name} has no option {option!r}{takes} {', '.join(allowed) or 'none'}")
    whole("num_heads", num_heads, 1)
    heads = {"num_heads": num_heads} if has_heads(name) else {}
    model = factory(d_input=d_input, d_model=d_model, **heads, **options)
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name} must make a torch.nn.Module, got a {type(model).__name__}")
    return model


def model_options(name: str) -> dict[str, Any] | None:
    """Options that `create` takes for a model beside the sizes, with their defaults; None for those of `NAC`."""
    parameters = inspect.signature(_find(name).factory).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters if p.name not in ("d_input", "d_model", "num_heads")}


def model_preset(name: str) -> dict[str, Any]:
    """Options of `NAC` whose defaults are others in this model."""
    return dict(_find(name).preset)


def has_heads(name: str) -> bool:
    """Whether a model has heads, and so uses `num_heads`."""
    return "num_heads" in inspect.signature(_find(name).factory).parameters


def model_factory(name: str) -> Callable[..., nn.Module]:
    """The class or function that makes a model."""
    return _find(name).factory


def model_space(name: str) -> Space:
    """Options of a model that `nacre tune` searches.

    Example:
        >>> model_space("cfc-ncp")["sparsity"]
        Real(low=0.1, high=0.9, log=False)
    """
    return dict(_find(name).space)


def model_stranger(name: str) -> Stranger | None:
    """A model that is not of nacre; None for those that are."""
    return None if name in _REGISTRY else find_stranger(name)


def model_folder(name: str) -> str:
    """The name of a model as that of a folder.

    Example:
        >>> model_folder("mydecay.models:Decay")
        'mydecay.models.Decay'
    """
    return name.replace(":", ".")


def _find(name: str) -> _Entry:
    if name in _REGISTRY:
        return _REGISTRY[name]
    stranger = find_stranger(name)
    if stranger is None:
        raise ValueError(
            f"unknown model {name!r}; {there_are(name, list_models())}; models of your own are named "
            f"package.module:factory, or offered by an installed package (entry points {GROUP!r})"
        )
    return _Entry(stranger.info, stranger.factory, stranger.space, {})
