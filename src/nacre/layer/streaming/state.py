"""`StreamState`: the memory of a causal layer that runs step by step."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from nacre._util.checks import choice, whole
from nacre.layer.config import NACConfig, Selection
from nacre.layer.selection.blocks import CAUSAL_BLOCK, blocks_to_search
from nacre.layer.selection.topk import best_columns
from nacre.layer.streaming.checks import check_newest, check_order, check_stamps


class Overflow(StrEnum):
    """What happens when a stream gets longer than its memory."""

    ERROR = "error"
    """Refuse the step."""
    SLIDE = "slide"
    """Forget the oldest block of keys."""


class StreamState(NamedTuple):
    """Memory of a stream: plain tensors, made by `init_state`, updated by `step`.

    Keys are stored in a ring of n blocks of b keys, so a step costs O((n + b) d) however long the stream is. It
    writes into the tensors of the state it is given: `clone` a state to continue it twice.

    `state._asdict()` is a dict of tensors for `safetensors.torch.save_file` or `torch.save`, and
    `StreamState(**tensors)` restores the state.

    Attributes:
        key: [B, H, n, b, D].
        value: [B, H, n, b, D].
        stamp: [B, n, b] time stamps in float64; NaN where the step had none.
        offered: [B, H, n, b, E] what the keys offer to the match synapses; E = 0 where the layer has none.
        centroid: [B, H, n, E or D] mean of `offered` or `key` over each full block.
        origin: [B] time stamp of the first step, in float64.
        length: [B] number of steps since the start or the last reset.
        limit: [] largest length; 0 for a window that slides.
        owner: A few of the layer's weights, which tell its states from those of another layer.
    """

    key: Tensor
    value: Tensor
    stamp: Tensor
    offered: Tensor
    centroid: Tensor
    origin: Tensor
    length: Tensor
    limit: Tensor
    owner: Tensor

    def reset(self, rows: Tensor | int | slice = slice(None)) -> StreamState:
        """Forget the history of some rows (an index, or a bool mask [B]; default all), in place."""
        self.length[rows] = 0
        return self

    def clone(self) -> StreamState:
        """A copy that shares no memory."""
        return StreamState(*(x.clone() for x in self))


def new_state(
    config: NACConfig, owner: Tensor, batch_size: int, max_len: int, overflow: str, offered: int
) -> StreamState:
    """An empty memory for `batch_size` streams; `offered` is the width E of the match synapses."""
    whole("batch_size", batch_size, 1)
    whole("max_len", max_len, 1)
    choice("overflow", overflow, Overflow)
    _require_causal(config, "init_state")
    block = config.block_size or CAUSAL_BLOCK
    if overflow == Overflow.ERROR:
        block = min(block, max_len)
        ring = (math.ceil(max_len / block), block)
    else:  # beside the newest block, which may hold a single key, as many as hold max_len - 1
        ring = (math.ceil((max_len - 1) / block) + 1, block)
    device, heads, width = owner.device, config.num_heads, config.d_head
    keys = owner.new_zeros(batch_size, heads, *ring, width)
    single = torch.promote_types(owner.dtype, torch.float32)
    return StreamState(
        key=keys,
        value=torch.zeros_like(keys),
        stamp=torch.full((batch_size, *ring), math.nan, dtype=torch.float64, device=device),
        offered=owner.new_zeros(batch_size, heads, *ring, offered, dtype=single),
        centroid=owner.new_zeros(batch_size, heads, ring[0], offered or width, dtype=single if offered else None),
        origin=torch.zeros(batch_size, dtype=torch.float64, device=device),
        length=torch.zeros(batch_size, dtype=torch.int64, device=device),
        limit=torch.tensor(max_len if overflow == Overflow.ERROR else 0, device=device),
        owner=owner.clone(),
    )


def check_shapes(config: NACConfig, owner: Tensor, x: Tensor, state: StreamState, time: Tensor | None) -> None:
    """Refuse a step, or a state, of other shapes or types than the layer's; `owner` is one of its weights."""
    _require_causal(config, "step")
    if not isinstance(state, StreamState):
        raise TypeError(f"state must be a StreamState from init_state, got {type(state).__name__}")
    batch = state.length.shape[0]
    check_newest(x, config.width, owner, batch)
    heads, width = state.key.shape[1], state.key.shape[-1]
    if (heads, width) != (config.num_heads, config.d_head):
        raise ValueError(
            f"state belongs to another layer: it holds {heads} heads of {width}, this layer has "
            f"{config.num_heads} of {config.d_head}"
        )
    check_stamps(time, batch)


def _require_causal(config: NACConfig, method: str) -> None:
    if not config.causal:
        raise ValueError(
            f"{method} needs a causal layer, whose steps do not depend on later ones; make it with causal=True"
        )


def check_values(owner: Tensor, state: StreamState, time: Tensor | None) -> None:
    """Refuse a state of other weights, a full one, and stamps that do not follow those before them."""
    if not torch.equal(owner, state.owner):
        raise ValueError(
            "state belongs to another layer, or the weights have changed since init_state; its keys mean nothing "
            "to this layer, so start with a new state"
        )
    limit = int(state.limit)
    if limit and int(state.length.max()) >= limit:
        row = int(state.length.argmax())
        raise ValueError(
            f"stream {row} already has max_len={limit} steps; use a larger max_len, reset the row, "
            "or use init_state(..., overflow='slide') to forget the oldest steps"
        )
    rows = torch.arange(state.length.shape[0], device=state.length.device)
    block, offset = _slot(state, (state.length - 1).clamp(min=0))
    check_order(time, state.stamp[rows, block, offset], state.length > 0)


def _slot(state: StreamState, position: Tensor) -> tuple[Tensor, Tensor]:
    """Block of the ring, and place in it, of a position in the stream."""
    blocks, size = state.stamp.shape[1:]
    return torch.div(position, size, rounding_mode="floor") % blocks, position % size


def _place(state: StreamState, position: Tensor) -> Tensor:
    """Place in the ring of positions in the stream."""
    return position % (state.stamp.shape[1] * state.stamp.shape[2])


def since_start(state: StreamState, time: Tensor | None, scale: float) -> Tensor | None:
    """Units of time [B] since the first step of each stream; 0 where this is the first."""
    if time is None:
        return None
    return (time.double() - state.origin).where(state.length > 0, 0) / scale


def stamps(state: StreamState, place: Tensor, time: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Time stamps of the newest step [B], and of the keys at places [B, H, K] of the ring: [H, B * K]."""
    if time is None:
        return None
    stamp = state.stamp.flatten(1).gather(1, place.flatten(1)).view(place.shape)
    return time.double(), stamp.transpose(0, 1).flatten(1)


def moments(state: StreamState, place: Tensor, time: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """The same in units of time before the newest step; in steps where there are no stamps."""
    known = stamps(state, place, time)
    if known is None:
        elapsed = _place(state, (state.length - 1)[:, None, None] - place).double().transpose(0, 1).flatten(1)
    else:
        now, stamp = known
        elapsed = (now.repeat_interleave(place.shape[2]) - stamp) / scale
    return elapsed.new_zeros(place.shape[0]), -elapsed


def push(
    state: StreamState, key: Tensor, value: Tensor, offered: Tensor | None, time: Tensor | None
) -> StreamState:
    """Remember one step: key and value [B, H, D], what the key offers [B, H, E], time [B]."""
    rows = torch.arange(key.shape[0], device=key.device)
    block, offset = _slot(state, state.length)
    state.key[rows, :, block, offset] = key.to(state.key.dtype)
    state.value[rows, :, block, offset] = value.to(state.value.dtype)
    state.stamp[rows, block, offset] = math.nan if time is None else time.double()
    if offered is not None:
        state.offered[rows, :, block, offset] = offered
    if time is not None:
        state.origin[:] = state.origin.where(state.length > 0, time.double())
    # From the keys, not from a running sum: no drift. Used only once the block is full.
    state.centroid[rows, :, block] = _compared(state)[rows, :, block].mean(2)
    return state._replace(length=state.length + 1)


def _compared(state: StreamState) -> Tensor:
    """Ring of what queries are compared with."""
    return state.offered if state.offered.shape[-1] else state.key


def select(state: StreamState, query: Tensor, config: NACConfig) -> tuple[Tensor, Tensor]:
    """Keys that the newest step of a state attends to, the same as in the causal forward.

    Takes the query [B, H, D], or what it asks of the match synapses [B, H, E]. Returns places in the ring
    (block * b + offset) and their validity, both [B, H, K], in order of time.
    """
    blocks, size = state.stamp.shape[1:]
    newest = (state.length - 1)[:, None]  # [B, 1] position in the stream
    own = torch.div(newest, size, rounding_mode="floor")
    first = (own - blocks + 1).clamp(min=0)  # oldest block that is still there
    if config.top_k is not None and config.selection == Selection.SQRT:
        wanted = blocks_to_search(config.top_k, size, config.reach)
        position, allowed = _candidates(state, query, first, own, min(wanted, blocks))
    else:
        count = blocks * size
        if config.top_k is None and not torch.compiler.is_compiling():
            count = min(count, int(state.length.max()))  # no pairs with what is not there yet
        position = (first * size + torch.arange(count, device=query.device))[:, None]  # [B, 1, count]
        position = position.expand(-1, config.num_heads, -1)
        allowed = torch.ones_like(position, dtype=torch.bool)
    near = 0 if config.top_k is None else config.near
    allowed = allowed & (position <= newest[:, None] - near)  # the latest ones are the near keys
    place = _place(state, position).where(allowed, 0)
    if config.top_k is None:
        return place, allowed
    found = []
    if config.top_k > near:
        scores = (take(_compared(state), place) * query.unsqueeze(2)).sum(-1)
        best, valid = best_columns(scores, allowed, config.top_k - near)
        found.append((place.gather(-1, best).where(valid, 0), valid))
    if near:
        position = (newest + 1 - near + torch.arange(near, device=query.device))[:, None]  # [B, 1, near]
        position = position.expand(-1, config.num_heads, -1)
        valid = position >= first.unsqueeze(-1) * size
        found.append((_place(state, position).where(valid, 0), valid))
    place, valid = (torch.cat(x, -1) for x in zip(*found, strict=True))
    return place, valid


def _candidates(
    state: StreamState, query: Tensor, first: Tensor, own: Tensor, wanted: int
) -> tuple[Tensor, Tensor]:
    """Positions [B, H, m] of the keys of the best earlier blocks and of the own one, and whether they count."""
    blocks, size = state.stamp.shape[1:]
    column = first + torch.arange(blocks, device=query.device)  # [B, n] blocks of the stream in order of time
    slot = (column % blocks)[:, None].expand(-1, query.shape[1], -1)
    scores = (state.centroid @ query.unsqueeze(-1)).squeeze(-1).gather(-1, slot)  # [B, H, n]
    earlier = (column < own)[:, None].expand_as(scores)
    chosen, valid = best_columns(scores, earlier, wanted)
    chosen = torch.cat([chosen + first.unsqueeze(-1), own[:, None].expand(-1, query.shape[1], 1)], -1)
    valid = torch.cat([valid, torch.ones_like(valid[..., :1])], -1)
    position = chosen.unsqueeze(-1) * size + torch.arange(size, device=query.device)  # [B, H, m, b]
    return position.flatten(2), valid.unsqueeze(-1).expand(position.shape).flatten(2)


def take(ring: Tensor, place: Tensor) -> Tensor:
    """Entries [B, H, K, D] of a ring [B, H, n, b, D] at places [B, H, K]."""
    batch, heads, blocks, size, width = ring.shape
    series = torch.arange(batch * heads, device=place.device).view(batch, heads, 1) * (blocks * size)
    return ring.view(-1, width).index_select(0, (place + series).flatten()).view(*place.shape, width)
