"""`Wiring`: neurons and synapses of a circuit, as immutable data.

Shape legend of the whole package: B batch, T queries, S keys, H heads, D head width, K selected keys,
N neurons, I inputs of a circuit.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre.wiring.graph import Liveness, liveness, steps_to_outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = ("sensory", "inter", "command", "motor")
_SIGNS = {-1: "-", 0: ".", 1: "+"}
_VALUES = {sign: value for value, sign in _SIGNS.items()}


@dataclass(frozen=True)
class Wiring:
    """Neurons, their groups and their signed synapses.

    A wiring never changes: its arrays are read-only. Two wirings are equal when their contents are, whatever their
    names.

    Attributes:
        adjacency: [N, N] int8; entry (i, j) is the polarity (-1, 0, +1) of the synapse from neuron i to j.
        input_adjacency: [I, N] int8; the same for synapses from input i to neuron j.
        groups: One of "sensory", "inter", "command", "motor" for each of the N neurons.
        name: Where the wiring comes from; for display only.

    Example:
        >>> wiring = Wiring.from_ncps(ncps.wirings.AutoNCP(20, 2), inputs=8)
        >>> len(wiring.group("motor"))
        2
    """

    adjacency: np.ndarray = field(compare=False)
    input_adjacency: np.ndarray = field(compare=False)
    groups: tuple[str, ...] = field(compare=False)
    name: str = field(default="custom", compare=False)
    _key: tuple[Any, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Freeze the arrays and check that the parts fit together."""
        adjacency = _polarities("adjacency", self.adjacency)
        inputs = _polarities("input_adjacency", self.input_adjacency)
        n = adjacency.shape[0]
        if adjacency.shape != (n, n) or n == 0:
            raise ValueError(f"adjacency must be square with at least one neuron, got shape {adjacency.shape}")
        if inputs.shape[1] != n or inputs.shape[0] == 0:
            raise ValueError(f"input_adjacency must have shape [inputs >= 1, {n}], got {inputs.shape}")
        groups = tuple(self.groups)
        unknown = sorted(set(groups) - set(GROUPS))
        if len(groups) != n or unknown:
            raise ValueError(
                f"groups must name one of {GROUPS} for each of the {n} neurons, got {len(groups)} names"
                + (f", unknown: {unknown}" if unknown else "")
            )
        key = (adjacency.tobytes(), inputs.tobytes(), inputs.shape, groups)
        frozen = {"adjacency": adjacency, "input_adjacency": inputs, "groups": groups, "_key": key}
        for attribute, value in frozen.items():
            object.__setattr__(self, attribute, value)

    def __repr__(self) -> str:
        """One line: name, sizes, synapses."""
        sizes = ", ".join(f"{g} {len(self.group(g))}" for g in GROUPS if self.group(g))
        return f"Wiring({self.name}: {self.num_inputs} inputs, {sizes}, {self.num_synapses} synapses)"

    @property
    def num_inputs(self) -> int:
        """Number of inputs I."""
        return self.input_adjacency.shape[0]

    @property
    def num_neurons(self) -> int:
        """Number of neurons N."""
        return self.adjacency.shape[0]

    @property
    def num_synapses(self) -> int:
        """Number of synapses, those of the inputs included."""
        return int(np.count_nonzero(self.adjacency) + np.count_nonzero(self.input_adjacency))

    def group(self, name: str) -> tuple[int, ...]:
        """Ids of the neurons of one group, ascending; empty if it has none."""
        if name not in GROUPS:
            raise ValueError(f"unknown neuron group {name!r}, choose one of {GROUPS}")
        return tuple(i for i, g in enumerate(self.groups) if g == name)

    def steps_to(self, outputs: tuple[int, ...]) -> int:
        """Settle steps until the input has reached every neuron of `outputs` (1 = fed directly), or ValueError."""
        return steps_to_outputs(self.input_adjacency, self.adjacency, outputs)

    def liveness(self, outputs: tuple[int, ...], steps: int, *, bias: bool = True) -> Liveness:
        """What can influence `outputs` when the circuit settles from rest for `steps` steps."""
        return liveness(self.input_adjacency, self.adjacency, outputs, steps, bias=bias)

    def density(self) -> dict[str, float]:
        """Share of the possible synapses that exist, for every pair of groups that has any.

        The `sparsity` of a generated wiring is nominal; this is the real number.
        """
        result = {}
        for target in GROUPS:
            columns = self.group(target)
            for source in ("input", *GROUPS):
                table = self.input_adjacency if source == "input" else self.adjacency[list(self.group(source))]
                block = table[:, columns]
                if np.count_nonzero(block):
                    result[f"{source}->{target}"] = float(np.count_nonzero(block) / block.size)
        return result

    def degrees(self) -> dict[str, dict[str, float]]:
        """Mean number of incoming and outgoing synapses of a neuron, by group (inputs count as incoming)."""
        incoming = np.count_nonzero(self.adjacency, axis=0) + np.count_nonzero(self.input_adjacency, axis=0)
        outgoing = np.count_nonzero(self.adjacency, axis=1)
        return {
            g: {"in": float(incoming[list(ids)].mean()), "out": float(outgoing[list(ids)].mean())}
            for g in GROUPS
            if (ids := self.group(g))
        }

    def draw(self) -> Figure:
        """Figure of the circuit: four layers, excitatory and inhibitory synapses. Needs matplotlib."""
        from nacre.wiring.drawing import draw  # matplotlib is optional

        return draw(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: one string of `+`, `-` and `.` for each row of the two tables."""
        return {
            "name": self.name,
            "groups": list(self.groups),
            "input_adjacency": _rows(self.input_adjacency),
            "adjacency": _rows(self.adjacency),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Wiring:
        """Inverse of `to_dict`."""
        wanted = {"name", "groups", "input_adjacency", "adjacency"}
        if not isinstance(data, dict) or set(data) != wanted:
            got = sorted(data) if isinstance(data, dict) else type(data).__name__
            raise ValueError(f"a wiring needs exactly the keys {sorted(wanted)}, got {got}")
        return cls(
            adjacency=_table("adjacency", data["adjacency"]),
            input_adjacency=_table("input_adjacency", data["input_adjacency"]),
            groups=tuple(data["groups"]),
            name=str(data["name"]),
        )

    def to_json(self) -> str:
        """The wiring as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Wiring:
        """Inverse of `to_json`."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not a wiring in JSON: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def from_ncps(cls, wiring: Any, inputs: int) -> Wiring:  # noqa: ANN401  ncps has no types
        """Read an `ncps.wirings.Wiring` without changing it; if it is not built yet, a copy is built."""
        if not wiring.is_built():
            # ncps' build() writes into the object; its from_config would draw other synapses.
            wiring = copy.deepcopy(wiring)
            wiring.build(inputs)
        if wiring.input_dim != inputs:
            raise ValueError(
                f"wiring was built for {wiring.input_dim} inputs, but {inputs} are needed here; "
                "build it for that number, or leave it unbuilt"
            )
        return cls(
            adjacency=wiring.adjacency_matrix,
            input_adjacency=wiring.sensory_adjacency_matrix,
            groups=tuple(wiring.get_type_of_neuron(i) for i in range(wiring.units)),
            name=type(wiring).__name__,
        )


def _polarities(name: str, table: Any) -> np.ndarray:  # noqa: ANN401
    values = np.asarray(table)
    if values.ndim != 2 or not np.isin(values, (-1, 0, 1)).all():
        raise ValueError(f"{name} must be a table of -1, 0 and 1, got shape {values.shape}")
    values = values.astype(np.int8)
    values.flags.writeable = False
    return values


def _rows(table: np.ndarray) -> list[str]:
    return ["".join(_SIGNS[int(v)] for v in row) for row in table]


def _table(name: str, rows: Any) -> np.ndarray:  # noqa: ANN401
    try:
        return np.array([[_VALUES[c] for c in row] for row in rows], dtype=np.int8)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name} must be rows of equal length made of '+', '-' and '.'") from None
