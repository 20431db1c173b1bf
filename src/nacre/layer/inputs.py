"""What comes into a NAC layer, checked, and with padding blanked out before anything is computed from it."""

from dataclasses import dataclass

from torch import Tensor

from nacre._util.checks import padding_mask, sequence, time_stamps
from nacre.layer.config import NACConfig


@dataclass(frozen=True)
class Inputs:
    """Clean inputs of one call; padded steps hold zeros."""

    query: Tensor  # [B, T, d_input]
    key: Tensor  # [B, S, d_input]
    value: Tensor  # [B, S, d_input]
    stamps: tuple[Tensor, Tensor] | None  # [B, T] and [B, S], float64
    key_padding: Tensor | None  # [B, S]
    query_padding: Tensor | None  # [B, T], in self attention


def prepare(
    config: NACConfig,
    weight: Tensor,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    time: Tensor | None,
    key_time: Tensor | None,
    key_padding_mask: Tensor | None,
) -> Inputs:
    """Check the arguments of `NAC.forward` and blank out padding.

    Masking comes before any projection: applied later, NaN in padding would reach the gradients.
    """
    sequence("query", query, config.width, weight)
    if (key is None) != (value is None):
        raise ValueError("cross attention needs both key and value; give both, or neither for self attention")
    if key is None or value is None:
        return _prepare_self(query, time, key_time, key_padding_mask)
    _check_cross(config, weight, query, key, value)
    pair = _cross_stamps(query, key, time, key_time)
    if key_padding_mask is None:
        return Inputs(query, key, value, pair, None, None)
    mask = padding_mask("key_padding_mask", key_padding_mask, (key.shape[0], key.shape[1]))
    key, value = (x.masked_fill(mask.unsqueeze(-1), 0) for x in (key, value))
    if pair is not None:
        pair = (pair[0], pair[1].masked_fill(mask, 0))
    return Inputs(query, key, value, pair, mask, None)


def _prepare_self(query: Tensor, time: Tensor | None, key_time: Tensor | None, mask: Tensor | None) -> Inputs:
    if key_time is not None:
        raise ValueError("key_time belongs to cross attention; in self attention give time alone")
    query, stamps = blank_padding(query, time, mask)
    return Inputs(query, query, query, None if stamps is None else (stamps, stamps), mask, mask)


def blank_padding(x: Tensor, time: Tensor | None, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Check stamps [B, T] and padding mask [B, T] of x [B, T, ...]; x and float64 stamps with zeros at padding."""
    shape = (x.shape[0], x.shape[1])
    stamps = None if time is None else time_stamps("time", time, shape).double()
    if mask is None:
        return x, stamps
    padding_mask("key_padding_mask", mask, shape)
    return x.masked_fill(mask.unsqueeze(-1), 0), None if stamps is None else stamps.masked_fill(mask, 0)


def _check_cross(config: NACConfig, weight: Tensor, query: Tensor, key: Tensor, value: Tensor) -> None:
    sequence("key", key, config.width, weight)
    sequence("value", value, config.width, weight)
    if key.shape[0] != query.shape[0] or key.shape != value.shape:
        raise ValueError(
            "key and value must have one shape and the query's batch size, got "
            f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if config.causal and key.shape[1] != query.shape[1]:
        raise ValueError(
            f"causal cross attention needs as many keys as queries, got {query.shape[1]} queries and "
            f"{key.shape[1]} keys"
        )


def _cross_stamps(
    query: Tensor, key: Tensor, time: Tensor | None, key_time: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    if time is None and key_time is None:
        return None
    if time is None or key_time is None:
        given, missing = ("key_time", "time") if time is None else ("time", "key_time")
        raise ValueError(f"cross attention with {given} needs {missing} too: both sides must have stamps")
    return (
        time_stamps("time", time, (query.shape[0], query.shape[1])).double(),
        time_stamps("key_time", key_time, (key.shape[0], key.shape[1])).double(),
    )
