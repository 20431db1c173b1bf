"""`NACMultiheadAttention`: a NAC layer with the signature of `torch.nn.MultiheadAttention`."""

import torch
from torch import Tensor, nn

from nacre._util.tracing import values_are_hidden
from nacre.layer.attention import NAC
from nacre.nn.masks import is_causal_mask, padding_of
from nacre.nn.time import current_stamps


class NACMultiheadAttention(nn.Module):
    """What stands in for `torch.nn.MultiheadAttention`, with the same arguments, and `time` beside them.

    Padding masks and causal masks are honoured; a mask of other pairs is refused, because a query attends to the
    keys that it selects. A query without any key gives zeros, not NaN.

    Args:
        embed_dim: Width of inputs and output.
        num_heads: Number of heads.
        dropout: Share of attention weights dropped in training.
        bias: Whether neurons, gates and output have additive constants.
        add_bias_kv: Only False.
        add_zero_attn: Only False.
        kdim: Only None or `embed_dim`; bring keys of another width to it with `torch.nn.Linear`.
        vdim: Likewise.
        batch_first: Whether inputs are [batch, time, features] instead of [time, batch, features].
        layer: The layer inside, from `embed_dim` to `embed_dim`; None for `nacre.NAC` with its defaults. For
            example `nacre.create("nac-plus", d_input=64, d_model=64, num_heads=4)`.

    Example:
        >>> attention = NACMultiheadAttention(64, 4, batch_first=True)
        >>> x, t = torch.randn(2, 100, 64), torch.rand(2, 100).cumsum(1)
        >>> y, weights = attention(x, x, x, time=t)
        >>> y.shape, weights.shape
        (torch.Size([2, 100, 64]), torch.Size([2, 100, 100]))
    """

    # What torch.nn.TransformerEncoder looks at to decide whether its own kernels can run in place of this module.
    in_proj_bias = None
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer: NAC | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if value:
                raise ValueError(
                    f"{name} must be False: no keys are added, and a query without any key gives zeros"
                )
        for name, width in (("kdim", kdim), ("vdim", vdim)):
            if width not in (None, embed_dim):
                raise ValueError(
                    f"{name} must be None or embed_dim={embed_dim}, got {width}; bring the input to this width "
                    f"with torch.nn.Linear({width}, {embed_dim})"
                )
        if layer is None:
            layer = NAC(embed_dim, num_heads, dropout=dropout, bias=bias, device=device, dtype=dtype)
        widths = layer.config.width, layer.config.d_model, layer.config.num_heads
        if widths != (embed_dim, embed_dim, num_heads):
            raise ValueError(
                f"layer must go from embed_dim={embed_dim} to embed_dim with num_heads={num_heads}, got "
                f"d_input={widths[0]}, d_model={widths[1]}, num_heads={widths[2]}"
            )
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.layer = layer
        self._timed = False  # whether the last call found stamps

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        time: Tensor | None = None,
        key_time: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Output, and attention weights where they are wanted.

        Args:
            query: [B, T, E], or [T, B, E] if not batch_first, or [T, E] of one sequence.
            key: The same with S instead of T. If key and value are the query, this is self attention.
            value: As `key`.
            key_padding_mask: [B, S] or [S], True or -inf at padding.
            need_weights: Whether to return weights. They take a table of T times S, and the time to fill it.
            attn_mask: None, or a causal mask: True or -inf above the diagonal, and nowhere else; [T, S], or
                [B x H, T, S] with the same for all. A mask that hides nothing counts as None.
            average_attn_weights: Whether weights are means over heads, [B, T, S], or apart, [B, H, T, S].
            is_causal: Whether `attn_mask` is a causal mask. Without a mask it counts, too.
            time: [B, T] stamps of the queries, in the order of the input's first two dimensions, or [T] for all.
            key_time: [B, S] or [S] stamps of the keys, where they are not the queries.
        """
        _check(query=query, key=key, value=value)
        alone = query.dim() == 2
        causal = self._causal(attn_mask, is_causal, query, key)
        same = key is query and value is query
        if time is None and same:
            time = current_stamps()
            if not torch.compiler.is_compiling():
                self._refuse_other_stamps_in_backward(time is not None)
        if time is not None and key_time is None and not same:
            raise ValueError(
                "key_time is needed beside time where key and value are not the query: give it, or for self "
                "attention hand over one tensor three times (x[0], x[0], x[0] are three tensors)"
            )
        q, k, v = (self._batched(x, alone) for x in (query, key, value))
        padding = None
        if key_padding_mask is not None:
            padding = padding_of(key_padding_mask, k.shape[1:2] if alone else k.shape[:2]).view(k.shape[:2])
        time, key_time = (self._stamps(x, alone) for x in (time, key_time))
        inputs = (q,) if same else (q, k, v)
        settings = {"time": time, "key_time": key_time, "key_padding_mask": padding, "causal": causal}
        if not need_weights:
            return self._as_given(self.layer(*inputs, **settings), alone), None
        y, trace = self.layer(*inputs, **settings, return_trace=True)
        weights = trace.weights.new_zeros(*trace.weights.shape[:3], k.shape[1])  # [B, H, T, S]
        weights = weights.scatter_add(-1, trace.index, trace.weights)
        if average_attn_weights:
            weights = weights.mean(1)
        return self._as_given(y, alone), weights.squeeze(0) if alone else weights

    def _refuse_other_stamps_in_backward(self, timed: bool) -> None:
        """Refuse to be computed again, by torch.utils.checkpoint, without the stamps of the first time."""
        if self._timed and not timed and torch._C._current_graph_task_id() >= 0:  # inside backward
            raise RuntimeError(
                "a checkpoint computes again outside of nacre.nn.stamps what was computed inside: enter stamps "
                "in the function that is checkpointed, or call backward inside, too"
            )
        self._timed = timed

    def _causal(self, mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor) -> bool | None:
        """Whether this call is causal; None: as the layer was made."""
        if mask is None:
            return True if is_causal else None
        if is_causal and values_are_hidden():
            return True
        place = 0 if query.dim() == 2 or not self.batch_first else 1
        rows = 1 if query.dim() == 2 else query.shape[1 - place]
        causal = is_causal_mask(mask, (rows * self.num_heads, query.shape[place], key.shape[place]))
        if causal is False:
            raise ValueError(
                "attn_mask must be a causal mask, True or -inf above the diagonal and nowhere else, such as "
                "torch.nn.Transformer.generate_square_subsequent_mask(T): NAC selects the keys of a query, and "
                "has no masks of other pairs; mark padding in key_padding_mask"
            )
        return causal

    def _batched(self, x: Tensor, alone: bool) -> Tensor:
        if alone:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _stamps(self, x: Tensor | None, alone: bool) -> Tensor | None:
        return x if x is None or alone or x.dim() < 2 or self.batch_first else x.transpose(0, 1)

    def _as_given(self, y: Tensor, alone: bool) -> Tensor:
        if alone:
            return y.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1)


def _check(**inputs: Tensor) -> None:
    """Refuse what torch.nn.MultiheadAttention takes in shortcuts of its own, and inputs of different ranks."""
    if nested := [name for name, x in inputs.items() if x.is_nested]:
        raise ValueError(
            f"{nested[0]} is a nested tensor; pad it with torch.nested.to_padded_tensor, and mark the padding in "
            "key_padding_mask"
        )
    ranks = {x.dim() for x in inputs.values()}
    if ranks not in ({2}, {3}):
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in inputs.items())
        raise ValueError(f"query, key and value must all have three dimensions, or all two, got {shapes}")
