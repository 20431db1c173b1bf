"""S4 (Gu et al., 2021) in its diagonal form S4D-LegS (Gu et al., 2022)."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, glu

from nacre._util.budget import afford
from nacre._util.checks import whole
from nacre._util.tracing import values_are_hidden
from nacre.io import saveable
from nacre.layer.dynamics import LONGEST
from nacre.models._base import Steps
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._s4_kernel import common_interval, convolve, legs_spectrum, recur, weighted_states
from nacre.models._search_space import Whole

_SHORTEST_STEP, _LONGEST_STEP = 0.001, 0.1


@register(
    ModelInfo(
        "s4",
        kind="CT-RNN",
        in_paper=True,
        paper="Gu et al., 2021",
        summary="diagonal state-space model (S4D-LegS), exact for any time steps",
        uses_time=True,
        causal=True,
        cost="T d (d + N)",
        checked="dense matrix exponentials",
    ),
    space={"d_state": Whole(8, 64, step=2)},
)
@saveable("S4")
class S4(RecurrentModel):
    """A linear state-space model for each channel, and the block around it.

    Each of the d_model channels of u = W x has N = d_state states in N/2 conjugate pairs,

        dx/dt = Lambda Delta x + Delta u,    y = 2 Re(C x) + D u,

    with a learned step Delta and Re Lambda < 0. The input u_i is held over the time e_i since the step before (1
    for the first), which is solved exactly:

        x_i = exp(Lambda Delta e_i) x_{i-1} + (exp(Lambda Delta e_i) - 1) / Lambda u_i.

    The output is LayerNorm(u + GLU(V gelu(y))). Where all steps of a batch are equally far apart it is computed by
    an FFT convolution, otherwise step by step, on CPU by a kernel; all are the same function of the same
    parameters.

    S4D-LegS is published for a fixed step, with B and C. Here elapsed time scales the step (as in S5), and C
    stands for the product B C and starts as that would. Lambda starts at the eigenvalues of the normal part of the
    HiPPO-LegS matrix, Delta log-uniform in 0.001 to 0.1. There is no dropout, unlike in the published block. Its
    authors train Lambda, Delta and C with a small learning rate (0.001) and without weight decay.

    Args:
        d_state: States of each channel, even.
        time_scale: What time stamps are divided by. One unit of the result is one step of the published model.

    Example:
        >>> model = S4(7, 64)
        >>> model(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(self, d_input: int, d_model: int, *, d_state: int = 64, time_scale: float = 1.0) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.d_state = whole("d_state", d_state, 2)
        if d_state % 2:
            raise ValueError(f"d_state must be even, for states come in conjugate pairs, got {d_state}")
        afford("the HiPPO matrix", d_state**2 // 16)
        frequency, gain = legs_spectrum(d_state)
        dtype = torch.get_default_dtype()
        shape = (d_model, d_state // 2)
        self.in_proj = nn.Linear(d_input, d_model)
        self.log_decay = nn.Parameter(torch.full(shape, math.log(0.5)))  # Re Lambda = -exp(log_decay)
        self.frequency = nn.Parameter(frequency.to(dtype).repeat(d_model, 1))  # Im Lambda
        low, high = math.log(_SHORTEST_STEP), math.log(_LONGEST_STEP)
        self.log_step = nn.Parameter(torch.empty(d_model).uniform_(low, high))
        # Re C, Im C, together of variance gain²: B C with the published B, and C of variance 1.
        self.readout = nn.Parameter(torch.randn(*shape, 2) * (gain / math.sqrt(2)).to(dtype).unsqueeze(-1))
        self.skip = nn.Parameter(torch.randn(d_model))
        self.out_proj = nn.Linear(d_model, 2 * d_model)
        self.norm = nn.LayerNorm(d_model)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`: the products C x of weights and states, real and imaginary parts."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return (like.new_zeros(like.shape[0], self.d_model, self.d_state // 2, 2, dtype=dtype),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        u = self.in_proj(steps.x)
        wide, rates, weights = self._system(u)
        (before,) = state or self.start(steps.x)
        elapsed = steps.elapsed(1.0).to(wide.dtype)
        states = weighted_states(wide, rates, weights, elapsed, before)
        return self._block(u, 2 * states.sum(-1).real), (torch.view_as_real(states),)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        u = self.in_proj(steps.x)
        wide, rates, weights = self._system(u)
        interval = _interval(steps)
        if interval is None:
            return self._block(u, recur(wide, rates, weights, steps.elapsed(1.0).to(wide.dtype)))
        return self._block(u, convolve(wide, rates, weights, interval))

    def ask(self, steps: Steps) -> Tensor:
        """See `RecurrentModel`: the same without storing the states of every step."""
        hidden = steps.hidden()
        assert hidden is not None
        u = self.in_proj(steps.x)
        wide, rates, weights = self._system(u)
        return self._block(u, recur(wide, rates, weights, _since_known(steps, hidden).to(wide.dtype), hidden))

    def _system(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs u, rates and weights, in single precision at least: complex numbers are no shorter."""
        u = u.to(torch.promote_types(u.dtype, torch.float32))
        decay, frequency, step, readout = (
            parameter.to(u.dtype) for parameter in (self.log_decay, self.frequency, self.log_step, self.readout)
        )
        eigenvalues = torch.complex(-decay.exp(), frequency)  # [d, N/2]
        return u, eigenvalues * step.exp().unsqueeze(-1), torch.view_as_complex(readout) / eigenvalues

    def _block(self, u: Tensor, y: Tensor) -> Tensor:
        """The output, from inputs u and 2 Re(C x), both [B, T, d]."""
        y = y.to(u.dtype) + self.skip * u
        return self.norm(u + glu(self.out_proj(gelu(y)), -1))


def _interval(steps: Steps) -> float | None:
    """The interval between steps where it is the same everywhere, and may be made a constant."""
    if values_are_hidden() or steps.time.requires_grad:
        return None
    interval = common_interval(steps.time, steps.valid(), steps.x.dtype)
    return None if interval is None else min(interval, LONGEST)


def _since_known(steps: Steps, hidden: Tensor) -> Tensor:
    """Time since the last step before that is not hidden [B, T, 1], and 1 where there is none."""
    latest = steps.time.masked_fill(hidden, -torch.inf).cummax(1).values
    before = torch.cat([torch.full_like(latest[:, :1], -torch.inf), latest[:, :-1]], 1)
    none = before.isinf()
    passed = (steps.time - before.masked_fill(none, 0)).clamp(0, LONGEST)
    return torch.where(none, 1.0, passed).unsqueeze(-1)
