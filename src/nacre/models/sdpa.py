"""Scaled dot-product attention (Vaswani et al., 2017): the baseline everybody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from nacre._check import flag, padding_mask, real, sequence, time_stamps, whole
from nacre.io import saveable
from nacre.models.registry import register

if TYPE_CHECKING:
    import torch


@saveable("SDPA")
class SDPA(nn.Module):
    """Multi-head attention with torch's fused kernel.

    Equal to `torch.nn.MultiheadAttention` with the same weights, except that the key projection has no bias (a
    softmax cancels it, so it could never learn) and that queries without a valid key give zeros, not NaN.

    Args:
        d_input: Width of the input.
        d_model: Width of the output, a multiple of `num_heads`.
        num_heads: Number of heads.
        causal: Whether step i sees only steps up to i.
        dropout: Share of attention weights dropped in training.
        device: Where the parameters live.
        dtype: Their type.

    Example:
        >>> SDPA(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        causal: bool = False,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        whole("d_input", d_input, 1)
        whole("num_heads", num_heads, 1)
        if whole("d_model", d_model, 1) % num_heads:
            raise ValueError(
                f"d_model must be a multiple of num_heads, got d_model={d_model}, num_heads={num_heads}"
            )
        self.d_input, self.d_model, self.num_heads = d_input, d_model, num_heads
        self.causal = flag("causal", causal)
        self.dropout = real("dropout", dropout, 0.0, 1.0)
        self.query_proj = nn.Linear(d_input, d_model, device=device, dtype=dtype)
        self.key_proj = nn.Linear(d_input, d_model, bias=False, device=device, dtype=dtype)
        self.value_proj = nn.Linear(d_input, d_model, device=device, dtype=dtype)
        self.out_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)

    def forward(self, x: Tensor, time: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            x: [B, T, d_input].
            time: [B, T], checked and not used: this model knows order only through its neighbours.
            key_padding_mask: [B, T] bool, True = padding.

        Returns:
            [B, T, d_model], zeros at padded steps.
        """
        sequence("x", x, self.d_input, self.out_proj.weight)
        shape = (x.shape[0], x.shape[1])
        if time is not None:
            time_stamps("time", time, shape)
        allowed = None
        if key_padding_mask is not None:
            padding_mask("key_padding_mask", key_padding_mask, shape)
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0)
            allowed = ~key_padding_mask[:, None, None]  # [B, 1, 1, T]
            if self.causal:
                allowed = allowed & allowed.new_ones(x.shape[1], x.shape[1]).tril()
        q, k, v = (
            p(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, D]
            for p in (self.query_proj, self.key_proj, self.value_proj)
        )
        y = scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=allowed,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal and allowed is None,
        )
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        return y if key_padding_mask is None else y.masked_fill(key_padding_mask.unsqueeze(-1), 0)

    def to_config(self) -> dict[str, Any]:
        """Plain data from which `from_config` makes the same module, without its weights."""
        return {
            "d_input": self.d_input,
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "causal": self.causal,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> SDPA:
        """Inverse of `to_config`."""
        return cls(**data)


@register("sdpa", kind="DT-attention", summary="scaled dot-product attention", uses_time=False)
def sdpa(*, d_input: int, d_model: int, num_heads: int, causal: bool = False, dropout: float = 0.0) -> SDPA:
    """Scaled dot-product attention."""
    return SDPA(d_input, d_model, num_heads, causal=causal, dropout=dropout)
