"""Inputs of a layer: checked, with padding blanked before anything is computed, and packed without it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre._util.tracing import values_are_hidden
from nacre.layer.config import NACConfig


def require_tensor(name: str, value: object, *, last: int) -> Tensor:
    """Refuse what is not a floating-point tensor whose last dimension is `last`."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, {_got(name, value)}")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}; use {name}.float()")
    if value.dim() == 0 or value.shape[-1] != last:
        raise ValueError(f"{name} must have {last} numbers in its last dimension, got shape {tuple(value.shape)}")
    return value


def sequence(name: str, value: object, width: int, weight: Tensor) -> Tensor:
    """Refuse what is not a non-empty [batch, time, width] tensor of the layer's dtype."""
    if isinstance(value, Tensor) and value.dim() != 3:
        raise ValueError(
            f"{name} must have shape [batch, time, {width}], got {tuple(value.shape)}; "
            f"use {name}.unsqueeze(0) for a single sequence"
        )
    if isinstance(value, Tensor) and value.shape[2] != width:
        raise ValueError(
            f"{name} must have {width} numbers in its last dimension, got shape {tuple(value.shape)}; "
            f"for this width make the layer with d_input={value.shape[2]}"
        )
    tensor = require_tensor(name, value, last=width)
    if 0 in tensor.shape:
        raise ValueError(f"{name} must have at least one row and one step, got shape {tuple(tensor.shape)}")
    same_dtype(name, tensor, weight)
    return tensor


def same_dtype(name: str, value: Tensor, weight: Tensor) -> None:
    """Refuse a tensor that the layer's weights cannot multiply."""
    if value.dtype != weight.dtype and not torch.is_autocast_enabled(value.device.type):
        raise TypeError(
            f"{name} has dtype {value.dtype} but the layer's weights are {weight.dtype}; "
            f"convert one of them, for example {name}.to({weight.dtype})"
        )


def padding_mask(name: str, value: object, shape: tuple[int, int]) -> Tensor:
    """Refuse what is not a bool tensor of shape [batch, time]."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        fix = f"use {name}.bool() if 1 marks padding, {name} == 0 if 1 marks valid steps"
        got = f"got {value.dtype}; {fix}" if isinstance(value, Tensor) else _got(name, value)
        raise TypeError(f"{name} must be a bool tensor with True at padding, {got}")
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape} (batch, time), got {tuple(value.shape)}")
    return value


def questions(value: object, shape: tuple[int, int], time: Tensor | None) -> Tensor:
    """Refuse what is not a bool tensor [batch, time] of steps that only ask, or has no stamps beside it."""
    found = marked_steps("query_only", value, shape, "steps that only ask")
    if time is None:
        raise ValueError("query_only needs time: a step that only asks is known by its moment; give time stamps")
    return found


def marked_steps(name: str, value: object, shape: tuple[int, int], meaning: str) -> Tensor:
    """Refuse what is not a bool tensor of shape [batch, time] with True at steps of some meaning."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        got = f"got {value.dtype}; use {name}.bool()" if isinstance(value, Tensor) else _got(name, value)
        raise TypeError(f"{name} must be a bool tensor with True at {meaning}, {got}")
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape} (batch, time), got {tuple(value.shape)}")
    return value


def time_stamps(name: str, value: object, shape: tuple[int, int]) -> Tensor:
    """Real stamps of shape [batch, time]; stamps [time] are those of every row. Refuse anything else."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor of real time stamps, {_got(name, value)}")
    if value.dtype == torch.bool or value.is_complex():
        hint = "; a padding mask is key_padding_mask" if value.dtype == torch.bool else ""
        raise TypeError(f"{name} must be a tensor of real time stamps, got {value.dtype}{hint}")
    if value.dim() == 1 and value.shape[0] == shape[1]:
        return value.expand(shape)
    if value.shape != shape:
        fixes = {(*shape, 1): ".squeeze(-1)", (1, shape[1]): "[0], which all rows share", shape[::-1]: ".T"}
        fix = fixes.get(tuple(value.shape))
        raise ValueError(
            f"{name} must have shape {shape} (batch, time), one stamp for each step, or {shape[1:]} for all rows, "
            f"got {tuple(value.shape)}" + (f"; use {name}{fix}" if fix else "")
        )
    return value


def _got(name: str, value: object) -> str:
    """What came where a tensor was wanted, and how to make a tensor of it."""
    arrays = type(value) in (list, tuple) or hasattr(value, "__array__")
    return f"got {type(value).__name__}" + (f"; use torch.as_tensor({name})" if arrays else "")


def ascending(name: str, value: Tensor, padding: Tensor | None) -> None:
    """Refuse stamps [batch, time] that are not finite, or that go back from one valid step to the next."""
    if values_are_hidden():
        return
    valid = torch.ones_like(value, dtype=torch.bool) if padding is None else ~padding
    lost = ~value.isfinite() & valid
    if lost.any():
        row, step = lost.nonzero()[0].tolist()
        raise ValueError(f"{name} must be finite, got {value[row, step].item()} at row {row}, step {step}")
    latest = value.masked_fill(~valid, -torch.inf).cummax(1).values
    back = (value < latest) & valid
    if back.any():
        row, step = back.nonzero()[0].tolist()
        raise ValueError(
            f"{name} must not go back within a row, got {value[row, step].item()} after "
            f"{latest[row, step].item()} at row {row}, step {step}; sort the steps of each row by time, and mark "
            "padding in key_padding_mask"
        )


@dataclass(frozen=True)
class Inputs:
    """Clean inputs of one call; padded steps hold zeros."""

    query: Tensor  # [B, T, d_input]
    key: Tensor  # [B, S, d_input]
    value: Tensor  # [B, S, d_input]
    stamps: tuple[Tensor, Tensor] | None  # [B, T] and [B, S], float64
    key_padding: Tensor | None  # [B, S]
    query_padding: Tensor | None  # [B, T], in self attention
    unanswered: Tensor | None  # [B, T] queries that get no answer: padding, and steps that are only keys


def prepare(
    config: NACConfig,
    weight: Tensor,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    time: Tensor | None,
    key_time: Tensor | None,
    mask: Tensor | None,
    query_only: Tensor | None = None,
    key_only: Tensor | None = None,
) -> Inputs:
    """Check the arguments of `NAC.forward` and blank padding.

    Masking comes before any projection: applied later, NaN in padding would reach the gradients.
    """
    sequence("query", query, config.width, weight)
    key, value, time, mask = cross_or_self(key, value, time, mask)
    if key is None or value is None:
        if key_time is not None:
            raise ValueError("key_time belongs to cross attention; in self attention give time alone")
        query, stamps = blank_padding(query, time, mask)
        return _self_attention(query, stamps, mask, query_only, key_only)
    if query_only is not None:
        raise ValueError("query_only belongs to self attention; in cross attention a query is never attended to")
    if key_only is not None:
        raise ValueError("key_only belongs to self attention; in cross attention give only queries to be answered")
    _check_cross(config, weight, query, key, value)
    if (time is None) != (key_time is None):
        given, missing = ("key_time", "time") if time is None else ("time", "key_time")
        raise ValueError(f"cross attention with {given} needs {missing} too: both sides must have stamps")
    if time is not None:
        time = time_stamps("time", time, (query.shape[0], query.shape[1])).double()
    if config.causal and key.shape[1] != query.shape[1]:
        if time is None or key_time is None:
            raise ValueError(
                f"causal cross attention of {query.shape[1]} queries and {key.shape[1]} keys needs to know which "
                "keys are in the past of a query; give time and key_time, or as many keys as queries"
            )
        ascending("key_time", time_stamps("key_time", key_time, (key.shape[0], key.shape[1])), mask)
        if not values_are_hidden() and time.isnan().any():
            raise ValueError("time must be a number at every query of causal cross attention, got nan")
    key, key_time = blank_padding(key, key_time, mask, "key_time")
    value, _ = blank_padding(value, None, mask)
    stamps = None if time is None or key_time is None else (time, key_time)
    return Inputs(query, key, value, stamps, mask, query_padding=None, unanswered=None)


def _self_attention(
    x: Tensor,
    stamps: Tensor | None,
    padding: Tensor | None,
    query_only: Tensor | None,
    key_only: Tensor | None,
) -> Inputs:
    """Self attention in which some steps only ask (as keys they are padding), and some are only keys."""
    shape = (x.shape[0], x.shape[1])
    unanswered = padding
    if key_only is not None:
        marked_steps("key_only", key_only, shape, "steps whose answer is not wanted")
        unanswered = key_only if padding is None else key_only | padding
    if query_only is None:
        both = None if stamps is None else (stamps, stamps)
        return Inputs(x, x, x, both, padding, padding, unanswered)
    asks = questions(query_only, shape, stamps)
    hidden = asks if padding is None else asks | padding
    key = x.masked_fill(hidden.unsqueeze(-1), 0)
    both = None if stamps is None else (stamps, stamps.masked_fill(hidden, 0))
    return Inputs(x, key, key, both, hidden, padding, unanswered)


def cross_or_self(
    key: Tensor | None, value: Tensor | None, time: Tensor | None, mask: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Key, value, time and mask of a call `layer(query, key, value, time=..., key_padding_mask=...)`.

    Self attention may have time and mask in the places of key and value, as in the calls of all other models:
    `layer(x, time, key_padding_mask)`. Only ranks and dtypes decide, which a compiled program knows.
    """
    if key is None and value is None:
        return None, None, time, mask
    if _rank(key) == _rank(value) == 3:
        return key, value, time, mask
    if _rank(key) > 2 or _rank(value) > 2 or (isinstance(value, Tensor) and value.dtype != torch.bool):
        squeeze = isinstance(key, Tensor) and key.shape[-1:] == (1,)
        raise ValueError(
            "cross attention, layer(q, k, v), needs both key and value, [batch, time, features]; self attention, "
            "layer(x, time, key_padding_mask), needs stamps [batch, time] and a bool mask [batch, time]; "
            f"got {_seen(key)} and {_seen(value)}" + ("; use time.squeeze(-1) for stamps" if squeeze else "")
        )
    for name, placed, named in (("time", key, time), ("key_padding_mask", value, mask)):
        if placed is not None and named is not None:
            raise TypeError(f"{name} was given by position and by name; give it once")
    return None, None, time if key is None else key, mask if value is None else value


def _rank(x: object) -> int:
    return getattr(x, "ndim", 0)  # arrays are refused later, under the name they have then


def _seen(x: object) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__.removesuffix("Type")


def blank_padding(
    x: Tensor, time: Tensor | None, mask: Tensor | None, name: str = "time"
) -> tuple[Tensor, Tensor | None]:
    """Check stamps [B, T] and padding mask [B, T] of x [B, T, ...]; x and float64 stamps with zeros at padding."""
    shape = (x.shape[0], x.shape[1])
    stamps = None if time is None else time_stamps(name, time, shape).double()
    if mask is None:
        return x, stamps
    padding_mask("key_padding_mask", mask, shape)
    # One empty sequence may be meant; many are a mask of what is valid.
    if not values_are_hidden() and len(mask) > 1 and bool(mask.all()):
        warnings.warn(
            "key_padding_mask is True everywhere: all steps are padding, and the output is zeros; True means "
            "padding, so use ~key_padding_mask if it marks valid steps",
            stacklevel=2,
        )
    return x.masked_fill(mask.unsqueeze(-1), 0), None if stamps is None else stamps.masked_fill(mask, 0)


def _check_cross(config: NACConfig, weight: Tensor, query: Tensor, key: Tensor, value: Tensor) -> None:
    sequence("key", key, config.width, weight)
    sequence("value", value, config.width, weight)
    if key.shape[0] != query.shape[0] or key.shape != value.shape:
        raise ValueError(
            "key and value must have one shape and the query's batch size, got "
            f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )


@dataclass(frozen=True)
class Packing:
    """Which tokens of sequences [B, T] are kept when padding is left out."""

    batch: int  # B
    length: int  # T
    rows: Tensor | None = None  # [N] places of the tokens in B * T, ascending; None where all are kept

    @classmethod
    def of(cls, x: Tensor, padding: Tensor | None = None) -> Packing:
        """The packing of x [B, T, ...] without padding [B, T]; where all is padding, all is kept."""
        batch, length = x.shape[:2]
        if padding is None:
            return cls(batch, length)
        rows = (~padding).flatten().nonzero().squeeze(1)
        return cls(batch, length, rows if 0 < len(rows) < batch * length else None)

    def pack(self, x: Tensor) -> Tensor:
        """[B, T, ...] -> [N, ...]."""
        x = x.flatten(0, 1)
        return x if self.rows is None else x.index_select(0, self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """[N, W] -> [B, T, W], zero at padding."""
        if self.rows is not None:
            x = x.new_zeros(self.batch * self.length, x.shape[1]).index_copy(0, self.rows, x)
        return x.view(self.batch, self.length, x.shape[1])

    def places(self, some: slice) -> Tensor:
        """Places in B * T of some of the N tokens, from start to stop."""
        return torch.arange(some.start, some.stop) if self.rows is None else self.rows[some].cpu()

    def number(self, places: Tensor) -> Tensor:
        """Places in B * T -> places among the N tokens, 0 for padding."""
        if self.rows is None:
            return places
        numbers = places.new_zeros(self.batch * self.length)
        numbers[self.rows] = torch.arange(len(self.rows), device=places.device)
        return numbers[places]
