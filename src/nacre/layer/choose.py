"""Which search a layer chooses its keys by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.layer.config import Selection
from nacre.layer.select_cluster import cluster_topk
from nacre.layer.selection import all_pairs, exact_topk, sqrt_topk

if TYPE_CHECKING:
    from torch import Tensor

    from nacre.layer.config import NACConfig


def choose_keys(
    config: NACConfig, q: Tensor, k: Tensor, padding: Tensor | None, skip: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Keys of each query by the layer's options; no gradient flows through the choice.

    Args:
        config: The layer's options.
        q: [B, H, T, D] what queries are compared by.
        k: [B, H, S, D] what keys are.
        padding: [B, S] bool, keys that nobody gets.
        skip: [B, T] bool, queries that need no key.

    Returns:
        index and valid, [B, H, T, K].
    """
    q, k, causal = q.detach(), k.detach(), config.causal
    if config.top_k is None:
        return all_pairs(q, k, key_padding_mask=padding, causal=causal)
    if config.selection == Selection.EXACT:
        return exact_topk(q, k, config.top_k, key_padding_mask=padding, causal=causal)
    size, reach = config.block_size, config.reach
    if config.selection == Selection.CLUSTER:
        return cluster_topk(
            q, k, config.top_k, key_padding_mask=padding, causal=causal, block_size=size, reach=reach
        )
    return sqrt_topk(
        q,
        k,
        config.top_k,
        key_padding_mask=padding,
        query_padding_mask=skip,
        causal=causal,
        block_size=size,
        reach=reach,
    )
