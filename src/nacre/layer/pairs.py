"""From selected query-key pairs to attended values, in chunks of queries.

Rows of all sequences of a batch are concatenated (R = B * T query rows, B * S key rows), heads first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nacre._util.tracing import inside_torch_func
from nacre.layer.backbone import NeuronStates, WiredBackbone
from nacre.layer.config import NACConfig, Phi
from nacre.layer.dynamics import LONGEST, solve_logits, time_gate, wide
from nacre.native import library
from nacre.native.selected import dot_selected, mix_selected

CHUNK_NUMBERS = 2**21  # of a chunk of pairs: 8 MB in float32, about what a core's caches hold
_SCALARS = 16  # gates, logits and weights of a pair, and intermediate results

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
    key_stamp: Tensor | None  # [S] float64
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

    def rows(self, some: slice) -> Gates:
        """The gates of some rows."""
        return Gates(*(None if x is None else x[:, some] for x in vars(self).values()))  # pyright: ignore[reportArgumentType]


# A hook that gets all pairs of some query rows, from the pass that attends and not from a second one: the rows,
# their gates [H, C, K], and the last states of their neurons.
Watch = Callable[[slice, Gates, NeuronStates], None]


def attend(
    tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float, watch: Watch | None = None
) -> Tensor:
    """Attended values [R, H, D], in chunks of queries so that memory stays flat.

    The compiled kernels settle the circuits of all pairs and store no neuron; only the gates are chunked, and
    recomputed in the backward pass. Without kernels each chunk does all of it. A compiled or exported program
    takes all rows at once: a loop over chunks would tie it to one length. A watch changes no bit of the result.
    """
    heads, rows, columns = tokens.index.shape
    everything = slice(None)

    def attend_rows(some: slice) -> Tensor:
        """Attended values of some query rows in PyTorch."""
        motor, neurons = settle_rows(tokens, wired, some)
        gates = pair_gates(tokens, motor, config, some)
        if watch is not None:
            watch(some, gates, neurons)
        return mix(shares(gates, config, dropout), tokens.value, tokens.index[:, some])

    if torch.compiler.is_compiling():
        return attend_rows(everything)
    motor = None
    if watch is None:
        motor = wired.settle_selected(tokens.query_drive, tokens.key_drive, tokens.index)
    elif (share := _watched_shares(tokens, wired, config, dropout, watch)) is not None:
        return mix(share, tokens.value, tokens.index)
    if motor is None:
        spans = _spans(rows, _chunk_rows(heads, columns, len(wired.backbone.projected)))
        return _in_turn(attend_rows, spans, 0, dropout, recompute=watch is None)  # a watch sees each row once
    # Split, not sliced: the gradient of a slice is as large as the whole.
    chunk = _chunk_rows(heads, columns, _SCALARS)
    gate, match = pair_time_gates(tokens, everything), pair_match(tokens, everything)
    motors = motor.split(chunk, 2)
    gates = [None] * len(motors) if gate is None else gate.split(chunk, 2)
    matches = [None] * len(motors) if match is None else match.split(chunk, 1)

    def share_rows(i: int) -> Tensor:
        some = slice(i * chunk, (i + 1) * chunk)
        elapsed = pair_elapsed(tokens, config, some, motor.dtype)
        # Contiguous: the last bits of PyTorch's functions depend on the memory layout.
        gate, match = (None if x is None else x.contiguous() for x in (gates[i], matches[i]))
        solved = solve_gates(motors[i].contiguous(), gate, elapsed, tokens.valid[:, some], config, match)
        return shares(solved, config, dropout)

    return mix(_in_turn(share_rows, range(len(motors)), 1, dropout), tokens.value, tokens.index)


def _watched_shares(
    tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float, watch: Watch
) -> Tensor | None:
    """Factors of the values, [H, R, K], by the compiled kernel; None where it cannot run."""
    heads, rows, columns = tokens.index.shape
    # The same chunks as in `attend`: the last bits of PyTorch's functions depend on the memory layout.
    spans = _spans(rows, _chunk_rows(heads, columns, _SCALARS))
    size = _chunk_rows(heads, columns, len(wired.backbone.circuit_seen.program.kind))
    parts = []
    for some in spans:
        motors, neurons = [], []
        pieces = _spans(some.stop - some.start, size)
        for piece in pieces:
            here = slice(some.start + piece.start, some.start + piece.stop)
            seen = wired.settle_seen(tokens.query_drive[:, here], tokens.key_drive, tokens.index[:, here])
            if seen is None:
                return None
            motors.append(seen[0])
            neurons.append(seen[1])
        gates = pair_gates(tokens, torch.cat(motors, 2), config, some)
        for piece, states in zip(pieces, neurons, strict=True):
            watch(slice(some.start + piece.start, some.start + piece.stop), gates.rows(piece), states)
        parts.append(shares(gates, config, dropout))
    return _join(parts, 1)


def _chunk_rows(heads: int, columns: int, width: int) -> int:
    """Query rows to work on at a time, where each of their pairs takes `width` numbers."""
    return max(1, CHUNK_NUMBERS // (heads * columns * width))


def _spans(rows: int, size: int) -> list[slice]:
    """Slices of at most `size` rows."""
    return [slice(i, min(i + size, rows)) for i in range(0, rows, size)]


def _in_turn(
    part: Callable[[Any], Tensor], pieces: Sequence[Any], dim: int, dropout: float, *, recompute: bool = True
) -> Tensor:
    """Parts of all pieces, joined; several parts are recomputed in the backward pass instead of stored."""
    recompute = recompute and torch.is_grad_enabled() and not inside_torch_func()
    if len(pieces) == 1 or not recompute:
        return _join([part(piece) for piece in pieces], dim)
    keep = dropout > 0
    return _join([checkpoint(part, x, use_reentrant=False, preserve_rng_state=keep) for x in pieces], dim)


def _join(parts: list[Tensor], dim: int) -> Tensor:
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


def settle_rows(tokens: Tokens, wired: WiredBackbone, rows: slice) -> tuple[Tensor, NeuronStates]:
    """Motor neurons [2, H, C, K] of some query rows in PyTorch, and the states from `WiredBackbone.settle`."""
    index = tokens.index[:, rows]
    drive = tokens.query_drive[:, rows, None] + _rows(tokens.key_drive, index)  # [H, C, K, P]
    motor, states = wired.settle(drive.flatten(1, 2))
    return motor.view(*index.shape, 2).movedim(-1, 0), states


def pair_gates(tokens: Tokens, motor: Tensor, config: NACConfig, rows: slice) -> Gates:
    """Gates of some query rows from their motor neurons [2, H, C, K]."""
    elapsed = pair_elapsed(tokens, config, rows, motor.dtype)
    gate, match = pair_time_gates(tokens, rows), pair_match(tokens, rows)
    return solve_gates(motor, gate, elapsed, tokens.valid[:, rows], config, match)


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
    if library.runs(asked, tokens.offered):
        return dot_selected(asked, tokens.offered, index)
    selected = _rows(tokens.offered.transpose(0, 1), index)  # [H, C, K, E]
    return (selected @ asked.transpose(0, 1).unsqueeze(-1)).squeeze(-1)


def pair_elapsed(tokens: Tokens, config: NACConfig, rows: slice, dtype: torch.dtype) -> Tensor | None:
    """Elapsed time of some query rows, [H, C, K]; None without stamps or without a time gate."""
    if tokens.query_gate is None or tokens.query_stamp is None or tokens.key_stamp is None:
        return None
    return elapsed_time(tokens.query_stamp[rows, None], tokens.key_stamp[tokens.index[:, rows]], config, dtype)


def solve_gates(
    motor: Tensor,  # [2, H, C, K] of phi and omega
    gate: Tensor | None,  # [H, 2, C, K] t_a and t_b; None where the layer has no time gate
    elapsed: Tensor | None,  # [H, C, K] from `elapsed_time`; None: 1
    valid: Tensor,  # [H, C, K] columns that hold a key
    config: NACConfig,
    match: Tensor | None = None,  # [H, C, K] what the match synapses add to phi
) -> Gates:
    """From motor neurons to attention weights."""
    motor = wide(motor)
    phi = PHI[config.phi](motor[0])
    if match is not None:
        phi = phi + match
    omega = nn.functional.softplus(motor[1]) + config.omega_min
    t = None
    if gate is not None:
        gate = wide(gate)
        t = time_gate(gate[:, 0], gate[:, 1], 1.0 if elapsed is None else elapsed)
    logits = solve_logits(phi, omega, phi if t is None else t, config.mode, euler_steps=config.euler_steps)
    # A finite floor instead of -inf: rows without a key stay finite (the layer zeroes them); in all others the
    # weight is exactly 0 either way.
    weights = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).softmax(-1)
    return Gates(phi, omega, t, logits, weights, match)


def shares(gates: Gates, config: NACConfig, dropout: float) -> Tensor:
    """Factors of the values, [H, C, K]: weights after dropout, times t where the layer integrates."""
    share = nn.functional.dropout(gates.weights, dropout)
    return share * gates.t if config.integrate and gates.t is not None else share


def mix(share: Tensor, value: Tensor, index: Tensor) -> Tensor:
    """Sums [C, H, D] of values [S, H, D] at selected rows [H, C, K], weighted with share [H, C, K]."""
    share = share.to(value.dtype)
    if library.runs(share, value):
        return mix_selected(share, value, index)
    selected = _rows(value.transpose(0, 1), index)  # [H, C, K, D]
    return (share.unsqueeze(-2) @ selected).squeeze(-2).transpose(0, 1)


def elapsed_time(query_stamp: Tensor, key_stamp: Tensor, config: NACConfig, dtype: torch.dtype) -> Tensor:
    """|t_query - t_key| / time_scale, at most `LONGEST`.

    Subtracted in float64, so that large stamps keep their differences. Infinity, which those beyond float32 would
    become, has no place in a gate: its gradient is 0 times infinity.
    """
    difference = (query_stamp - key_stamp).abs() / config.time_scale
    return difference.clamp(max=LONGEST).to(torch.promote_types(dtype, torch.float32))


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a [H, S, W] table, each head with its own index [H, ...]: [H, ..., W]."""
    heads, size, width = table.shape
    offset = torch.arange(heads, device=index.device) * size
    flat = (index + offset.view(-1, *[1] * (index.dim() - 1))).flatten()
    return table.reshape(-1, width).index_select(0, flat).view(*index.shape, width)
