"""`watching`: observers of the NAC layers of a model."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from torch import Tensor, nn

from nacre._util.checks import there_are
from nacre.layer.attention import NAC
from nacre.layer.pairs import Gates
from nacre.layer.trace import Observer, Scene

_Observer = TypeVar("_Observer", bound=Observer)


@contextmanager
def watching(model: nn.Module, new: Callable[[str, NAC], _Observer]) -> Iterator[dict[str, _Observer]]:
    """Observe all NAC layers of a model, which is in evaluation mode meanwhile.

    Args:
        model: Any module with NAC layers.
        new: Makes an observer for a call of a layer, from the layer's name and the layer.

    Yields:
        Observers by name, filled as layers are called. A layer that is called twice has two, the second "name#2".

    Raises:
        ValueError: If the model has no NAC layer, or none of them ran.
    """
    layers = layers_of(model)
    seen: dict[str, _Observer] = {}
    training = [(m, m.training) for m in model.modules()]
    before = {name: layer.observer for name, layer in layers.items()}
    model.eval()
    try:
        for name, layer in layers.items():
            layer.observer = _Calls(name, layer, new, seen)
        yield seen
    finally:
        for name, layer in layers.items():
            layer.observer = before[name]
        for module, flag in training:
            module.training = flag
    if not seen:
        raise ValueError(f"none of the NAC layers of {type(model).__name__} ran ({', '.join(layers)})")


def layers_of(model: nn.Module) -> dict[str, NAC]:
    """NAC layers of a model by their names in it; a layer alone is called "nac"."""
    layers = {name or "nac": module for name, module in model.named_modules() if isinstance(module, NAC)}
    compiled = [m for m in model.modules() if hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None)]
    if compiled:
        raise ValueError(
            "model must not be compiled, for a compiled model cannot be watched; give the model that was compiled"
        )
    if not layers:
        raise ValueError(f"model must have a nacre.NAC layer to look into; {type(model).__name__} has none")
    return layers


def choose_layer(layers: Mapping[str, object], name: str | None, what: str = "a NAC layer") -> str:
    """The name, after a check that there is such a layer; without a name, that of the only layer."""
    if name is None and len(layers) == 1:
        return next(iter(layers))
    if name is None or name not in layers:
        raise ValueError(f"layer must name {what}, got {name!r}; {there_are(name, layers)}")
    return name


def check_index(name: str, value: int, count: int) -> None:
    """Refuse what is no index of `count` things."""
    if not 0 <= value < count:
        raise ValueError(f"{name} must be from 0 to {count - 1}, got {value}")


class _Calls(Generic[_Observer]):
    """Makes an observer for each call of a layer."""

    def __init__(
        self, name: str, layer: NAC, new: Callable[[str, NAC], _Observer], seen: dict[str, _Observer]
    ) -> None:
        self._name, self._layer, self._new, self._seen = name, layer, new, seen
        self._calls = 0

    def begin(self, scene: Scene) -> None:
        self._calls += 1
        name = self._name if self._calls == 1 else f"{self._name}#{self._calls}"
        self._now = self._seen[name] = self._new(name, self._layer)
        self._now.begin(scene)

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        self._now.see(rows, gates, neurons)
