"""CTA (Chien and Chen, 2021): attention over a continuous trajectory, not only over its observations."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nacre._util.checks import flag, real, whole
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of, join_heads, unbind_time
from nacre.models._flow import drifting_steps
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real, Whole


@register(
    ModelInfo(
        "cta",
        kind="CT-attention",
        in_paper=True,
        paper="Chien and Chen, 2021",
        summary="attention integrated over the trajectory of an ODE with jumps",
        uses_time=True,
        causal=False,
        cost="T S d² + T² S d",
        checked="torchdiffeq",
        version=2,  # 2: solver steps of at most 5 units
    ),
    space={"hidden": Whole(16, 64, log=True), "unfolds": Whole(1, 4), "point_mass": Real(0.1, 10.0, log=True)},
)
@saveable("CTA")
class CTA(AttentionModel):
    """Continuous-time attention over a latent trajectory z(t).

        dz/dt = f(z), a tanh network, between observations;  z <- GRU(x_i, z) at observation i
        s_i(t) = q_i . k(z(t)) / sqrt(D)     with q_i linear in z just after observation i, in each head
        y_i = W (integral of e^{s_i} v(z)) / (integral of e^{s_i}) + c

    Both integrals run over dt from the first to the last observation (`causal`: to observation i), plus
    `point_mass` times the integrand just after each observation: an observation counts as much as that many units
    of time. That term is ours; without it there would be nothing to integrate for one observation, or for several
    at one time.

    A reconstruction: no code was published, and the paper is followed as far as its abstract goes (a trajectory
    that flows and jumps, and attention integrated along it). Exponential scores, one query for each observation,
    several heads, and the shape of f are ours.

    Each interval has S explicit midpoint steps, whose inner stages are also the nodes of the midpoint rule for the
    integrals: second order in 1/S. No step is longer than 5 units, so z flows for at most 5 S units from one
    observation to the next; the integrals count all of that time. All sums are one call of fused attention, with
    the logarithms of the nodes' widths added to the scores. Only z itself needs a loop over time, as jumps are
    nonlinear in the state.

    Args:
        hidden: Width of both hidden layers of f.
        unfolds: Number S of steps of the ODE solver in each interval.
        point_mass: Weight of an observation, in units of `time_scale`.
        causal: Whether the integrals for step i end there.

    Example:
        >>> time = torch.rand(2, 10).cumsum(1)
        >>> CTA(7, 64, 4)(torch.randn(2, 10, 7), time=time).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        hidden: int = 32,
        unfolds: int = 2,
        point_mass: float = 1.0,
        causal: bool = False,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, num_heads, time_scale)
        self.hidden = whole("hidden", hidden, 1)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.point_mass = real("point_mass", point_mass, 0.0, 1e6, open_low=True)
        self.causal = flag("causal", causal)
        self.flow = nn.Sequential(
            nn.Linear(d_model, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, d_model)
        )
        self.jump = nn.GRUCell(d_input, d_model)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model, bias=False)  # the softmax would cancel a bias
        self.value_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        elapsed = steps.elapsed(0.0)  # [B, T, 1]
        nodes = self.trajectory(steps.x, elapsed)  # [B, T, S + 1, d]
        q = heads_of(self.query_proj(nodes[:, :, -1]), self.num_heads)
        k = heads_of(self.key_proj(nodes.flatten(1, 2)), self.num_heads)  # [B, H, T (S + 1), D]
        v = heads_of(self.value_proj(nodes.flatten(1, 2)), self.num_heads)
        y = scaled_dot_product_attention(q, k, v, attn_mask=self._log_widths(steps, elapsed))
        return self.out_proj(join_heads(y))

    def trajectory(self, x: Tensor, elapsed: Tensor) -> Tensor:
        """States at the quadrature nodes, [B, T, S + 1, d], from x [B, T, d_input] and elapsed [B, T, 1].

        Those of step i are the midpoints of the sub-steps before observation i, and the state just after it.
        """
        jump, flow = self.jump, self.flow
        inputs = linear(x, jump.weight_ih, jump.bias_ih)
        width = drifting_steps(elapsed, self.unfolds)
        z = x.new_zeros(x.shape[0], self.d_model)
        nodes = []
        for inflow, dt, half in zip(*unbind_time([inputs, width, width / 2]), strict=True):
            for _ in range(self.unfolds):
                middle = torch.addcmul(z, half, flow(z))
                z = torch.addcmul(z, dt, flow(middle))
                nodes.append(middle)
            z = _gru(inflow, linear(z, jump.weight_hh, jump.bias_hh), z)
            nodes.append(z)
        return torch.stack(nodes, 1).unflatten(1, (x.shape[1], -1))

    def _log_widths(self, steps: Steps, elapsed: Tensor) -> Tensor:
        """Bias of the scores: [B, 1, 1, T (S + 1)], or [B, 1, T, T (S + 1)] if causal."""
        observed = torch.full_like(elapsed, self.point_mass)
        allowed = steps.allowed_keys()
        if allowed is not None:
            observed = observed * allowed[:, 0, 0, :, None]
        width = torch.cat([(elapsed / self.unfolds).expand(-1, -1, self.unfolds), observed], -1)
        log_width = width.log().flatten(1)[:, None, None]  # -inf where there is no width: no weight
        if not self.causal:
            return log_width
        step = torch.arange(elapsed.shape[1], device=elapsed.device)
        later = step.repeat_interleave(self.unfolds + 1) > step[:, None]  # [T, T (S + 1)]
        return log_width.masked_fill(later, -torch.inf)


def _gru(inputs: Tensor, recurrent: Tensor, z: Tensor) -> Tensor:
    """`nn.GRUCell` after its two products, [B, 3 d] each."""
    d = z.shape[-1]
    reset, keep = (inputs[:, : 2 * d] + recurrent[:, : 2 * d]).sigmoid().chunk(2, 1)
    new = torch.addcmul(inputs[:, 2 * d :], reset, recurrent[:, 2 * d :]).tanh()
    return torch.lerp(new, z, keep)
