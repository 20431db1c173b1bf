"""From selected query-key pairs to attended values, in chunks of queries.

Rows of all sequences of a batch lie one behind the other (R = B * T query rows, B * S key rows), heads first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nacre.config import Phi
from nacre.dynamics import solve_logits, time_gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from nacre.backbone import WiredBackbone
    from nacre.config import NACConfig

_CHUNK_ELEMENTS = 2**21  # neuron states of a chunk: 8 MB in float32

PHI: dict[str, Callable[[Tensor], Tensor]] = {
    Phi.SIGMOID: torch.sigmoid,
    Phi.TANH: torch.tanh,
    Phi.LINEAR: lambda x: x,
}


@dataclass(frozen=True)
class Tokens:
    """What the pair stage needs of each token, computed once."""

    query_drive: Tensor  # [H, R, P] first synapses of the circuit
    key_drive: Tensor  # [H, B * S, P]
    value: Tensor  # [H, B * S, D]
    query_gate: Tensor | None  # [H, R, 2] share of (t_a, t_b)
    key_gate: Tensor | None  # [H, B * S, 2]
    query_stamp: Tensor | None  # [R] float64
    key_stamp: Tensor | None  # [B * S] float64
    index: Tensor  # [H, R, K] row of each selected key
    valid: Tensor  # [H, R, K]


@dataclass(frozen=True)
class Pairs:
    """The pair stage's result for some queries."""

    output: Tensor  # [H, R, D]
    phi: Tensor  # [H, R, K], and so the next four
    omega: Tensor
    t: Tensor | None
    logits: Tensor
    weights: Tensor
    states: dict[tuple[int, ...], Tensor]  # neuron ids -> [H, R * K or 1, ids]


def attend(tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float) -> Tensor:
    """Attended values [H, R, D], recomputed chunk by chunk in the backward pass so that memory stays flat.

    A compiled or exported program takes all rows at once: a loop over chunks would tie it to one length.
    """
    heads, rows, columns = tokens.index.shape
    if torch.compiler.is_compiling():
        return attend_rows(tokens, wired, config, dropout, slice(None)).output
    chunk = max(1, _CHUNK_ELEMENTS // (heads * columns * len(wired.backbone.projected)))
    if chunk >= rows:
        return attend_rows(tokens, wired, config, dropout, slice(0, rows)).output

    def part(start: int) -> Tensor:
        return attend_rows(tokens, wired, config, dropout, slice(start, start + chunk)).output

    starts = range(0, rows, chunk)
    if not torch.is_grad_enabled():
        return torch.cat([part(i) for i in starts], 1)
    keep_rng = dropout > 0
    return torch.cat([checkpoint(part, i, use_reentrant=False, preserve_rng_state=keep_rng) for i in starts], 1)


def attend_rows(tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float, rows: slice) -> Pairs:
    """The pair stage for some query rows."""
    index = tokens.index[:, rows]
    gate = elapsed = None
    if tokens.query_gate is not None and tokens.key_gate is not None:
        gate = tokens.query_gate[:, rows, None] + _rows(tokens.key_gate, index)
        if tokens.query_stamp is not None and tokens.key_stamp is not None:
            elapsed = elapsed_time(tokens.query_stamp[rows, None], tokens.key_stamp[index], config, gate.dtype)
    drive = tokens.query_drive[:, rows, None] + _rows(tokens.key_drive, index)
    return solve_pairs(
        drive, gate, elapsed, _rows(tokens.value, index), tokens.valid[:, rows], wired, config, dropout
    )


def solve_pairs(
    drive: Tensor,
    gate: Tensor | None,
    elapsed: Tensor | None,
    value: Tensor,
    valid: Tensor,
    wired: WiredBackbone,
    config: NACConfig,
    dropout: float,
) -> Pairs:
    """From what reaches each of C x K pairs to attended values.

    Args:
        drive: [H, C, K, P] first synapses of the circuit.
        gate: [H, C, K, 2] (t_a, t_b), or None where the layer has no time gate.
        elapsed: [H, C, K] from `elapsed_time`; None: 1.
        value: [H, C, K, D] of the keys.
        valid: [H, C, K] columns that hold a key.
        wired: The circuit.
        config: The layer's options.
        dropout: Share of weights dropped.
    """
    heads, count, columns = valid.shape
    motor, states = wired.settle(drive.flatten(1, 2))
    motor = _wide(motor).view(heads, count, columns, 2)
    phi = PHI[config.phi](motor[..., 0])
    omega = nn.functional.softplus(motor[..., 1]) + config.omega_min
    t = None
    if gate is not None:
        gate = _wide(gate)
        t = time_gate(gate[..., 0], gate[..., 1], 1.0 if elapsed is None else elapsed)

    logits = solve_logits(phi, omega, phi if t is None else t, config.mode, euler_steps=config.euler_steps)
    # A finite floor instead of -inf: rows without a key stay finite (the layer zeroes them), and in all others it
    # gives the same bits, a weight of exactly 0.
    weights = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).softmax(-1)
    mix = nn.functional.dropout(weights, dropout)
    if config.integrate and t is not None:
        mix = mix * t
    output = (mix.to(value.dtype).unsqueeze(-2) @ value).squeeze(-2)
    return Pairs(output, phi, omega, t, logits, weights, states)


def elapsed_time(query_stamp: Tensor, key_stamp: Tensor, config: NACConfig, dtype: torch.dtype) -> Tensor:
    """|t_query - t_key| / time_scale, subtracted in float64 so that large stamps keep their differences."""
    difference = (query_stamp - key_stamp).abs() / config.time_scale
    return difference.to(torch.promote_types(dtype, torch.float32))


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a [H, S, W] table, each head with its own index [H, ...]: [H, ..., W]."""
    heads, size, width = table.shape
    offset = torch.arange(heads, device=index.device) * size
    flat = (index + offset.view(-1, *[1] * (index.dim() - 1))).flatten()
    return table.reshape(-1, width).index_select(0, flat).view(*index.shape, width)


def _wide(x: Tensor) -> Tensor:
    """At least float32: half precision loses small differences of logits and times."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
