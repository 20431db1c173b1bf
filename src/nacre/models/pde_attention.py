"""PDE-Attention (Zhang et al., 2025): attention weights that evolve along the keys by a differential equation."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from nacre._util.checks import choice, real, whole
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of, join_heads
from nacre.models._questions import split
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Real, Whole

_PDES = ("diffusion", "reaction", "wave")


@register(
    ModelInfo(
        "pde-attention",
        kind="CT-attention",
        in_paper=True,
        paper="Zhang et al., 2025",
        summary="attention weights smoothed along the keys by a PDE",
        uses_time=False,
        causal=False,
        cost="T² d + S T d",
        checked="loop over weights, Fourier form",
    ),
    space={"pde": Choice(_PDES), "steps": Whole(1, 8), "alpha": Real(0.01, 0.5, log=True)},
)
@saveable("PDEAttention")
class PDEAttention(AttentionModel):
    """Softmax attention whose weights A evolve for a few steps of pseudo-time along the axis of keys.

    With A_0 = softmax(Q K' / sqrt(D)) and the discrete Laplacian L over the valid keys,

        diffusion:  A <- A + dt alpha A L
        reaction:   A <- A + dt (alpha A L + beta A (1 - A)), then each row divided by its sum
        wave:       A_(n+1) = 2 A_n - A_(n-1) + (dt alpha)² A_n L, at rest at first, alpha being the speed

    and the output is W_o [A V] + b_o. L conserves a row's sum, and padding neither gives nor takes. Steps that
    only ask are no keys: the observations before and after one are neighbours.

    Published are the equations. Reconstructed: alpha and beta are learned for each head; alpha stays below
    1 / (2 dt), which keeps every scheme stable and diffused weights in [0, 1]; a wave's first step has half the
    acceleration, which makes the scheme second-order. Weights of a wave may become negative.

    Diffusion and waves are linear in A, and L is symmetric, so they act on the values instead, and the table of
    weights is never made. Reaction makes it at every step, which takes many times as long and T² memory.

    Args:
        pde: "diffusion", "reaction" or "wave".
        boundary: "reflect" lets no mass out at the first and last valid key; "periodic" joins them.
        steps: Number of steps.
        dt: Length of a step.
        alpha: First diffusivity (speed of waves), below 1 / (2 dt).
        beta: First growth rate; for "reaction" only.

    Example:
        >>> PDEAttention(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        pde: str = "diffusion",
        boundary: str = "reflect",
        steps: int = 5,
        dt: float = 0.1,
        alpha: float = 0.1,
        beta: float = 0.1,
    ) -> None:
        super().__init__(d_input, d_model, num_heads)
        choice("pde", pde, _PDES)
        choice("boundary", boundary, ("reflect", "periodic"))
        self.pde = pde
        self.boundary = boundary
        self.steps = whole("steps", steps, 1)
        self.dt = real("dt", dt, 0.0, 1e6, open_low=True)
        self.alpha = real("alpha", alpha, 0.0, 1e6, open_low=True)
        self.beta = real("beta", beta, 0.0, 1e6, open_low=True)
        share = 2 * self.dt * self.alpha
        if share >= 1:
            raise ValueError(f"alpha must be below 1 / (2 dt) = {0.5 / self.dt:g}, got {alpha}")
        self.query_proj = nn.Linear(d_input, d_model)
        self.key_proj = nn.Linear(d_input, d_model, bias=False)  # a softmax would cancel a bias
        self.value_proj = nn.Linear(d_input, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.raw_alpha = nn.Parameter(torch.full((num_heads, 1, 1), math.log(share / (1 - share))))
        if pde == "reaction":
            self.raw_beta = nn.Parameter(torch.full((num_heads, 1, 1), math.log(self.beta)))

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        q = heads_of(self.query_proj(steps.x), self.num_heads)  # [B, H, T, D]
        known = steps if steps.query_only is None else split(steps)[0]
        k, v = (heads_of(project(known.x), self.num_heads) for project in (self.key_proj, self.value_proj))
        allowed = known.allowed_keys()
        keys = None if allowed is None else allowed.mT  # [B, 1, T, 1]
        if self.pde == "reaction":
            # Not `weights.mT @ v`, whose gradient would come transposed and make each step of `_react` slow.
            y = (v.mT @ self._react(q, k, keys)).mT
        else:
            evolve = self._diffuse if self.pde == "diffusion" else self._swing
            y = scaled_dot_product_attention(q, k, evolve(v, keys), attn_mask=allowed)
        return self.out_proj(join_heads(y))

    def _rate(self) -> Tensor:
        """The product dt alpha, below 1/2: [H, 1, 1]."""
        return self.raw_alpha.sigmoid() / 2

    def _diffuse(self, u: Tensor, keys: Tensor | None) -> Tensor:
        """Values [B, H, T, D] after all steps of diffusion."""
        rate = self._rate()
        for _ in range(self.steps):
            u = u + rate * self._laplacian(u, keys)
        return u

    def _swing(self, u: Tensor, keys: Tensor | None) -> Tensor:
        """Values [B, H, T, D] after all steps of a wave that is at rest at first."""
        square = self._rate().square()
        before, u = u, u + square / 2 * self._laplacian(u, keys)
        for _ in range(self.steps - 1):
            before, u = u, 2 * u - before + square * self._laplacian(u, keys)
        return u

    def _react(self, q: Tensor, k: Tensor, keys: Tensor | None) -> Tensor:
        """Weights [B, H, keys, queries] after all steps of reaction and diffusion."""
        scores = (k * k.shape[-1] ** -0.5) @ q.mT
        if keys is not None:
            scores = scores.masked_fill(~keys, -torch.inf)
        u = scores.softmax(2)
        rate, growth = self._rate(), self.dt * self.raw_beta.exp()
        for _ in range(self.steps):
            u = u + rate * self._laplacian(u, keys) + growth * u * (1 - u)
            u = u / u.sum(2, keepdim=True)
        return u

    def _laplacian(self, u: Tensor, keys: Tensor | None) -> Tensor:
        """Second differences of u [B, H, T, any] over the valid keys, which come first: [B, 1, T, 1] or None."""
        flow = u.diff(dim=2)  # from each key to the one before
        if keys is not None:
            flow = flow.masked_fill(~keys[:, :, 1:], 0)
        out = pad(flow, (0, 0, 0, 1)) - pad(flow, (0, 0, 1, 0))
        if self.boundary == "periodic":
            ends = _ends(u, keys)
            out = out - ends * (ends * u).sum(2, keepdim=True)
        return out


def _ends(u: Tensor, keys: Tensor | None) -> Tensor:
    """+1 at the last valid key and -1 at the first, 0 where they are one: [B or 1, 1, T, 1]."""
    valid = torch.ones_like(u[:1, :1, :, :1]) if keys is None else keys.to(u.dtype)
    after = pad(valid, (0, 0, 0, 1))[:, :, 1:]
    first = pad(torch.zeros_like(valid[:, :, 1:]), (0, 0, 1, 0), value=1.0)
    return valid - after - first
