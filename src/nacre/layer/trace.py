"""What happened inside one forward pass of a NAC layer."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from nacre.layer.packing import Packing
from nacre.layer.pairs import Gates
from nacre.wiring.wiring import Wiring

BACKBONE = ("inter", "command", "motor")


@dataclass(frozen=True, eq=False)
class Trace:
    """Every gate and neuron of a forward pass; entries of padded queries and of columns without a key are 0.

    Attributes:
        phi: [B, H, T, K] content targets.
        omega: [B, H, T, K] decay rates.
        t: [B, H, T, K] internal times, or None where the layer has no time gate.
        match: [B, H, T, K] what the match synapses add to phi, or None where the layer has none.
        logits: [B, H, T, K].
        weights: [B, H, T, K] attention weights before dropout; they sum to 1 over the valid columns.
        index: [B, H, T, K] positions of the keys.
        valid: [B, H, T, K] bool, columns that hold a key.
        inter: [B, H, T, K, n] states of the inter neurons.
        command: [B, H, T, K, n] states of the command neurons: those that acted on the motor neurons, from the
            last settle step but one.
        motor: [B, H, T, K, 2] states of the motor neurons of phi and omega.
        query: [B, H, T, D] sensory states of the queries.
        key: [B, H, S, D] of the keys.
        value: [B, H, S, D] of the values.
        wiring: The backbone's wiring; neuron i of a group above is `wiring.group(name)[i]`.
    """

    phi: Tensor
    omega: Tensor
    t: Tensor | None
    match: Tensor | None
    logits: Tensor
    weights: Tensor
    index: Tensor
    valid: Tensor
    inter: Tensor
    command: Tensor
    motor: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    wiring: Wiring


@dataclass(frozen=True)
class Scene:
    """What a layer knows of a call before it looks at pairs.

    Attributes:
        queries: Where the query rows lie that `Observer.see` tells of; padding is none of them.
        index: [B, H, T, K] positions of the keys.
        valid: [B, H, T, K] columns that hold a key.
        query: [B, H, T, D] sensory states.
        key: [B, H, S, D].
        value: [B, H, S, D].
        stamps: [B, T] float64 time stamps of the queries; None where there are none.
        wiring: The backbone's.
    """

    queries: Packing
    index: Tensor
    valid: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    stamps: Tensor | None
    wiring: Wiring


class Observer(Protocol):
    """Looks on while a layer attends."""

    def begin(self, scene: Scene) -> None:
        """A call has begun."""
        ...

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        """What some of its query rows came to, in ascending order: see `nacre.layer.pairs.Watch`."""
        ...


class TraceBuilder:
    """An observer that keeps everything, for `return_trace`.

    Args:
        also: Another one that is told, too.
    """

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

    def see(self, rows: slice, gates: Gates, neurons: Mapping[tuple[int, ...], Tensor]) -> None:
        """Keep what is told."""
        assert self._scene is not None
        self._seen.append((gates, states_by_group(neurons, self._scene.wiring, gates.phi)))
        if self._also is not None:
            self._also.see(rows, gates, neurons)

    def trace(self) -> Trace:
        """All of the call."""
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


def states_by_group(neurons: Mapping[tuple[int, ...], Tensor], wiring: Wiring, gate: Tensor) -> dict[str, Tensor]:
    """States of the backbone's groups, [H, C, K, n] each; zero for neurons that the layer does not compute.

    Args:
        neurons: Sets of ids -> [H, C * K or 1, ids].
        wiring: The backbone's.
        gate: Any gate of the same pairs, [H, C, K].
    """
    heads, rows, columns = gate.shape
    states = gate.new_zeros(heads, rows * columns, wiring.num_neurons)
    for ids, state in neurons.items():
        states[..., list(ids)] = state.to(states.dtype)
    return {g: states[..., list(wiring.group(g))].unflatten(1, (rows, columns)) for g in BACKBONE}
