"""From selected query-key pairs to attended values in PyTorch.

Rows of all sequences of a batch are concatenated (R = B * T query rows, B * S key rows), heads first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nacre._util.tracing import inside_torch_func
from nacre.layer.backbone import NeuronStates, WiredBackbone
from nacre.layer.clock import clock_states
from nacre.layer.config import Match, NACConfig, Phi
from nacre.layer.dynamics import LONGEST, solve_logits, time_gate, wide

CHUNK_NUMBERS = 2**21  # of a chunk of pairs: 8 MB in float32, about what a core's caches hold

PHI: dict[str, Callable[[Tensor], Tensor]] = {
    Phi.SIGMOID: torch.sigmoid,
    Phi.TANH: torch.tanh,
    Phi.LINEAR: lambda x: x,
}


@dataclass(frozen=True)
class Tokens:
    """What the pair stage needs of each token, computed once."""

    query_drive: Tensor  # [H, R, P] projected by the input synapses of the circuit
    key_drive: Tensor  # [H, S, P]
    value: Tensor  # [S, H, D]
    query_gate: Tensor | None  # [H, 2, R] share of t_a and of t_b
    key_gate: Tensor | None  # [H, 2, S]
    query_stamp: Tensor | None  # [R] float64
    key_stamp: Tensor | None  # [S] float64, or [H, S] where heads have their own keys
    query_moment: Tensor | None  # [R] float64, what clock neurons read; None without them
    key_moment: Tensor | None  # [S] or [H, S] float64
    asked: Tensor | None  # [R, H, E] what queries look for, where the layer has match synapses
    offered: Tensor | None  # [S, H, E] what keys offer
    index: Tensor  # [H, R, K] row of each selected key
    valid: Tensor  # [H, R, K]


@dataclass(frozen=True)
class Gates:
    """Results for each pair: all [H, R, K]."""

    phi: Tensor
    omega: Tensor
    t: Tensor | None
    logits: Tensor
    weights: Tensor
    match: Tensor | None
    effect: Tensor | None
    clock: Tensor | None  # [H, R, K, C] states of the clock neurons


# A hook that gets all pairs of some query rows, from the pass that attends and not from a second one: the rows,
# their gates [H, C, K], and the last states of their neurons.
Watch = Callable[[slice, Gates, NeuronStates], None]


def attend_in_torch(
    tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float, watch: Watch | None = None
) -> Tensor:
    """Attended values [R, H, D] in PyTorch, in chunks of queries that are computed again in the backward pass.

    A compiled or exported program takes all rows at once: a loop over chunks would tie it to one length.
    """

    def attend_rows(some: slice) -> Tensor:
        clock = pair_clock(tokens, config, some)
        motor, neurons = settle_rows(tokens, wired, clock, some)
        gates = pair_gates(tokens, motor, clock, config, some)
        if watch is not None:
            watch(some, gates, neurons)
        return mix(shares(gates, config, dropout), tokens.value, tokens.index[:, some])

    if torch.compiler.is_compiling():
        return attend_rows(slice(None))
    spans = query_chunks(tokens.index, len(wired.backbone.projected))
    return _in_turn(attend_rows, spans, dropout, recompute=watch is None)  # a watch sees each row once


def query_chunks(index: Tensor, width: int) -> list[slice]:
    """Query rows of an index [H, R, K] to work on at a time, where each pair takes `width` numbers."""
    heads, rows, columns = index.shape
    size = max(1, CHUNK_NUMBERS // (heads * columns * width))
    return [slice(i, min(i + size, rows)) for i in range(0, rows, size)]


def _in_turn(
    part: Callable[[slice], Tensor], spans: Sequence[slice], dropout: float, *, recompute: bool = True
) -> Tensor:
    """Parts of all spans, joined; several parts are recomputed in the backward pass instead of stored."""
    if len(spans) == 1:
        return part(spans[0])
    if not recompute or not torch.is_grad_enabled() or inside_torch_func():
        return torch.cat([part(some) for some in spans])
    keep = dropout > 0
    return torch.cat([checkpoint(part, x, use_reentrant=False, preserve_rng_state=keep) for x in spans])


def settle_rows(
    tokens: Tokens, wired: WiredBackbone, clock: Tensor | None, rows: slice
) -> tuple[Tensor, NeuronStates]:
    """Motor neurons [2 or 3, H, C, K] of some query rows in PyTorch, and states from `WiredBackbone.settle`."""
    index = tokens.index[:, rows]
    drive = tokens.query_drive[:, rows, None] + take_rows(tokens.key_drive, index)  # [H, C, K, P]
    drive = drive.flatten(1, 2)
    if clock is not None:
        drive = drive + wired.project_clock(clock.flatten(1, 2))
    motor, states = wired.settle(drive)
    return motor.view(*index.shape, motor.shape[-1]).movedim(-1, 0), states


def pair_gates(tokens: Tokens, motor: Tensor, clock: Tensor | None, config: NACConfig, rows: slice) -> Gates:
    """Gates of some query rows from their motor neurons [2 or 3, H, C, K]."""
    elapsed = pair_elapsed(tokens, config, rows, motor.dtype)
    gate, match = pair_time_gates(tokens, rows), pair_match(tokens, rows)
    return solve_gates(motor, gate, elapsed, tokens.valid[:, rows], config, match, clock)


def pair_clock(tokens: Tokens, config: NACConfig, rows: slice) -> Tensor | None:
    """States of the clock neurons of some query rows, [H, C, K, 2 scales]; None where the layer has none."""
    if tokens.query_moment is None or tokens.key_moment is None:
        return None
    elapsed = tokens.query_moment[rows, None] - _stamps(tokens.key_moment, tokens.index[:, rows])
    return clock_states(elapsed, config.clock, tokens.query_drive.dtype)


def pair_time_gates(tokens: Tokens, rows: slice) -> Tensor | None:
    """t_a and t_b of some query rows, [H, 2, C, K]; None where the layer has no time gate."""
    if tokens.query_gate is None or tokens.key_gate is None:
        return None
    index = tokens.index[:, rows]
    flat = index.flatten(1)
    # Not one gather by an expanded index: torch.compile would save that for the backward pass with the strides of
    # the first length it met.
    by_key = torch.stack([part.gather(1, flat) for part in tokens.key_gate.unbind(1)], 1)
    return tokens.query_gate[:, :, rows, None] + by_key.unflatten(2, index.shape[1:])


def pair_match(tokens: Tokens, rows: slice) -> Tensor | None:
    """Match of some query rows with their keys, [H, C, K]; None where the layer has no match synapses."""
    if tokens.asked is None or tokens.offered is None:
        return None
    asked, index = tokens.asked[rows], tokens.index[:, rows]
    selected = take_rows(tokens.offered.transpose(0, 1), index)  # [H, C, K, E]
    return (selected @ asked.transpose(0, 1).unsqueeze(-1)).squeeze(-1)


def pair_elapsed(tokens: Tokens, config: NACConfig, rows: slice, dtype: torch.dtype) -> Tensor | None:
    """Elapsed time of some query rows, [H, C, K]; None without stamps or without a time gate."""
    if tokens.query_gate is None or tokens.query_stamp is None or tokens.key_stamp is None:
        return None
    key_stamp = _stamps(tokens.key_stamp, tokens.index[:, rows])
    return elapsed_time(tokens.query_stamp[rows, None], key_stamp, config, dtype)


def solve_gates(
    motor: Tensor,  # [2 or 3, H, C, K] of phi, of omega, and of the effect where the layer inhibits
    gate: Tensor | None,  # [H, 2, C, K] t_a and t_b; None where the layer has no time gate
    elapsed: Tensor | None,  # [H, C, K] from `elapsed_time`; None: 1
    valid: Tensor,  # [H, C, K] columns that hold a key
    config: NACConfig,
    match: Tensor | None,  # [H, C, K] what the match synapses add to phi, or where logits start
    clock: Tensor | None,  # [H, C, K, 2 scales] states of the clock neurons, to be passed on
) -> Gates:
    """From motor neurons to attention weights."""
    motor = wide(motor)
    phi = PHI[config.phi](motor[0])
    start = match if config.match == Match.START else None
    if match is not None and start is None:
        phi = phi + match
    omega = nn.functional.softplus(motor[1]) + config.omega_min
    t = None
    if gate is not None:
        gate = wide(gate)
        t = time_gate(gate[:, 0], gate[:, 1], 1.0 if elapsed is None else elapsed)
    moment = phi if t is None else t  # steady logits need none
    logits = solve_logits(phi, omega, moment, config.mode, a0=start, euler_steps=config.euler_steps)
    # A finite floor instead of -inf: rows without a key stay finite (the layer zeroes them); in all others the
    # weight is exactly 0 either way.
    weights = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).softmax(-1)
    effect = 1 + motor[2] if config.inhibition else None
    return Gates(phi, omega, t, logits, weights, match, effect, clock)


def shares(gates: Gates, config: NACConfig, dropout: float) -> Tensor:
    """Factors of the values, [H, C, K]: weights after dropout, times t and the effect where the layer has them."""
    share = nn.functional.dropout(gates.weights, dropout)
    share = share * gates.t if config.integrate and gates.t is not None else share
    return share if gates.effect is None else share * gates.effect


def mix(share: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """Sums [C, H, D] of values [S, H, D] at selected rows [H, C, K], weighted with share [H, C, K]."""
    share = share.to(value.dtype)
    selected = take_rows(value.transpose(0, 1), index)  # [H, C, K, D]
    return (share.unsqueeze(-2) @ selected).squeeze(-2).transpose(0, 1)


def elapsed_time(query_stamp: Tensor, key_stamp: Tensor, config: NACConfig, dtype: torch.dtype) -> Tensor:
    """|t_query - t_key| / time_scale, at most `LONGEST`.

    Subtracted in float64, so that large stamps keep their differences. Infinity, which those beyond float32 would
    become, has no place in a gate: its gradient is 0 times infinity.
    """
    difference = (query_stamp - key_stamp).abs() / config.time_scale
    return difference.clamp(max=LONGEST).to(torch.promote_types(dtype, torch.float32))


def _stamps(stamp: Tensor, index: Tensor) -> Tensor:
    """Stamps [S], or [H, S], of selected keys [H, C, K]."""
    return stamp[index] if stamp.dim() == 1 else stamp.gather(1, index.flatten(1)).view(index.shape)


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a [H, S, W] table, each head with its own index [H, ...]: [H, ..., W]."""
    heads, size, width = table.shape
    offset = torch.arange(heads, device=index.device) * size
    flat = (index + offset.view(-1, *[1] * (index.dim() - 1))).flatten()
    return table.reshape(-1, width).index_select(0, flat).view(*index.shape, width)
