"""A few sequences of a data set, kept on disk beside a trained network, so that it can be looked into."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nacre._util.files import write_atomic
from nacre._util.text import json_text
from nacre.data.dataset import Dataset, Kind
from nacre.data.missing import Missing
from nacre.data.splits import spread

_TENSORS = ("values", "time", "start", "length", "y", "group", "query_only")
_WORDS = ("name", "kind", "groups", "features", "classes", "targets", "target_column", "one_hot", "static")
_WORDS += ("missing", "guess", "window", "time_unit", "form")


def examples_of(data: Dataset, index: Tensor, most: int) -> Dataset | None:
    """So many of these sequences, as a data set of their own; None of images, which are large."""
    if data.has_images:
        return None
    index = spread(index, most)
    length = data.length[index]
    row = torch.cat(
        [torch.arange(a, a + b) for a, b in zip(data.start[index].tolist(), length.tolist(), strict=True)]
    )
    return replace(
        data,
        values=data.values[row],
        time=data.time[row],
        start=length.cumsum(0) - length,
        length=length,
        y=data.y[row if data.kind.each_step else index],
        group=torch.arange(len(index)),
        groups=tuple(data.groups[number] for number in data.group[index].tolist()),
        query_only=None if data.query_only is None else data.query_only[row],
        part=None,
        test=None,
        transfer=None,
        metrics=None,
        before=None,
        files={},
        notes=(),
    )


def write_examples(directory: Path, data: Dataset) -> None:
    """Write a small data set into a directory."""
    from safetensors.torch import save as to_bytes

    tensors = {name: t.contiguous() for name in _TENSORS if (t := getattr(data, name)) is not None}
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / "examples.safetensors", to_bytes(tensors))
    write_atomic(directory / "examples.json", json_text({n: getattr(data, n) for n in _WORDS}).encode())


def read_examples(directory: Path) -> Dataset | None:
    """What `write_examples` wrote; None if nothing is there.

    Raises:
        ValueError: If it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = directory / "examples.json"
    if not path.is_file():
        return None
    try:
        words = json.loads(path.read_bytes())
        tensors = load((directory / "examples.safetensors").read_bytes())
        known = {field.name for field in fields(Dataset)}
        if not (words.keys() <= {*_WORDS} <= known and tensors.keys() <= {*_TENSORS}):
            raise ValueError("it names parts that a data set does not have")
        words = {key: tuple(value) if isinstance(value, list) else value for key, value in words.items()}
        parts: dict[str, Any] = {**words, "kind": Kind(words["kind"]), "missing": Missing(words["missing"])}
        data = Dataset(**tensors, **parts)
        stop = data.start + data.length
        if bool((data.start < 0).any() | (data.length < 1).any() | (stop > len(data.values)).any()):
            raise ValueError("its sequences lie outside of its rows")
    except (ValueError, TypeError, KeyError, OSError, SafetensorError, RuntimeError) as error:
        raise ValueError(f"{directory} is damaged: {error}; delete it to do without examples") from None
    return data
