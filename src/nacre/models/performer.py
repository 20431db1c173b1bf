"""Performer (Choromanski et al., 2021): softmax attention by positive random features."""

from itertools import repeat

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nacre._util.checks import real, whole
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of, join_heads
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole

_BLOCK = 2**19  # features of some rows of a batch at a time, so that they stay in a processor's cache


@register(
    ModelInfo(
        "performer",
        kind="DT-attention",
        in_paper=True,
        paper="Choromanski et al., 2021",
        summary="softmax attention by positive orthogonal random features",
        uses_time=False,
        causal=False,
        cost="T m d",
        checked="performer-pytorch 1.1.4",
    ),
    space={"features": Whole(32, 512, log=True)},
)
@saveable("Performer")
class Performer(AttentionModel):
    """Attention whose cost grows with T: FAVOR+ with positive features of the softmax kernel.

    With x' = x / D^(1/4) and m random rows w_j, orthogonal in blocks of D and as long as Gaussian ones,

        phi_j(x) = exp(w_j . x' - |x'|² / 2 - c) + epsilon
        y = phi(Q) (phi(K)' V) / (phi(Q) phi(K)' 1)

    where c, held constant in gradients, is the largest w_j . x' of a query, and of all keys of one sequence and
    head. The usual factor m^(-1/2) cancels. With `epsilon` 0 sums of features estimate those of softmax attention
    without bias, but may underflow and give NaN where queries or keys are long.

    This is the published layer without its causal form. As in the package performer-pytorch, all heads share the
    random rows, and the projections of queries, keys and values have no bias. Unlike there, padded keys are left
    out altogether, and rows are drawn from the uniform distribution of orthogonal matrices: a bare QR
    decomposition fixes signs, which biases the estimate.

    Args:
        features: Number m of random features.
        epsilon: Added to each feature.
        redraw: Forward passes in training after which rows are drawn anew; 0 for never.

    Example:
        >>> Performer(7, 64, 4, features=32)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    projection: Tensor  # [m, D]
    passes: Tensor  # scalar, passes in training since it was drawn

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        features: int = 256,
        epsilon: float = 1e-4,
        redraw: int = 1000,
    ) -> None:
        super().__init__(d_input, d_model, num_heads)
        self.features = whole("features", features, 1)
        self.epsilon = real("epsilon", epsilon, 0.0, 1.0)
        self.redraw = whole("redraw", redraw, 0)
        self.query_proj = nn.Linear(d_input, d_model, bias=False)
        self.key_proj = nn.Linear(d_input, d_model, bias=False)
        self.value_proj = nn.Linear(d_input, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        projection = draw_projection(features, d_model // num_heads)
        self.register_buffer("projection", projection.to(self.out_proj.weight.dtype))
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        # A pass that gradient checkpointing repeats, inside a backward pass, must find the rows of the first one.
        if self.training and self.redraw and torch._C._current_graph_task_id() == -1:
            self._count_pass()
        projections = (self.query_proj, self.key_proj, self.value_proj)
        q, k, v = (heads_of(project(steps.x), self.num_heads) for project in projections)  # [B, H, T, D]
        allowed = steps.allowed_keys()
        masks = None if allowed is None else allowed.mT
        if torch.compiler.is_compiling():  # parts would tie a program to one length
            return self.out_proj(join_heads(self._attend(q, k, v, masks)))
        rows = max(1, _BLOCK // max(1, self.num_heads * q.shape[2] * self.features))
        parts = repeat(None) if masks is None else masks.split(rows)
        blocks = zip(q.split(rows), k.split(rows), v.split(rows), parts, strict=False)
        y = torch.cat([self._attend(*block) for block in blocks])
        return self.out_proj(join_heads(y))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        """Attention of each head: [B, H, T, D], for allowed keys [B, 1, T, 1]."""
        narrow, wide = v.dtype, torch.promote_types(v.dtype, torch.float32)
        q_features = self._exponentials(q.to(wide), None, keys=False)
        k_features = self._exponentials(k.to(wide), allowed, keys=True)
        values = pad(v.to(wide), (0, 1), value=1.0)  # [B, H, T, D + 1]: a value of 1 sums up the weights
        if allowed is not None:
            values = values * allowed
        # Epsilon is added to the sums rather than to each feature, which would need another [T, m] table.
        context = k_features.mT @ values + self.epsilon * values.sum(2, keepdim=True)  # [B, H, m, D + 1]
        sums = q_features @ context + self.epsilon * context.sum(2, keepdim=True)  # [B, H, T, D + 1]
        return (sums[..., :-1] / sums[..., -1:]).to(narrow)

    def _exponentials(self, x: Tensor, allowed: Tensor | None, *, keys: bool) -> Tensor:
        """Features [B, H, T, m] of queries or keys [B, H, T, D] before epsilon, 0 for forbidden keys."""
        x = x * x.shape[-1] ** -0.25
        exponent = x @ self.projection.to(x.dtype).T
        highest = exponent.detach().amax(-1, keepdim=True)
        if keys:
            if allowed is not None:
                highest = highest.masked_fill(~allowed, -torch.inf)
            highest = highest.amax(2, keepdim=True)
        down = x.square().sum(-1, keepdim=True) / 2 + highest
        if allowed is not None:
            down = down.masked_fill(~allowed, torch.inf)
        return exponent.sub_(down).exp_()

    def _count_pass(self) -> None:
        if self.passes >= self.redraw:
            # Not in place: a graph that waits for its backward pass may hold the rows.
            self.projection = draw_projection(*self.projection.shape).to(self.projection)
            self.passes.zero_()
        self.passes += 1


def draw_projection(features: int, width: int) -> Tensor:
    """Random rows [features, width] in float64, each Gaussian, orthogonal in blocks of `width`."""
    blocks = torch.randn(-(-features // width), width, width, dtype=torch.float64)
    q, r = torch.linalg.qr(blocks)
    # Only with a positive diagonal of R is Q uniform; LAPACK's first row always begins with a negative number.
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths = torch.randn(features, width, dtype=torch.float64).norm(dim=1, keepdim=True)
    return q.mT.flatten(0, 1)[:features] * lengths
