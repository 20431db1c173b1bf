"""Scaled dot-product attention (Vaswani et al., 2017): the baseline everybody knows."""

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from nacre._util.checks import flag, real
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of, join_heads
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real


@register(
    ModelInfo(
        "sdpa",
        kind="DT-attention",
        in_paper=True,
        paper="Vaswani et al., 2017",
        summary="scaled dot-product attention",
        uses_time=False,
        causal=False,
        cost="T² d",
        checked="torch.nn.MultiheadAttention",
    ),
    space={"dropout": Real(0.0, 0.5)},
)
@saveable("SDPA")
class SDPA(AttentionModel):
    """Multi-head attention with torch's fused kernel.

    Equal to `torch.nn.MultiheadAttention` with the same weights, except that the key projection has no bias (a
    softmax cancels it, so it could never learn).

    Args:
        causal: Whether step i sees only steps up to i.
        dropout: Share of attention weights dropped in training.

    Example:
        >>> SDPA(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self, d_input: int, d_model: int, num_heads: int, *, causal: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(d_input, d_model, num_heads)
        self.causal = flag("causal", causal)
        self.dropout = real("dropout", dropout, 0.0, 1.0)
        self.query_proj = nn.Linear(d_input, d_model)
        self.key_proj = nn.Linear(d_input, d_model, bias=False)
        self.value_proj = nn.Linear(d_input, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        projections = (self.query_proj, self.key_proj, self.value_proj)
        q, k, v = (heads_of(project(steps.x), self.num_heads) for project in projections)  # [B, H, T, D]
        # Padding comes last, so a causal query cannot see it.
        plain = self.causal and steps.query_only is None
        allowed = None if plain else steps.allowed_keys(self.causal)
        y = scaled_dot_product_attention(
            q, k, v, attn_mask=allowed, dropout_p=self.dropout if self.training else 0.0, is_causal=plain
        )
        return self.out_proj(join_heads(y))
