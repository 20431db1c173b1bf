"""mTAN (Shukla and Marlin, 2021): attention by time alone, to reference times and back."""

import torch
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.io import saveable
from nacre.models._base import SequenceModel, Steps, heads_of, join_heads
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole

# Units of time, before or after, in which the linear part of an embedding grows. In scores of more than 1e7 single
# precision has no digits for a softmax.
_LINEAR = 1e6


class TimeAttention(nn.Module):
    """Attention whose scores depend on times only, by embeddings of width `d_time`."""

    def __init__(self, d_time: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.frequency = nn.Parameter(torch.empty(d_time).uniform_(-1, 1))
        self.phase = nn.Parameter(torch.empty(d_time).uniform_(-1, 1))
        self.query_proj = nn.Linear(d_time, d_time)
        self.key_proj = nn.Linear(d_time, d_time, bias=False)  # the softmax would cancel a bias

    def embed(self, time: Tensor, linear_time: Tensor) -> Tensor:
        """Embeddings [B, T, E] of times [B, T], whose linear part may have another origin.

        In float64 until the sine is taken: seconds since 1970 have ten digits before the point.
        """
        frequency, phase = self.frequency.double(), self.phase.double()
        linear = linear_time.clamp(-_LINEAR, _LINEAR).unsqueeze(-1) * frequency[:1] + phase[:1]
        waves = (time.unsqueeze(-1) * frequency[1:] + phase[1:]).sin()
        return torch.cat([linear, waves], -1).to(self.frequency.dtype)

    def forward(self, query_time: Tensor, key_time: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        """Means [B, Q, H V] of values [B, K, V], which all heads share, at times [B, Q] and [B, K] in float64.

        Times that all rows share are [1, Q] or [1, K], and embedded once. Keys may be used where `allowed`
        [B, 1, 1, K] is None or True.
        """
        # The softmax cancels what all keys of a row share: counting their linear part from the first key changes
        # nothing but the rounding.
        keys = self.key_proj(self.embed(key_time, key_time - key_time[:, :1]))
        queries = self.query_proj(self.embed(query_time, query_time))
        q, k = (heads_of(y, self.num_heads) for y in (queries, keys))  # [B or 1, H, ., E/H]
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        # Not by fused attention, which would need a copy of the values for each head.
        weights = scores.softmax(-1).expand(value.shape[0], -1, -1, -1)
        return join_heads((weights.flatten(1, 2) @ value).unflatten(1, (self.num_heads, -1)))


@register(
    ModelInfo(
        "mtan",
        kind="CT-attention",
        in_paper=True,
        paper="Shukla and Marlin, 2021",
        summary="attention by learned time embeddings, over reference times",
        uses_time=True,
        causal=False,
        cost="T m d",
        checked="loops over the equations",
    ),
    space={"d_time": Whole(32, 256, step=32), "references": Whole(16, 256, log=True)},
)
@saveable("MTAN")
class MTAN(SequenceModel):
    """Multi-time attention: steps to reference times, a GRU over those, and back to the times of the steps.

        e(t) = [w_0 t + b_0, sin(w_i t + b_i) for i = 1 ... E-1]
        a_h(t, s) = softmax over s of (Q_h e(t)) . (K_h e(s)) / sqrt(E / H)
        u(r) = W [sum over steps j of a_h(r, t_j) x_j, for each head h] + c      at each reference time r
        g = bidirectional GRU over u(r)
        y_i = V [sum over references r of a'_h(t_i, r) g(r), for each head h] + c'

    The attention is the published one; both attentions have an embedding and projections of their own, as in the
    authors' code. Their network ends in a classifier, or in a variational autoencoder for interpolation. Ours: one
    layer without latent noise, read out at the times of its own input, and all features of a valid step count as
    observed, so that they share one softmax. The GRU has the width d_model in each direction.

    The reference times are evenly spaced over [0, 1] in units of `time_scale`. Choose it so that sequences last
    about one unit, and count stamps from where sequences begin. Others give finite outputs, but far outside [0, 1]
    the linear part of the embedding outweighs the waves in the second attention; beyond a million units it grows
    no more.

    Args:
        d_time: Width E of the time embeddings, a multiple of `num_heads`.
        references: Number of reference times.

    Example:
        >>> time = 48 * torch.rand(2, 10).sort(1).values  # hours since admission, for two days
        >>> MTAN(7, 64, 4, time_scale=48.0)(torch.randn(2, 10, 7), time=time).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        d_time: int = 128,
        references: int = 128,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.num_heads = whole("num_heads", num_heads, 1)
        self.d_time = whole("d_time", d_time, 2)
        self.references = whole("references", references, 2)
        if d_time % num_heads:
            raise ValueError(f"d_time must be a multiple of num_heads, got {d_time=}, {num_heads=}")
        self.encoder = TimeAttention(d_time, num_heads)
        self.encoder_proj = nn.Linear(num_heads * d_input, d_model)
        self.gru = nn.GRU(d_model, d_model, batch_first=True, bidirectional=True)
        self.decoder = TimeAttention(d_time, num_heads)
        self.out_proj = nn.Linear(num_heads * 2 * d_model, d_model)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        references = torch.linspace(0, 1, self.references, dtype=torch.float64, device=steps.x.device)
        references = references.unsqueeze(0)  # [1, K]
        time = steps.stamps()
        u = self.encoder_proj(self.encoder(references, time, steps.x, steps.allowed_keys()))
        g, _ = self.gru(u)  # [B, K, 2 d_model]
        return self.out_proj(self.decoder(time, references, g, None))
