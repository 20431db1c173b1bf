"""ContiFormer (Chen et al., 2023): attention to keys and values that follow ODEs, by queries on a spline."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nacre._util.checks import flag, whole
from nacre._util.tracing import inside_torch_func, values_are_hidden
from nacre.io import saveable
from nacre.layer.dynamics import LONGEST
from nacre.models._base import AttentionModel, Steps, heads_of
from nacre.models._contiformer_curve import QueryCurve, gauss
from nacre.models._contiformer_flow import Field, Knots
from nacre.models._questions import split
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole

# Numbers in one [B, R, N, d] tensor of a block: small enough for a processor's cache.
_BLOCK = 2**19
# Numbers in all blocks up to which a training step keeps them. Of more, each is computed again when it is needed.
_KEPT = 2**25
_FAR, _STILL = 1e12, 1e-30  # units of time


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
        cost="T S d² + T² S d",
        checked="torchdiffeq",
        version=2,  # 2: paths solved once for all queries, integrals from step to step
    ),
    space={"nodes": Whole(1, 3), "d_feedforward": Whole(32, 256, log=True)},
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

    A step that only asks is answered as if it were one more observation, but no key.

    The path of a key or value is the same for all queries. It is solved once, at the knots 1, 2, 4, 8, 32, 2^10,
    2^20 and 2^40 units before and after its observation, as far as sequences last, and read as a cubic Hermite
    polynomial between these; means of values are exact integrals of that. Products are integrated from each
    observation to the next by a Gauss-Legendre rule, and summed. What grows with T² are matrix products, by blocks
    that bound memory. Choose `time_scale` so that sequences last about a unit, or raise `unfolds`.

    Root mean square distance of outputs from the limit of small steps, for first weights, and in brackets with
    all weight matrices doubled: 0.0005 (0.00004) with 48 steps over one unit, where version 1, which solved each
    pair by itself in three steps, had 0.003 (0.3). Of two steps over one unit it is (0.0001), and with a single
    node (0.01), where version 1 was exact to six digits.

    Args:
        nodes: Number of quadrature nodes from each observation to the next. One saves a little time where
            sequences have many steps.
        unfolds: Number of Runge-Kutta steps from each knot to the next, each of which adds a knot.
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
        nodes: int = 2,
        unfolds: int = 1,
        d_feedforward: int = 128,
        causal: bool = False,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, num_heads, time_scale)
        self.nodes = whole("nodes", nodes, 1)
        self.rule = gauss(nodes)
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
        z = self.attention_norm(h + self.out_proj(self._attention(h, steps)))
        return self.ff_norm(z + self.ff(z))

    def _attention(self, h: Tensor, steps: Steps) -> Tensor:
        """Means of values, [B, T, d]."""
        known, questions = (steps, None) if steps.query_only is None else split(steps)
        seen = h if questions is None else self.input_proj(known.x)  # [B, R, d]
        span = steps.time.unsqueeze(1) - known.time.unsqueeze(2)  # [B, R, T]
        longest = LONGEST if values_are_hidden() else span.abs().max().item()
        knots = Knots(longest, self.unfolds, (1,) if self.causal else (1, -1))
        keys = knots.solve(self.key_field, self.key_proj(seen))  # [B, R, M, d]
        values = knots.solve(self.value_field, self.value_proj(seen))
        q = self.query_proj(h)
        score = self._scores(q, keys, span, QueryCurve(q, steps, known, questions), knots)
        if self.causal:
            last = torch.arange(seen.shape[1], device=h.device).expand_as(known.time).unsqueeze(-1)
            last = last if questions is None else questions.join(last, questions.before.unsqueeze(-1))
            start = torch.arange(seen.shape[1], device=h.device)[:, None, None]
            # Where there is no key, the first: the answer is discarded.
            score = score.masked_fill(start > last.unsqueeze(1).clamp(min=0), -torch.inf)
        allowed = known.allowed_keys()
        if allowed is not None:
            score = score.masked_fill(~allowed.view(*known.time.shape, 1, 1), -torch.inf)
        return _by_blocks(partial(_mix, knots), score.softmax(1), values, span).squeeze(1)

    def _scores(self, q: Tensor, keys: Tensor, span: Tensor, curve: QueryCurve, knots: Knots) -> Tensor:
        """Mean products of queries and keys between two steps: [B, R, T, H]."""
        query, time = curve.at(self.rule)
        passed = time.flatten(1).unsqueeze(1) - curve.time.unsqueeze(2)  # [B, R, P nodes]
        products = _by_blocks(
            partial(_products, self.num_heads, knots), query.flatten(1, 2).unsqueeze(1), keys, passed
        )
        products = q.new_tensor(self.rule.weights) @ products.unflatten(2, time.shape[1:])  # [B, R, P, H]
        # A unit in which the longest spans and products with them fit into single precision.
        unit = (span.abs().amax((1, 2)) / _FAR).clamp(min=1)[:, None, None]
        gap = (curve.gap.unsqueeze(1) / unit).to(q.dtype).unsqueeze(-1)
        passed = (span.abs() / unit).to(q.dtype).unsqueeze(-1)
        still = passed < _STILL
        between = curve.to_steps(products * gap) / torch.where(still, 1, passed)
        at_once = (heads_of(keys[:, :, 0], self.num_heads) @ heads_of(q, self.num_heads).mT).permute(0, 2, 3, 1)
        return torch.where(still, at_once, between) * (q.shape[-1] // self.num_heads) ** -0.5


def _products(num_heads: int, knots: Knots, q: Tensor, keys: Tensor, passed: Tensor) -> Tensor:
    """Products [B, R, N, H] of queries [B, 1, N, d] with paths of keys [B, R, M, d] at times [B, R, N]."""
    there = knots.at(passed.to(q.dtype)).mT @ keys
    return (there * q).unflatten(-1, (num_heads, -1)).sum(-1)


def _mix(knots: Knots, weights: Tensor, values: Tensor, passed: Tensor) -> Tensor:
    """Sums [B, 1, N, d] of means of values, by weights [B, R, N, H]."""
    means = (knots.means(passed.to(values.dtype)).mT @ values).unflatten(-1, (weights.shape[-1], -1))
    return (weights.unsqueeze(-1) * means).sum(1, keepdim=True).flatten(-2)


def _by_blocks(function: Callable[..., Tensor], left: Tensor, paths: Tensor, passed: Tensor) -> Tensor:
    """A function of [B, ., N, .], paths [B, R, M, d] and times [B, R, N], by blocks of B and N."""
    rows, starts, count = passed.shape
    passed = passed.clamp(-LONGEST, LONGEST)
    if inside_torch_func() or count == 0:
        return function(left, paths, passed=passed)
    numbers = starts * paths.shape[-1]
    size = min(count, max(1, _BLOCK // numbers))
    row_size = max(1, _BLOCK // (numbers * size))
    keep = rows * count * numbers <= _KEPT
    blocks = []
    # Split, because the gradient of a slice would be as large as what it was cut from.
    for some in zip(*(tensor.split(row_size) for tensor in (left, paths, passed)), strict=True):
        parts = []
        for left_part, passed_part in zip(some[0].split(size, 2), some[2].split(size, 2), strict=True):
            call = partial(function, passed=passed_part)
            parts.append((call if keep else partial(_Recomputed.apply, call))(left_part, some[1]))
        blocks.append(torch.cat(parts, 2) if len(parts) > 1 else parts[0])
    return torch.cat(blocks)
