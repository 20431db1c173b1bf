"""Seeded damage to saved models: bytes, JSON and tensors."""

import copy
import json
import math
import random
import struct

import torch
from safetensors.torch import save

from support.saved import read_header, read_tensors, weights_of, write_header, write_weights

NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    255,
    2**31,
    2**63,
    2**64 + 1,
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    math.nan,
    math.inf,
]
ODD = [None, True, False, "", "x", "nac", "NAC", "a" * 5000, [], {}, [[]], {"a": 1}, ["NAC"], [1, 2, 3], *NUMBERS]
TYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64]


class Damage:
    """One random change after another to the files of a saved model."""

    def __init__(self, seed, directory):
        self.random = random.Random(seed)
        self.directory = directory
        self.kinds = [self.flip_weights, self.cut_weights, self.flip_text, self.cut_text, self.nest]
        self.kinds += 6 * [self.change_value] + 4 * [self.change_tensor] + [self.drop, self.add, self.swap_values]

    def do(self):
        """Change something, and say what."""
        change = self.random.choice(self.kinds)
        return f"{change.__name__}: {change()}"

    # Bytes.

    def flip_weights(self):
        data = bytearray(weights_of(self.directory).read_bytes())
        start = self.random.choice([0, 0, 8, struct.unpack("<Q", data[:8])[0] + 8])  # length, names, numbers
        return write_weights(self.directory, self._flip(data, start))

    def cut_weights(self):
        data = weights_of(self.directory).read_bytes()
        cut = data[: self.random.randrange(len(data))]
        write_weights(self.directory, self.random.choice([cut, data + bytes(9), data[9:], b"", cut + data]))

    def flip_text(self):
        path = self.directory / "model.json"
        path.write_bytes(self._flip(bytearray(path.read_bytes()), 0))

    def cut_text(self):
        path = self.directory / "model.json"
        data = path.read_bytes()
        a, b = sorted(self.random.choices(range(len(data)), k=2))
        path.write_bytes(self.random.choice([data[:a], data[a:], data[:a] + data[b:], data[:b] + data[a:]]))

    def _flip(self, data, start):
        for _ in range(self.random.choice([1, 1, 2, 8])):
            place = self.random.randrange(min(start, len(data) - 1), len(data))
            data[place] = self.random.choice(
                [data[place] ^ 1 << self.random.randrange(8), self.random.randrange(256)]
            )
        return bytes(data)

    # JSON.

    def _places(self, value, path=()):
        """Paths of all values below one; long lists, such as tables of wirings, in part."""
        if path:
            yield path
        if isinstance(value, dict):
            for key in value:
                yield from self._places(value[key], (*path, key))
        elif isinstance(value, list):
            for i in self.random.sample(range(len(value)), min(3, len(value))):
                yield from self._places(value[i], (*path, i))

    def _place(self):
        """The header, a random dict or list in it, and a key of that."""
        header = read_header(self.directory)
        path = self.random.choice([*self._places(header)])
        inner = header
        for key in path[:-1]:
            inner = inner[key]
        return header, inner, path[-1], path

    def change_value(self):
        header, inner, key, path = self._place()
        old = inner[key]
        near = []
        if isinstance(old, str) and old:
            i = self.random.randrange(len(old))
            near = [old[:i] + self.random.choice("+-.0a") + old[i + 1 :], old[:i], old * 2]
        elif isinstance(old, int | float):
            near = [old + 1, old - 1, 2 * old, -old, float(old), str(old), [old]]
        elif isinstance(old, list) and old:
            near = [old[:-1], old[::-1], old * 2, [*old, old[0]], old[0]]
        inner[key] = self.random.choice(near if near and self.random.random() < 0.5 else ODD)
        write_header(self.directory, header)
        return f"{path} = {inner[key]!r:.60}"

    def nest(self):
        header, inner, key, path = self._place()
        inner[key] = "MARK"
        deep = self.random.choice([100, 900, 2000, 100_000])
        text = json.dumps(header).replace('"MARK"', "[" * deep + "]" * deep)
        (self.directory / "model.json").write_text(text)
        return f"{path} {deep}"

    def drop(self):
        header, inner, key, path = self._place()
        del inner[key]
        write_header(self.directory, header)
        return path

    def add(self):
        header, inner, key, path = self._place()
        value = copy.deepcopy(inner[key])
        if isinstance(inner, dict):
            inner[self.random.choice(["extra", key * 2, "types", "d_model", "wiring", "options"])] = value
        else:
            inner.append(value)
        write_header(self.directory, header)
        return path

    def swap_values(self):
        header, inner, key, path = self._place()
        others = [p for p in self._places(header) if p[: len(path)] != path]
        if others:
            value = header
            for step in self.random.choice(others):
                value = value[step]
            inner[key] = copy.deepcopy(value)
        write_header(self.directory, header)
        return f"{path} = {inner[key]!r:.60}"

    # Tensors.

    def change_tensor(self):
        tensors = read_tensors(self.directory)
        names = [*tensors]
        name, other = self.random.choice(names), self.random.choice(names)
        t = tensors[name]
        change = self.random.choice(
            ["swap", "rename", "drop", "add", "shape", "type", "all types", "spoil", "scale"]
        )
        if change == "swap":
            tensors[name], tensors[other] = tensors[other], t
        elif change in ("rename", "drop"):
            del tensors[name]
            if change == "rename":
                tensors[
                    self.random.choice([name + "x", "", name.upper(), "_extra_state", name + "._extra_state"])
                ] = t
        elif change == "add":
            tensors[self.random.choice(["x", "layer.x", name + ".x", "x._extra_state"])] = t
        elif change == "shape":
            shapes = [t.flatten(), t.unsqueeze(0), t.mT if t.dim() > 1 else t[:0], t.flatten()[:-1], t.sum()]
            tensors[name] = self.random.choice(shapes)
        elif change == "type":
            tensors[name] = t.to(self.random.choice(TYPES))
        elif change == "all types":
            kind = self.random.choice(TYPES)
            tensors = {n: v.to(kind) if v.is_floating_point() else v for n, v in tensors.items()}
        elif t.numel():
            worst = self.random.choice([math.nan, math.inf, 1e300, -1.0])
            tensors[name] = (
                t * 1e30 if change == "scale" else torch.full(t.shape, worst, dtype=torch.float64)
            ).to(t.dtype)
        write_weights(self.directory, save({n: v.clone().contiguous() for n, v in tensors.items()}))
        return f"{change} {name} {other}"
