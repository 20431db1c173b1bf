"""`NACEncoderLayer`: a layer for `torch.nn.TransformerEncoder` whose attention is NAC."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nacre.layer.attention import NAC
from nacre.nn.multihead_attention import NACMultiheadAttention
from nacre.nn.time import stamps


class NACEncoderLayer(nn.TransformerEncoderLayer):
    """`torch.nn.TransformerEncoderLayer` with `NACMultiheadAttention` in place of its attention.

    Give it to `torch.nn.TransformerEncoder`, with `enable_nested_tensor=False`, or the encoder warns that it
    cannot take a shortcut. The encoder hands on no time stamps: call it inside `nacre.nn.stamps`. The layers that
    an encoder makes of one are copies, with the same wiring and, at first, the same weights.

    Args:
        d_model: Width of inputs and output.
        nhead: Number of heads.
        dim_feedforward: Hidden width of the feed-forward network.
        dropout: Share of what either branch adds that is dropped in training, and of attention weights.
        activation: Of the feed-forward network: "relu", "gelu" or a function.
        layer_norm_eps: As in PyTorch.
        batch_first: Whether inputs are [batch, time, features] instead of [time, batch, features].
        norm_first: Whether norms come before attention and feed-forward network, or after.
        bias: Whether there are additive constants.
        layer: The layer inside; None for `nacre.NAC` with its defaults. See `NACMultiheadAttention`.

    Example:
        >>> layer = NACEncoderLayer(64, 4, batch_first=True)
        >>> x, t = torch.randn(2, 100, 64), torch.rand(2, 100).cumsum(1)
        >>> layer(x, time=t).shape
        torch.Size([2, 100, 64])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = nn.functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer: NAC | None = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device=device,
            dtype=dtype,
        )
        self.self_attn = NACMultiheadAttention(  # pyright: ignore[reportAttributeAccessIssue]
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype, layer=layer
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        time: Tensor | None = None,
    ) -> Tensor:
        """As in PyTorch, and with `time` [B, T], or [T, B] if not batch_first, or [T] for all rows."""
        if time is None:
            return super().forward(src, src_mask, src_key_padding_mask, is_causal)
        with stamps(time):
            return super().forward(src, src_mask, src_key_padding_mask, is_causal)
