"""Saving and loading: safetensors for weights, JSON for everything else, no pickle.

A saved model is a directory with `model.json` and the weights file it names. The weights are written first, and
`model.json` is replaced last: a directory always holds one complete model, the old one or the new.

Files may come from anywhere. `load` therefore makes the module within a budget that follows from the number of
weights, and reads these only if their names, shapes and types are those of the module.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nacre._util.budget import at_most
from nacre._util.files import read_object, write_atomic
from nacre._util.foreign_code import UntrustedCode, names_from_a_file, trusting
from nacre._util.tensors import EXTRA_STATE, compare, first_nonfinite, has_fractions, type_of
from nacre._version import __version__

FORMAT = 1
_HEADER = "model.json"
_WEIGHTS = re.compile(r"weights-[0-9a-f]{16}\.safetensors")
_FIELDS = {"format": int, "kind": str, "weights": str, "sha256": str, "config": dict}

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

    kind = _kind_of(model)
    state = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    weights = to_bytes(state)
    digest = hashlib.sha256(weights).hexdigest()
    name = f"weights-{digest[:16]}.safetensors"
    header = {
        "format": FORMAT,
        "nacre": __version__,
        "torch": torch.__version__,
        "kind": kind,
        "weights": name,
        "sha256": digest,
        "config": _KINDS[kind].to_config(model),
    }
    types = {name: type_of(t) for name, t in state.items() if has_fractions(t)}
    if len(set(types.values())) > 1:  # otherwise `load` expects one type
        header["types"] = types
    text = json.dumps(header, indent=1).encode()
    directory = Path(directory)
    _check_length(directory / _HEADER, len(text), len(weights))
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / name, weights)
    write_atomic(directory / _HEADER, text)
    for old in directory.iterdir():
        if _WEIGHTS.fullmatch(old.name) and old.name != name:
            old.unlink()
    return directory


def _kind_of(model: nn.Module) -> str:
    for kind, cls in _KINDS.items():
        if type(model) is cls:
            return kind
    name = type(model).__name__
    for part in ("module", "_orig_mod"):  # of DataParallel and its like, and of torch.compile
        if type(getattr(model, part, None)) in _KINDS.values():
            raise TypeError(f"cannot save a {name}; save what it wraps: nacre.save(model.{part}, ...)")
    raise TypeError(
        f"cannot save a {name}: nacre.save knows {', '.join(sorted(_KINDS))}, and no classes derived from them; "
        "save the tensors of model.state_dict() with safetensors or torch.save, or mark the class with "
        "@nacre.io.saveable"
    )


def load(
    directory: str | os.PathLike[str], *, allow_nonfinite: bool = False, trust: Sequence[str] = ()
) -> nn.Module:
    """Load what `save` wrote, onto the CPU, in the types it was saved in and in evaluation mode.

    To train it further, call `.train()` on it. No random numbers are drawn.

    Args:
        directory: What `save` wrote, or the directory of a run, whose network is loaded.
        allow_nonfinite: Whether to accept weights that are NaN or infinite.
        trust: Packages whose code may be imported, where the network was trained around a model of theirs. Models
            of nacre, and those that installed packages offer as entry points, need none.

    Raises:
        OSError: If there is no saved model (`FileNotFoundError`), or a file cannot be read.
        ValueError: If the files are damaged, contradict each other, or were written by a newer version. Nothing
            much larger than the files is made before that is known.

    Example:
        >>> path = save(NAC(8, 2), tmp / "layer")
        >>> load(path).training
        False
    """
    from safetensors import safe_open

    directory = _find(Path(directory))
    header = _read_header(directory)
    path = directory / header["weights"]
    if not path.is_file():
        raise ValueError(f"{path} is missing; the saved model is incomplete, copy the whole directory again")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != header["sha256"]:
        raise ValueError(f"{path} is damaged ({path.stat().st_size:,} bytes, checksum differs); copy it again")
    with _as_value_error(f"{path} is damaged, it holds no tensors"):
        file = safe_open(path, "pt")
    with file, trusting(trust), _as_value_error(f"{directory / _HEADER} does not describe its weights"):
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  mapped, not read
        model = _module(header, tensors)
        model.load_state_dict({name: t.clone() for name, t in tensors.items()}, assign=True)
    if not allow_nonfinite and (name := first_nonfinite(model.state_dict())):
        raise ValueError(
            f"{path} has numbers in {name} that are not finite: training may have diverged; "
            "nacre.load(..., allow_nonfinite=True) takes them"
        )
    return model.eval()


def _find(directory: Path) -> Path:
    """The directory with the header: this one, or `model` in it."""
    for place in (directory, directory / "model"):
        if (place / _HEADER).is_file():
            return place
    if not directory.exists():
        raise FileNotFoundError(f"{directory} does not exist")
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is a file; nacre.load wants the directory that nacre.save wrote")
    if (directory / "result.json").is_file():
        raise FileNotFoundError(f"{directory} is a run without a model: controls have none to load")
    raise FileNotFoundError(
        f"no saved model in {directory}: neither {_HEADER} nor, as in a run, model/{_HEADER} is there"
    )


def _read_header(directory: Path) -> dict[str, Any]:
    path = directory / _HEADER
    weights = sum(p.stat().st_size for p in directory.glob("weights-*.safetensors"))
    _check_length(path, path.stat().st_size, weights)
    header = read_object(path)
    if missing := [name for name in _FIELDS if name not in header]:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(missing)}")
    if header["format"] != FORMAT:
        raise ValueError(
            f"{path} has format {header['format']!r}, this nacre {__version__} reads format {FORMAT}; "
            f"it was written by nacre {header.get('nacre')}, use that version or a newer one"
        )
    for name, wanted in _FIELDS.items():
        if type(header[name]) is not wanted:
            raise ValueError(f"{path} is damaged: {name} must be a {wanted.__name__}, got {header[name]!r:.100}")
    if header["kind"] not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        raise ValueError(f"{path} holds a {header['kind']!r}; this nacre {__version__} knows {known}")
    if not _WEIGHTS.fullmatch(header["weights"]):
        raise ValueError(f"{path} names {header['weights']!r} as its weights, which is no file name of nacre's")
    return header


def _check_length(path: Path, header: int, weights: int) -> None:
    # A wiring is written as a letter for each possible synapse, of which a twentieth have weights of a few bytes.
    if header > 2**24 + 16 * weights:
        raise ValueError(f"{path} has {header:,} bytes, too many to describe weights of {weights:,} bytes")


def _module(header: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    """The module that a header describes, if these tensors fit it; its own weights are arbitrary.

    Fingerprints that old files lack are added to the tensors, and old names are replaced.
    """
    # Far above what a module with these tensors takes while it is made, and far below gigabytes beside small ones.
    limit = 2**18 + 8 * sum(t.numel() for t in tensors.values()) + 5000 * len(tensors)
    with at_most(limit), torch.random.fork_rng(devices=[]), names_from_a_file():
        model = _KINDS[header["kind"]].from_config(header["config"])
    expected = model.state_dict()
    if not any(name.endswith(EXTRA_STATE) for name in tensors):
        tensors |= {name: t for name, t in expected.items() if name.endswith(EXTRA_STATE)}
    types = header.get("types")
    for name, module in model.named_modules():
        if rename := getattr(module, "rename_old_weights", None):
            for named in (tensors, types or {}):
                rename(named, f"{name}." if name else "")
    compare(expected, tensors, types)
    types = {t.dtype for t in tensors.values() if has_fractions(t)}
    return model.to(types.pop()) if len(types) == 1 else model  # with the constants, which are not saved


@contextmanager
def _as_value_error(message: str) -> Iterator[None]:
    """What a constructor, or a reader, raises because of what a file says."""
    try:
        yield
    except (OSError, UntrustedCode):
        raise
    except Exception as error:
        text = error if isinstance(error, TypeError | ValueError | RuntimeError) else repr(error)
        raise ValueError(f"{message}: {text}") from error
