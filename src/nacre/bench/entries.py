"""What the bench can measure: names, and how to build the module of each, [B, T, d_model] -> [B, T, d_model]."""

import fnmatch
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre._util.foreign_code import is_reference
from nacre.models._registry import create, list_models

REFERENCE = "torch-mha"  # what every ratio compares with
SWEPT = ("nac", "torch-mha", "torch-mha-fastpath", "torch-gru", "ncps-cfc", "torch-nac")
_TORCH_NAC = "torch-nac"


class TorchAttention(nn.Module):
    """`torch.nn.MultiheadAttention` as self attention without weights.

    Its fast path, which only evaluation may take, builds a T x T table. Its fused kernel never does, so the bench
    has both.
    """

    def __init__(self, d_model: int, num_heads: int, *, fastpath: bool = False) -> None:
        super().__init__()
        self.fastpath = fastpath
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, T, d_model]."""
        before = torch.backends.mha.get_fastpath_enabled()  # one switch for the whole process
        torch.backends.mha.set_fastpath_enabled(self.fastpath)
        try:
            return self.attention(x, x, x, need_weights=False)[0]
        finally:
            torch.backends.mha.set_fastpath_enabled(before)


class Recurrent(nn.Module):
    """A recurrent network that returns its outputs [B, T, d_model] without its state."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, d_model] -> [B, T, d_model]."""
        return self.core(x)[0]


def available() -> list[str]:
    """Every name that can be measured here: the zoo, and others beside it.

    Example:
        >>> {"nac", "torch-mha", "torch-gru", "ncps-cfc"} <= set(available())
        True
    """
    return [name for name in _builders() if name != _TORCH_NAC or _has_torch_nac()]


def resolve(names: Iterable[str]) -> list[str]:
    """Names for names and shell patterns, each once, in order; one string may hold several, between commas.

    Example:
        >>> resolve(["torch-mha,nac-0*", "nac-02s"])
        ['torch-mha', 'nac-02s', 'nac-05sfc', 'nac-09s']
    """
    options = available()
    found: dict[str, None] = {}
    for name in split(names):
        if name == _TORCH_NAC and not _has_torch_nac():
            raise ValueError("models names 'torch-nac', which is not installed; pip install --no-deps torch-nac")
        matches = [name] if is_reference(name) else fnmatch.filter(options, name)
        if not matches:
            choice("models", name, options)
        found.update(dict.fromkeys(matches))
    if not found:
        raise ValueError("models must name at least one model, got none")
    return list(found)


def with_stamps(names: Sequence[str]) -> Sequence[str]:
    """The same names; refuses those that take no time stamps."""
    zoo = list_models()
    for name in names:
        if name not in zoo and not is_reference(name):
            raise ValueError(f"models names {name!r}, which takes no time stamps; choose among nacre models")
    return names


def split(values: Iterable[str]) -> list[str]:
    """Parts of comma-separated strings."""
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def build(name: str, d_model: int, num_heads: int) -> nn.Module:
    """The module of a name of `available()`, with the same weights each time.

    Example:
        >>> build("torch-gru", 8, 2)(torch.zeros(1, 5, 8)).shape
        torch.Size([1, 5, 8])
    """
    torch.manual_seed(0)
    if is_reference(name):
        return _zoo(name, d_model, num_heads)
    builders = _builders()
    choice("model", name, builders)
    return builders[name](d_model, num_heads)


def _builders() -> dict[str, Callable[[int, int], nn.Module]]:
    """Every name with a function of d_model and num_heads."""
    zoo = {name: partial(_zoo, name) for name in list_models()}
    return zoo | {
        REFERENCE: TorchAttention,
        "torch-mha-fastpath": partial(TorchAttention, fastpath=True),
        "torch-gru": lambda d_model, num_heads: Recurrent(nn.GRU(d_model, d_model, batch_first=True)),
        "ncps-cfc": partial(_ncps, "CfC"),
        "ncps-ltc": partial(_ncps, "LTC"),
        _TORCH_NAC: _torch_nac,
    }


def _zoo(name: str, d_model: int, num_heads: int) -> nn.Module:
    return create(name, d_input=d_model, d_model=d_model, num_heads=num_heads)


def _ncps(name: str, d_model: int, num_heads: int) -> nn.Module:
    import ncps.torch
    from ncps.wirings import AutoNCP

    # Beside the d_model motor neurons as many others, and at least the three that AutoNCP needs.
    wiring = AutoNCP(d_model + max(d_model, 3), d_model)
    return Recurrent(getattr(ncps.torch, name)(d_model, wiring))


def _torch_nac(d_model: int, num_heads: int) -> nn.Module:
    from torch_nac import NAC  # pyright: ignore[reportMissingImports]

    return NAC(d_model, num_heads, return_sequences=True)


def _has_torch_nac() -> bool:
    return importlib.util.find_spec("torch_nac") is not None
