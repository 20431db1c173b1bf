"""`LayerWriter`: an observer that writes what a layer does to disk, chunk by chunk."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import numpy as np
import torch
import zarr
from numpy.typing import NDArray
from torch import Tensor

from nacre.inspect.recording.arrays import BlockWriter, new_array, write_levels
from nacre.layer.attention import NAC
from nacre.layer.clock import clock_scales
from nacre.layer.config import Match
from nacre.layer.pairs import Gates
from nacre.layer.trace import BACKBONE, Scene, states_by_group

SENSORY = ("query", "key", "value")
PAIR_GATES = ("phi", "omega", "t", "match", "effect", "logits", "weights")
OF_CIRCUIT = ("clock", *BACKBONE)  # groups that have a state for each pair; some layers have no clock
_OF_PAIRS = (*PAIR_GATES, *OF_CIRCUIT, "index")
CURVES = ("states", "gates")  # arrays that are means over the attended keys, and have levels


class Detail(StrEnum):
    """What is kept of the neurons."""

    PAIRS = "pairs"  # states of every pair of a step and one of its keys, and means
    MEANS = "means"  # means over the keys of a step, by attention weight


class LayerWriter:
    """Writes one call of one layer.

    Arrays have samples and steps first: gates of pairs [B, T, H, K], states of pairs [B, T, H, K, n], sensory
    states [B, T, H, D], and two means over the attended keys by attention weight: `states` [B, T, H, all neurons]
    and `gates` [B, T, H, gates and the effective number of keys].

    Attributes:
        first: Sample that the first row of the next batch is.
    """

    def __init__(self, group: zarr.Group, layer: NAC, dtype: str, detail: Detail, samples: int) -> None:
        self.layer, self.first = layer, 0
        self._group, self._dtype, self._detail, self._samples = group, dtype, detail, samples
        self._arrays: dict[str, BlockWriter] = {}
        self._scene: Scene | None = None
        self._length = [0] * samples
        self._steps = self._columns = 0

    def begin(self, scene: Scene) -> None:
        """Write the sensory states."""
        self._scene = scene
        if self.first + len(scene.query) > self._samples:
            raise ValueError(
                f"model must hand its batch to its NAC layers as it is, got {len(scene.query)} rows for "
                f"{self._samples - self.first} samples; record the layer by itself"
            )
        if "states" not in self._arrays:
            self.describe(scene.query.shape[2], scene.index.shape[3])
        for sample in range(len(scene.query)):
            sensory = {name: getattr(scene, name)[sample].transpose(0, 1) for name in SENSORY}
            self.put_sensory(self.first + sample, 0, sensory)

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        """Write gates and states of some rows."""
        scene = self._scene
        assert scene is not None
        states = states_by_group(neurons, scene.wiring, gates.phi)
        for sample, step, some in _runs(scene, rows):
            steps = slice(step, step + some.stop - some.start)
            of_pairs = {name: getattr(gates, name) for name in (*PAIR_GATES, "clock")} | states  # [H, C, K, ...]
            part = {name: x[:, some].transpose(0, 1) for name, x in of_pairs.items() if x is not None}
            part |= {name: getattr(scene, name)[sample, :, steps].transpose(0, 1) for name in ("index", "valid")}
            part["query"] = scene.query[sample, :, steps].transpose(0, 1)
            for name in ("key", "value"):
                part[name] = _of_step(scene, name, sample, steps, part)
            if scene.stamps is not None:
                part["time"] = scene.stamps[sample, steps]
            self.put(self.first + sample, step, part)

    def put_sensory(self, sample: int, step: int, part: dict[str, Tensor]) -> None:
        """Write sensory states [n, H, D] of a sample, from a step on."""
        for name in SENSORY:
            self._put(name, sample, step, part[name])

    def put(self, sample: int, step: int, part: dict[str, Tensor]) -> None:
        """Write steps of a sample, from one on.

        `part` has gates, index and valid [n, H, K], states [n, H, K, g] and sensory states [n, H, D].
        """
        valid = part["valid"]
        part = {name: _blank(x, valid) if name in _OF_PAIRS else x for name, x in part.items()}
        if (missing := self._columns - valid.shape[2]) > 0:  # all pairs of a sample that is shorter than others
            part = {name: _widen(x, missing) if name in (*_OF_PAIRS, "valid") else x for name, x in part.items()}
            valid = part["valid"]
        weights = part["weights"]

        def mean(x: Tensor) -> Tensor:
            return (weights.unsqueeze(-1) * x).sum(2)

        everything = [part[name] for name in SENSORY]
        everything += [mean(part[name]) for name in OF_CIRCUIT if name in part]
        self._put("states", sample, step, torch.cat([x.to(weights.dtype) for x in everything], -1))
        self._put("gates", sample, step, gate_means(self.gate_names, part, valid))
        for name in (*PAIR_GATES, "index", "valid", "time", *(OF_CIRCUIT if self._detail is Detail.PAIRS else ())):
            if name in part:
                self._put(name, sample, step, part[name])
        self._length[sample] = max(self._length[sample], step + len(valid))

    @property
    def gate_names(self) -> list[str]:
        """Names of the columns of `gates`."""
        layer = self.layer
        has_effect = layer.config.inhibition
        there = {"t": layer.time_gate is not None, "match": layer.match is not None, "effect": has_effect}
        return [g for g in PAIR_GATES if there.get(g, True) and g != "weights"] + ["keys"]

    def describe(self, steps: int, keys: int) -> None:
        """Write the attributes; comes before all arrays.

        `steps` is the length of the longest sample. A layer without `top_k` has `keys` columns K.
        """
        layer = self.layer
        self._steps = steps
        self._columns = keys if layer.config.top_k is None else layer.config.top_k
        self._group.attrs.update(
            {
                "heads": layer.config.num_heads,
                "width": layer.config.d_head,
                "neurons": [len(layer.backbone.wiring.group(g)) for g in BACKBONE],
                "clock": clock_scales(layer.config.clock),
                "time_scale": layer.config.time_scale,
                "starts": layer.config.match == Match.START,
                "gates": self.gate_names,
                "activation": layer.config.activation,
                "shared": layer.config.share_backbone,
                "wiring": layer.backbone.wiring.to_dict(),
            }
        )

    def finish(self) -> None:
        """Flush all arrays, and write the summaries of curves."""
        for writer in self._arrays.values():
            writer.flush()
        self._group.attrs["length"] = self._length
        for name in CURVES:
            write_levels(self._group, name, self._length, heads=2)

    def _put(self, name: str, sample: int, step: int, rows: Tensor) -> None:
        dtype = {"index": "int32", "valid": "bool", "time": "float64"}.get(name, self._dtype)
        values: NDArray = rows.detach().to("cpu", getattr(torch, dtype)).numpy()
        if name not in self._arrays:
            steps = max(self._steps, len(values)) if name in SENSORY else self._steps
            shape = (self._samples, steps, *values.shape[1:])
            apart = 2 if name in CURVES else None  # figures show one head
            self._arrays[name] = BlockWriter(new_array(self._group, name, shape, np.dtype(dtype).name, apart))
        self._arrays[name].put(sample, step, values)


def gate_means(names: Sequence[str], gates: Mapping[str, Tensor], valid: Tensor) -> Tensor:
    """Means over keys by attention weight, and the effective number of "keys": [..., K] each -> [..., names].

    `gates` has values by name, `weights` among them, which are zero where no key is `valid`.
    """
    weights = gates["weights"]
    keys = torch.special.entr(weights.double()).sum(-1).exp() * valid.any(-1)
    columns = [keys.to(weights.dtype) if name == "keys" else (weights * gates[name]).sum(-1) for name in names]
    return torch.stack(columns, -1)


def _runs(scene: Scene, rows: slice) -> Iterator[tuple[int, int, slice]]:
    """Consecutive rows of one sequence: the sequence, the first step, and the slice of the rows."""
    length, flat = scene.queries.length, scene.queries.places(rows)
    breaks = ((flat.diff() != 1) | (flat[1:] % length == 0)).nonzero().squeeze(1) + 1
    for start, stop in itertools.pairwise([0, *breaks.tolist(), len(flat)]):
        sample, step = divmod(int(flat[start]), length)
        yield sample, step, slice(start, stop)


def _of_step(scene: Scene, name: str, sample: int, steps: slice, part: dict[str, Tensor]) -> Tensor:
    """Sensory states of steps as keys or values [n, H, D]; in cross attention the mean of those attended."""
    table = getattr(scene, name)[sample]  # [H, S, D]
    if table.shape[1] == scene.query.shape[2]:
        return table[:, steps].transpose(0, 1)
    index, valid = part["index"], part["valid"]
    weights = part["weights"].masked_fill(~valid, 0).to(table.dtype)
    heads = torch.arange(len(table)).view(1, -1, 1)
    return (weights.unsqueeze(-1) * table[heads, index.masked_fill(~valid, 0)]).sum(2)


def _blank(x: Tensor, valid: Tensor) -> Tensor:
    """Zeros in columns without a key."""
    return x.masked_fill(~valid.view(*valid.shape, *[1] * (x.dim() - valid.dim())), 0)


def _widen(x: Tensor, columns: int) -> Tensor:
    """Append columns of zeros to [n, H, K, ...]."""
    return torch.cat([x, x.new_zeros(*x.shape[:2], columns, *x.shape[3:])], 2)
