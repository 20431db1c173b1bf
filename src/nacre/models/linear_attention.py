"""Rectified linear attention (Zhang et al., 2021): a ReLU in place of the softmax."""

import torch
from torch import Tensor, nn

from nacre._util.checks import choice, flag
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice

_EPSILON = 1e-8
_QUERIES = 256  # at a time, so that their scores stay in the cache
_NORMS = ("all", "head")


@register(
    ModelInfo(
        "linear-attention",
        kind="DT-attention",
        in_paper=True,
        paper="Zhang et al., 2021",
        summary="rectified linear attention: ReLU scores, gated RMS norm",
        uses_time=False,
        causal=False,
        cost="T² d",
        checked="rela-transformer 0.0.7",
    ),
    space={"norm": Choice(_NORMS)},
)
@saveable("ReLA")
class ReLA(AttentionModel):
    """Attention with rectified scores, which are sparse and are not normalised over the keys.

    For each head

        w = relu(Q K' / sqrt(D)),    o = w V

    and over the heads side by side, with a scale s and a gate g of their width,

        y = W_o [s * o / rms(o) * sigmoid(g * o)] + b_o,    rms(o) = sqrt(mean(o²) + 1e-8).

    "Linear" is the unit, not the cost, which grows with T². This is the published layer, with the biases and the
    norm of the authors' code. `norm="head"` normalises each head by itself, with one scale and gate for all heads,
    as the package rela-transformer does. Gates start at 1, as in that package. A step none of whose scores is
    positive gives b_o.

    Args:
        norm: "all" takes the norm over all heads, "head" over each head.
        causal: Whether step i sees only steps up to i.

    Example:
        >>> ReLA(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self, d_input: int, d_model: int, num_heads: int, *, norm: str = "all", causal: bool = False
    ) -> None:
        super().__init__(d_input, d_model, num_heads)
        choice("norm", norm, _NORMS)
        self.norm = norm
        self.causal = flag("causal", causal)
        self.query_proj = nn.Linear(d_input, d_model)
        self.key_proj = nn.Linear(d_input, d_model)
        self.value_proj = nn.Linear(d_input, d_model)
        width = d_model if norm == "all" else d_model // num_heads
        self.norm_scale = nn.Parameter(torch.ones(width))
        self.norm_gate = nn.Parameter(torch.ones(width))
        self.out_proj = nn.Linear(d_model, d_model)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        projections = (self.query_proj, self.key_proj, self.value_proj)
        q, k, v = (heads_of(project(steps.x), self.num_heads) for project in projections)  # [B, H, T, D]
        hidden = steps.hidden()
        if hidden is not None:
            # A key of zeros scores 0, which a ReLU makes the weight 0, and the gradient too.
            k = k.masked_fill(hidden[:, None, :, None], 0)
        o = self._attend(q * q.shape[-1] ** -0.5, k, v).transpose(1, 2)  # [B, T, H, D]
        if self.norm == "all":
            return self.out_proj(self._gated_norm(o.flatten(2)))
        return self.out_proj(self._gated_norm(o).flatten(2))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Sums of values weighted by rectified scores: [B, H, T, D]."""
        if torch.compiler.is_compiling():  # parts would tie a program to one length
            scores = q @ k.mT
            return (scores.tril() if self.causal else scores).relu() @ v
        parts = []
        for start in range(0, q.shape[2], _QUERIES):
            seen = slice(start + _QUERIES if self.causal else None)
            scores = q[:, :, start : start + _QUERIES] @ k[:, :, seen].mT
            # In place, so that training keeps one table only: no backward pass needs the product or `tril`.
            if self.causal:
                scores.tril_(start)
            parts.append(scores.relu_() @ v[:, :, seen])
        return torch.cat(parts, 2)

    def _gated_norm(self, o: Tensor) -> Tensor:
        """RMS norm over the last axis, and a gate."""
        # Epsilon under the root, because a step without any positive score is all zeros.
        inverse = (o.square().mean(-1, keepdim=True) + _EPSILON).rsqrt()
        return self.norm_scale * o * inverse * torch.sigmoid(self.norm_gate * o)
