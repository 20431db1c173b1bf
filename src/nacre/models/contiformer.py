"""ContiFormer (Chen et al., 2023): attention to keys and values that follow ODEs, by queries on a spline."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nacre._util.checks import flag, whole
from nacre._util.tracing import inside_torch_func
from nacre.io import saveable
from nacre.layer.dynamics import LONGEST
from nacre.models._base import AttentionModel, Steps
from nacre.models._contiformer_flow import Field, QueryCurve, path
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole

# Numbers in one [B, Q, T, d] tensor of a block of queries: small enough for a processor's cache.
_BLOCK = 2**19


class _Recomputed(torch.autograd.Function):
    """A function of tensors that keeps nothing but them for its backward pass.

    Unlike `torch.utils.checkpoint` it leaves no graph between the large tensors it frees, whose thousands of small
    allocations would fragment memory.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:  # noqa: ANN401
        ctx.function = function
        ctx.save_for_backward(*tensors)
        return function(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401  # pyright: ignore
        tensors = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            y = ctx.function(*tensors)
        return None, *torch.autograd.grad(y, tensors, grads)


@register(
    ModelInfo(
        "contiformer",
        kind="CT-attention",
        in_paper=True,
        paper="Chen et al., 2023",
        summary="attention to keys and values that flow along neural ODEs",
        uses_time=True,
        causal=False,
        cost="T² S d²",
        checked="torchdiffeq",
    ),
    space={"nodes": Whole(2, 5), "d_feedforward": Whole(32, 256, log=True)},
)
@saveable("ContiFormer")
class ContiFormer(AttentionModel):
    """One block of ContiFormer.

        h = W x + c, and from it q, k and v of each step, linear
        dk_j/dt = f_k(t - t_j, k_j) from k_j at t_j, forward and backward in time, and v_j likewise
        q(t): a cubic Hermite spline through the q_i
        a_ij = 1 / (t_i - t_j) integral from t_j to t_i of q(t) . k_j(t) dt / sqrt(D), in each head
        v_ij = 1 / (t_i - t_j) integral from t_j to t_i of v_j(t) dt
        z_i = LayerNorm(h_i + W_o sum over j of softmax over j (a_ij) v_ij)
        y_i = LayerNorm(z_i + FFN(z_i)), with one hidden layer and GELU

    These are the paper's equations. Splines with backward differences, which never look ahead, and the field
    f = sigmoid(LayerNorm(W y + w t + b)) over all heads together are those of the authors' code. Ours: f gets the
    time since the observation instead of the stamp, and the input no encoding of absolute time, so only
    differences of stamps matter; there is no dropout; and `QueryCurve` says how the spline treats close and equal
    stamps. Where no time passes between i and j, a_ij is q_i . k_j / sqrt(D).

    The integrals are Gauss-Legendre sums. All pairs share the solver steps, as shares of the way from t_j to t_i,
    so the loop is over those, and over blocks of queries that bound memory (T² d numbers in each stage otherwise);
    in training, a block is recomputed in the backward pass. A pair gets the same few steps however far apart it
    is: choose `time_scale` so that sequences last a few units, or raise `nodes` and `unfolds`.

    Args:
        nodes: Number of quadrature nodes between two observations.
        unfolds: Number of Runge-Kutta steps from each node to the next.
        d_feedforward: Width of the hidden layer after the attention.
        causal: Whether step i sees only steps up to i.

    Example:
        >>> time = torch.rand(2, 10).cumsum(1)
        >>> ContiFormer(7, 64, 4)(torch.randn(2, 10, 7), time=time).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        nodes: int = 3,
        unfolds: int = 1,
        d_feedforward: int = 128,
        causal: bool = False,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, num_heads, time_scale)
        self.nodes = whole("nodes", nodes, 1)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.d_feedforward = whole("d_feedforward", d_feedforward, 1)
        self.causal = flag("causal", causal)
        self.input_proj = nn.Linear(d_input, d_model)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.key_field = Field(d_model)
        self.value_field = Field(d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.attention_norm = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_feedforward), nn.GELU(), nn.Linear(d_feedforward, d_model))
        self.ff_norm = nn.LayerNorm(d_model)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        h = self.input_proj(steps.x)
        time = steps.time - steps.time[:, :1]  # so that points between two stamps are exact
        z = self.attention_norm(h + self.out_proj(self._attention(h, time, steps.allowed_keys())))
        return self.ff_norm(z + self.ff(z))

    def _attention(self, h: Tensor, time: Tensor, allowed: Tensor | None) -> Tensor:
        """Means of values, [B, T, d], by blocks of queries."""
        length = h.shape[1]
        block = length if inside_torch_func() else max(1, _BLOCK // h.numel())
        curve = QueryCurve(self.query_proj(h), time)
        k, v = self.key_proj(h), self.value_proj(h)
        tensors = (curve.table, k, v, *self.key_field.weights(), *self.value_field.weights())
        parts = []
        for first in range(0, length, block):
            part = partial(self._block, curve, time, allowed, first, min(first + block, length))
            parts.append(_Recomputed.apply(part, *tensors) if block < length else part(*tensors))
        return torch.cat(parts, 1)

    def _block(
        self, curve: QueryCurve, time: Tensor, allowed: Tensor | None, first: int, last: int, *tensors: Tensor
    ) -> Tensor:
        """Means of values for queries first ... last - 1."""
        table, k, v, *fields = tensors
        keys = last if self.causal else k.shape[1]
        span = time[:, first:last, None] - time[:, None, :keys]
        span = span.clamp(-LONGEST, LONGEST).unsqueeze(-1).to(k.dtype)  # [B, Q, K, 1]
        points, weights = np.polynomial.legendre.leggauss(self.nodes)
        shares = ((points + 1) / 2).tolist()
        k_path = path(fields[:4], k[:, None, :keys], span, shares, self.unfolds)
        v_path = path(fields[4:], v[:, None, :keys], span, shares, self.unfolds)
        score, value = torch.zeros((), dtype=k.dtype, device=k.device), torch.zeros_like(k[:1, :1])
        for share, weight, k_there, v_there in zip(shares, (weights / 2).tolist(), k_path, v_path, strict=True):
            q_there = curve(table, first, last, keys, share)
            products = (q_there * k_there).unflatten(-1, (self.num_heads, -1))
            score = score + weight * products.sum(-1)  # [B, Q, K, H]
            value = torch.add(value, v_there, alpha=weight)  # [B, Q, K, d]
        score = score * (k.shape[-1] // self.num_heads) ** -0.5
        if self.causal:
            step = torch.arange(last, device=k.device)
            score = score.masked_fill((step > step[first:, None]).unsqueeze(-1), -torch.inf)
        elif allowed is not None:
            score = score.masked_fill(~allowed.squeeze(1).unsqueeze(-1), -torch.inf)
        mixed = score.softmax(2).unsqueeze(-1) * value.unflatten(-1, (self.num_heads, -1))
        return mixed.sum(2).flatten(2)
