"""CTA (Chien and Chen, 2021): attention over a continuous trajectory, not only over its observations."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from nacre._util.checks import flag, real, whole
from nacre.io import saveable
from nacre.models._base import AttentionModel, Steps, heads_of, join_heads, unbind_time
from nacre.models._flow import drifting_steps
from nacre.models._questions import Questions, split
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
    at one time. A step that only asks has its q_i from where it would be if it were the last step, but is not on
    the trajectory: integrals pass over it, and its own (`causal`) ends at the observation before.

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
        known, questions = (steps, None) if steps.query_only is None else split(steps)
        nodes = self.trajectory(known.x, known.elapsed(0.0))  # [B, R, S + 1, d]
        state = nodes[:, :, -1]
        last = torch.arange(state.shape[1], device=state.device).expand_as(known.time)
        if questions is not None:
            last = questions.join(last.unsqueeze(-1), questions.before.unsqueeze(-1)).squeeze(-1)
            state = questions.join(state, self._answer(state, questions))
        return self._attend(state, nodes, self._log_widths(known, last))

    def _answer(self, state: Tensor, questions: Questions) -> Tensor:
        """States [B Q, d] just after questions, each as if it were the last step."""
        steps = questions.steps
        inflow = linear(steps.x, self.jump.weight_ih, self.jump.bias_ih).squeeze(1)
        width = drifting_steps(steps.elapsed(0.0), self.unfolds).squeeze(1)
        (before,) = questions.states((torch.zeros_like(inflow[:, : self.d_model]),), (state,))
        return self._stepper()(before, inflow, width, width / 2)[-1]

    def _attend(self, state: Tensor, nodes: Tensor, bias: Tensor) -> Tensor:
        """Outputs [B, T, d] of queries from states [B, T, d], over nodes [B, R, S + 1, d]."""
        q = heads_of(self.query_proj(state), self.num_heads)
        k = heads_of(self.key_proj(nodes.flatten(1, 2)), self.num_heads)  # [B, H, R (S + 1), D]
        v = heads_of(self.value_proj(nodes.flatten(1, 2)), self.num_heads)
        return self.out_proj(join_heads(scaled_dot_product_attention(q, k, v, attn_mask=bias)))

    def trajectory(self, x: Tensor, elapsed: Tensor) -> Tensor:
        """States at the quadrature nodes, [B, T, S + 1, d], from x [B, T, d_input] and elapsed [B, T, 1].

        Those of step i are the midpoints of the sub-steps before observation i, and the state just after it.
        """
        inputs = linear(x, self.jump.weight_ih, self.jump.bias_ih)
        width = drifting_steps(elapsed, self.unfolds)
        z, step = x.new_zeros(x.shape[0], self.d_model), self._stepper()
        nodes = []
        for inflow, dt, half in zip(*unbind_time([inputs, width, width / 2]), strict=True):
            nodes += step(z, inflow, dt, half)
            z = nodes[-1]
        return torch.stack(nodes, 1).unflatten(1, (x.shape[1], -1))

    def _stepper(self) -> Callable[[Tensor, Tensor, Tensor, Tensor], list[Tensor]]:
        """A function that gives the states at the nodes of one step; it has the weights transposed once for all.

        It takes the state [B, d] just after the step before, what the observation adds to the gates of the jump
        [B, 3 d], and the length of a sub-step [B, 1] and half of it.
        """
        layers = [layer for layer in self.flow if isinstance(layer, nn.Linear)]
        *inner, last = [(layer.bias, layer.weight.t().contiguous()) for layer in layers]
        recurrent = self.jump.bias_hh, self.jump.weight_hh.t().contiguous()

        def affine(z: Tensor, layer: tuple[Tensor, Tensor]) -> Tensor:
            return torch.addmm(layer[0], z, layer[1])

        def flow(z: Tensor) -> Tensor:
            for layer in inner:
                z = affine(z, layer).tanh()
            return affine(z, last)

        def step(z: Tensor, inflow: Tensor, dt: Tensor, half: Tensor) -> list[Tensor]:
            nodes = []
            for _ in range(self.unfolds):
                nodes.append(torch.addcmul(z, half, flow(z)))
                z = torch.addcmul(z, dt, flow(nodes[-1]))
            return [*nodes, _gru(inflow, affine(z, recurrent), z)]

        return step

    def _log_widths(self, steps: Steps, last: Tensor) -> Tensor:
        """Bias of the scores: [B, 1, 1, R (S + 1)], or [B, 1, T, R (S + 1)] if causal.

        A causal integral ends at step `last` [B, T], and a question before all steps, whose -1 there would leave
        nothing to integrate, is answered from the first: what it gets is discarded.
        """
        elapsed = steps.elapsed(0.0)
        observed = torch.full_like(elapsed, self.point_mass)
        allowed = steps.allowed_keys()
        if allowed is not None:
            observed = observed * allowed[:, 0, 0, :, None]
        width = torch.cat([(elapsed / self.unfolds).expand(-1, -1, self.unfolds), observed], -1)
        log_width = width.log().flatten(1)[:, None, None]  # -inf where there is no width: no weight
        if not self.causal:
            return log_width
        step = torch.arange(elapsed.shape[1], device=elapsed.device).repeat_interleave(self.unfolds + 1)
        later = step > last.clamp(min=0).unsqueeze(-1)  # [B, T, R (S + 1)]
        return log_width.masked_fill(later.unsqueeze(1), -torch.inf)


def _gru(inputs: Tensor, recurrent: Tensor, z: Tensor) -> Tensor:
    """`nn.GRUCell` after its two products, [B, 3 d] each."""
    d = z.shape[-1]
    reset, keep = (inputs[:, : 2 * d] + recurrent[:, : 2 * d]).sigmoid().chunk(2, 1)
    new = torch.addcmul(inputs[:, 2 * d :], reset, recurrent[:, 2 * d :]).tanh()
    return torch.lerp(new, z, keep)
