"""What happened inside one forward pass of a NAC layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from nacre.pairs import Gates
    from nacre.wiring import Wiring


@dataclass(frozen=True, eq=False)
class Trace:
    """Every gate and neuron of a forward pass; entries of columns without a key are 0.

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


def build_trace(
    gates: Gates,
    neurons: Mapping[tuple[int, ...], Tensor],
    index: Tensor,
    valid: Tensor,
    qkv: Sequence[Tensor],
    wiring: Wiring,
) -> Trace:
    """Bring what the pair stage computed into the trace's shapes.

    Args:
        gates: Of all pairs.
        neurons: Their last states: ids of a set of neurons -> [H, B * T * K or 1, ids].
        index: [B, H, T, K].
        valid: [B, H, T, K].
        qkv: Sensory states of queries, keys and values, [B, H, T or S, D].
        wiring: The backbone's.
    """
    batch, heads, length, columns = index.shape
    rows = batch * length

    def unfold(x: Tensor) -> Tensor:
        """[H, R, K, ...] -> [B, H, T, K, ...] with zeros in columns without a key."""
        x = x.unflatten(1, (batch, length)).transpose(0, 1)
        return x.masked_fill(~valid.view(*valid.shape, *[1] * (x.dim() - valid.dim())), 0)

    states = gates.phi.new_zeros(heads, rows * columns, wiring.num_neurons)
    for ids, state in neurons.items():
        states[..., list(ids)] = state.to(states.dtype)
    inter, command, motor = (
        unfold(states[..., list(wiring.group(g))].unflatten(1, (rows, columns)))
        for g in ("inter", "command", "motor")
    )
    return Trace(
        phi=unfold(gates.phi),
        omega=unfold(gates.omega),
        t=None if gates.t is None else unfold(gates.t),
        match=None if gates.match is None else unfold(gates.match),
        logits=unfold(gates.logits),
        weights=unfold(gates.weights),
        index=index,
        valid=valid,
        inter=inter,
        command=command,
        motor=motor,
        query=qkv[0],
        key=qkv[1],
        value=qkv[2],
        wiring=wiring,
    )
