"""Saving and loading: safetensors for weights, JSON for everything else, no pickle.

A saved model is a directory with `model.json` and the weights file it names. The weights are written first, and
`model.json` is replaced last: a directory always holds one complete model, the old one or the new.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from nacre._util.files import write_atomic
from nacre._version import __version__

FORMAT = 1
_HEADER = "model.json"
_WEIGHTS = re.compile(r"weights-[0-9a-f]{16}\.safetensors")


_KINDS: dict[str, Any] = {}  # classes by name
_Class = TypeVar("_Class", bound=type)


def saveable(kind: str) -> Callable[[_Class], _Class]:
    """Class decorator: let `save` and `load` handle a module class under this name.

    The class needs `to_config()`, which gives plain data, and a class method `from_config(data)`, which makes the
    same module with any weights.
    """

    def register(cls: _Class) -> _Class:
        _KINDS[kind] = cls
        return cls

    return register


def save(model: nn.Module, directory: str | os.PathLike[str]) -> Path:
    """Save a layer, a zoo model or a task network to a new directory, or over an earlier save.

    Example:
        >>> path = save(NAC(8, 2), tmp / "layer")
        >>> sorted(p.suffix for p in path.iterdir())
        ['.json', '.safetensors']
    """
    from safetensors.torch import save as to_bytes  # keeps `import nacre` light

    kinds = [kind for kind, cls in _KINDS.items() if type(model) is cls]
    if not kinds:
        raise TypeError(f"cannot save a {type(model).__name__}; nacre saves {', '.join(sorted(_KINDS))}")
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    weights = to_bytes({name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()})
    digest = hashlib.sha256(weights).hexdigest()
    name = f"weights-{digest[:16]}.safetensors"
    header = {
        "format": FORMAT,
        "nacre": __version__,
        "torch": torch.__version__,
        "kind": kinds[0],
        "weights": name,
        "sha256": digest,
        "config": _KINDS[kinds[0]].to_config(model),
    }
    write_atomic(directory / name, weights)
    write_atomic(directory / _HEADER, json.dumps(header, indent=1).encode())
    for old in directory.iterdir():
        if _WEIGHTS.fullmatch(old.name) and old.name != name:
            old.unlink()
    return directory


def load(directory: str | os.PathLike[str]) -> nn.Module:
    """Load what `save` wrote, onto the CPU and, like any new module, in training mode.

    Raises:
        FileNotFoundError: If the directory holds no saved model.
        ValueError: If the files are damaged, or were written by a newer version.
    """
    from safetensors.torch import load as from_bytes

    directory = Path(directory)
    header = _header(directory)
    path = directory / header["weights"]
    if not path.is_file():
        raise ValueError(f"{path} is missing; the saved model is incomplete, copy the whole directory again")
    weights = path.read_bytes()
    if hashlib.sha256(weights).hexdigest() != header["sha256"]:
        raise ValueError(f"{path} is damaged ({len(weights)} bytes, checksum differs); copy it again")
    try:
        tensors = from_bytes(weights)
        model = _KINDS[header["kind"]].from_config(header["config"])
        model.load_state_dict(tensors, assign=True)  # assign: keep the saved dtypes
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{directory / _HEADER} does not describe its weights: {error}") from error
    return model


def _header(directory: Path) -> dict[str, Any]:
    path = directory / _HEADER
    if not path.is_file():
        raise FileNotFoundError(f"no saved model in {directory}: {_HEADER} is missing")
    try:
        header = json.loads(path.read_bytes())
        version, kind = header["format"], header["kind"]
        weights, _, _ = header["weights"], header["sha256"], header["config"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from None
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version!r}, this nacre {__version__} reads format {FORMAT}; "
            f"it was written by nacre {header.get('nacre')}, use that version or a newer one"
        )
    if kind not in _KINDS:
        raise ValueError(f"{path} holds a {kind!r}; this nacre {__version__} knows {', '.join(sorted(_KINDS))}")
    if not isinstance(weights, str) or not _WEIGHTS.fullmatch(weights):
        raise ValueError(f"{path} names {weights!r} as its weights, which is no file name that nacre writes")
    return header
