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
    """Attended values [H, R, D], recomputed chunk by chunk in the backward pass so that memory stays flat."""
    heads, rows, columns = tokens.index.shape
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
    index, valid = tokens.index[:, rows], tokens.valid[:, rows]
    heads, count, columns = index.shape
    drive = tokens.query_drive[:, rows, None] + _rows(tokens.key_drive, index)  # [H, C, K, P]
    motor, states = wired.settle(drive.flatten(1, 2))
    motor = _wide(motor).view(heads, count, columns, 2)
    phi = PHI[config.phi](motor[..., 0])
    omega = nn.functional.softplus(motor[..., 1]) + config.omega_min

    t = None
    if tokens.query_gate is not None and tokens.key_gate is not None:
        gate = _wide(tokens.query_gate[:, rows, None] + _rows(tokens.key_gate, index))  # [H, C, K, 2]
        t = time_gate(gate[..., 0], gate[..., 1], _elapsed(tokens, index, rows, config.time_scale, phi.dtype))

    logits = solve_logits(phi, omega, phi if t is None else t, config.mode, euler_steps=config.euler_steps)
    # A finite floor instead of -inf: rows without a key stay finite (the layer zeroes them), and in all others it
    # gives the same bits, a weight of exactly 0.
    weights = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).softmax(-1)
    mix = nn.functional.dropout(weights, dropout)
    if config.integrate and t is not None:
        mix = mix * t
    value = _rows(tokens.value, index)  # [H, C, K, D]
    output = (mix.to(value.dtype).unsqueeze(-2) @ value).squeeze(-2)
    return Pairs(output, phi, omega, t, logits, weights, states)


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a [H, S, W] table, each head with its own index [H, ...]: [H, ..., W]."""
    heads, size, width = table.shape
    offset = torch.arange(heads, device=index.device) * size
    flat = (index + offset.view(-1, *[1] * (index.dim() - 1))).flatten()
    return table.reshape(-1, width).index_select(0, flat).view(*index.shape, width)


def _elapsed(tokens: Tokens, index: Tensor, rows: slice, scale: float, dtype: torch.dtype) -> Tensor | float:
    """|t_query - t_key| / scale, subtracted in float64 so that large stamps keep their differences."""
    if tokens.query_stamp is None or tokens.key_stamp is None:
        return 1.0
    difference = tokens.query_stamp[rows, None] - tokens.key_stamp[index]  # [H, C, K]
    return (difference.abs() / scale).to(dtype)


def _wide(x: Tensor) -> Tensor:
    """At least float32: half precision loses small differences of logits and times."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
