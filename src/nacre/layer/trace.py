"""`Trace`: every gate and neuron of one forward pass, and the hooks that see them."""

from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from nacre.layer.backbone import NeuronStates
from nacre.layer.inputs import Packing
from nacre.layer.pairs import Gates
from nacre.wiring.wiring import Wiring

BACKBONE = ("inter", "command", "motor")
MOTORS = ("phi", "omega", "effect")
"""Gates of the motor neurons, in their order; the last one only with inhibition."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Every gate and neuron of a forward pass; 0 at padded queries and in columns without a key.

    Of pairs, [B, H, T, K]: content target `phi`, decay rate `omega`, internal time `t` (None without a time gate),
    `match`, which the match synapses add to phi, or at which logits start (None without them), `logits`, attention
    `weights` before dropout, `effect`, a factor of the value (None without inhibition), the key's position
    `index`, and `valid`, the columns that hold a key.
    States of neurons, [B, H, T, K, n]: `clock` (cosines, then sines; None without them), `inter`, `command` (those
    that acted on the motor neurons, from the last settle step but one), `motor` (of phi, omega and effect).
    Sensory states, [B, H, T or S, D]: `query`, `key`, `value`. Neuron i of a backbone's group is
    `wiring.group(name)[i]`.
    """

    phi: Tensor
    omega: Tensor
    t: Tensor | None
    match: Tensor | None
    logits: Tensor
    weights: Tensor
    effect: Tensor | None
    index: Tensor
    valid: Tensor
    clock: Tensor | None
    inter: Tensor
    command: Tensor
    motor: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    wiring: Wiring


@dataclass(frozen=True)
class Scene:
    """What a layer knows of a call before it looks at pairs."""

    queries: Packing  # rows of the queries that `Observer.see` gets; padding is left out
    index: Tensor  # [B, H, T, K] positions of the keys
    valid: Tensor  # [B, H, T, K] columns that hold a key
    query: Tensor  # [B, H, T, D] sensory states
    key: Tensor  # [B, H, S, D]
    value: Tensor  # [B, H, S, D]
    stamps: Tensor | None  # [B, T] float64 time stamps of the queries
    wiring: Wiring  # of the backbone

    def require_own_steps(self) -> None:
        """Refuse cross attention, for observers that need queries and keys to be the same steps."""
        queries, keys = self.query.shape[2], self.key.shape[2]
        if queries != keys:
            raise ValueError(
                f"layer must attend to its own steps, got {queries} queries and {keys} keys; "
                "this analysis does not know cross attention"
            )


class Observer(Protocol):
    """A hook that sees what a layer computes."""

    def begin(self, scene: Scene) -> None:
        """A call has begun."""

    def see(self, rows: slice, gates: Gates, neurons: NeuronStates) -> None:
        """Some query rows are done, in ascending order: see `nacre.layer.pairs.Watch`."""


class TraceBuilder:
    """An observer that keeps everything, for `return_trace`, and calls another one (`also`) too."""

    def __init__(self, also: Observer | None = None) -> None:
        self._also = also
        self._scene: Scene | None = None
        self._seen: list[tuple[Gates, dict[str, Tensor]]] = []

    def begin(self, scene: Scene) -> None:
        """Forget the call before."""
        self._scene = scene
        self._seen = []
        if self._also is not None:
            self._also.begin(scene)

    def see(self, rows: slice, gates: Gates, neurons: NeuronStates) -> None:
        """Keep gates and neurons."""
        assert self._scene is not None
        self._seen.append((gates, states_by_group(neurons, self._scene.wiring, gates.phi)))
        if self._also is not None:
            self._also.see(rows, gates, neurons)

    def trace(self) -> Trace:
        """The trace of the call."""
        scene = self._scene
        assert scene is not None
        batch, heads, length, _ = scene.index.shape
        valid = scene.valid
        if (kept := scene.queries.rows) is not None:  # padded queries were left out
            on = torch.zeros(batch * length, dtype=torch.bool, device=valid.device).index_fill(0, kept, True)
            valid = valid & on.view(batch, 1, length, 1)

        def unfold(parts: list[Tensor]) -> Tensor:
            """[H, C, K, ...] of the chunks -> [B, H, T, K, ...] with zeros in columns without a key."""
            x = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
            if kept is not None:
                x = x.new_zeros(heads, batch * length, *x.shape[2:]).index_copy(1, kept, x)
            x = x.unflatten(1, (batch, length)).transpose(0, 1)
            return x.masked_fill(~valid.view(*valid.shape, *[1] * (x.dim() - valid.dim())), 0)

        def gate(name: str) -> Tensor | None:
            parts = [getattr(gates, name) for gates, _ in self._seen]
            return None if parts[0] is None else unfold(parts)

        gates = {f.name: gate(f.name) for f in fields(Gates)}
        groups = {name: unfold([states[name] for _, states in self._seen]) for name in BACKBONE}
        sensory = {"query": scene.query, "key": scene.key, "value": scene.value}
        index = scene.index.masked_fill(~valid, 0)
        return Trace(**gates, **groups, **sensory, index=index, valid=valid, wiring=scene.wiring)  # pyright: ignore[reportArgumentType]


def states_by_group(neurons: NeuronStates, wiring: Wiring, gate: Tensor) -> dict[str, Tensor]:
    """States of the groups of a backbone, [H, C, K, n] each; zero for neurons that the layer does not compute.

    Takes the backbone's wiring, and any gate [H, C, K] of the same pairs.
    """
    heads, rows, columns = gate.shape
    states = gate.new_zeros(heads, rows * columns, wiring.num_neurons)
    for ids, state in neurons.items():
        states[..., list(ids)] = state.to(states.dtype)
    return {g: states[..., list(wiring.group(g))].unflatten(1, (rows, columns)) for g in BACKBONE}
