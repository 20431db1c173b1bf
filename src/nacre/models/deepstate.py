"""DeepState (Rangapuram et al., 2018): an LSTM that sets the parameters of a Kalman filter."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nacre._util.checks import whole
from nacre.io import saveable
from nacre.models._base import Steps
from nacre.models._kalman import Filtered, kalman_filter, transition
from nacre.models._recurrent import RecurrentModel, State, stack
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Whole

# Bounds of standard deviations. Observations are learned: only a minimum of noise keeps their likelihood finite.
_NOISE = (0.01, 1.0)
_DRIVE = (1e-6, 1.0)
_PRIOR = (1e-6, 1.0)
_SLOWEST_RATE = 1e-6


@register(
    ModelInfo(
        "deepstate",
        kind="CT-RNN",
        in_paper=True,
        paper="Rangapuram et al., 2018",
        summary="a Kalman filter whose parameters an LSTM sets at each step",
        uses_time=True,
        causal=True,
        cost="T (d² + N²)",
        checked="textbook filter, joint Gaussian",
    ),
    space={
        "hidden": Whole(16, 80, log=True),
        "layers": Whole(1, 3),
        "channels": Whole(2, 8),
        "latent": Whole(2, 8),
    },
)
@saveable("DeepState")
class DeepState(RecurrentModel):
    """Filtered states of linear-Gaussian models whose parameters an LSTM sets at each step.

    Published, to forecast observed z from covariates x: an LSTM of x gives F_t, g_t, a_t, b_t and sigma_t of

        z_t = a_t' l_{t-1} + b_t + sigma_t nu_t,    l_t = F_t l_{t-1} + g_t eps_t,    nu, eps ~ N(0, 1),

    and is trained by the likelihood of z, which a Kalman filter computes for each series on its own.

    This layer is a reconstruction, because a layer has no series z to explain. It makes some, z = W x, filters
    each of these channels, and returns a linear map of the LSTM's outputs and the means of the filtered states.

    Elapsed time acts between steps; the LSTM does not see it. States follow dl = -rate l dt + g dw with
    rate = softplus(rho), so that over the time e from step i - 1 to step i, with rate and g of step i - 1 (in the
    order of the paper: observe, then move),

        F = diag(exp(-rate e)),    Q_jk = g_j g_k (1 - exp(-(rate_j + rate_k) e)) / (rate_j + rate_k),

    which for short e is the published g g' for each unit of time. The first step sees a learned prior. Standard
    deviations are bounded as in GluonTS, but with a larger minimum of noise (0.01) and larger innovations (up to
    1).

    In training `aux_loss` is the negative log likelihood of z, the mean over valid steps and channels, to be added
    to a loss with a weight: as the layer makes both z_t and b_t from x_t, it can always lower this by making z
    easy to predict. It cannot fall below log(0.01) + log(2 pi) / 2, about -3.69.

    Args:
        hidden: Width of the LSTM.
        layers: Layers of the LSTM.
        channels: Number of series, each with a filter of its own.
        latent: States of each filter.

    Example:
        >>> model = DeepState(7, 64)
        >>> y = model(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1))
        >>> y.shape, model.aux_loss.shape
        (torch.Size([2, 10, 64]), torch.Size([]))
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        hidden: int = 40,
        layers: int = 2,
        channels: int = 4,
        latent: int = 4,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.hidden = whole("hidden", hidden, 1)
        self.layers = whole("layers", layers, 1)
        self.channels = whole("channels", channels, 1)
        self.latent = whole("latent", latent, 1)
        self.lstm = nn.LSTM(d_input, hidden, layers, batch_first=True)
        self.observe = nn.Linear(d_input, channels, bias=False)  # b_t is its bias
        self.emit = nn.Linear(hidden, channels * (3 * latent + 2))
        self.prior_mean = nn.Parameter(torch.zeros(channels, latent))
        self.prior_std = nn.Parameter(torch.zeros(channels, latent))  # before it is bounded
        self.out_proj = nn.Linear(channels * latent + hidden, d_model)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`: h and c of the LSTM, [m | S] of the filters, and rate and g of the step before."""
        rows, sizes = like.shape[0], (self.channels, self.latent)
        memory = like.new_zeros(rows, self.layers, self.hidden)
        spread = torch.diag_embed(_bounded(self.prior_std.double(), *_PRIOR).square())
        prior = torch.cat([self.prior_mean.double().unsqueeze(-1), spread], -1)
        any_rate = prior.new_ones(rows, *sizes)  # no time passes before the first step
        return memory, memory, prior.expand(rows, -1, -1, -1), any_rate, torch.zeros_like(any_rate)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        h, c, *known = state or self.start(steps.x)
        outputs, states = [], []
        for x in steps.x.unbind(1):  # one call for all steps would give only the last c
            memory = h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous()
            output, memory = self.lstm(x.unsqueeze(1), memory)
            h, c = (tensor.transpose(0, 1) for tensor in memory)
            outputs.append(output)
            states.append((h, c))
        h = torch.cat(outputs, 1)
        filtered, after = self.filter(steps, h, tuple(known))
        if state is None:
            self._learn(steps, filtered)
        return self._read(filtered, h), (*stack(states), *after)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        h, _ = self.lstm(steps.x)  # [B, T, hidden]
        filtered, _ = self.filter(steps, h, self.start(steps.x)[2:])
        self._learn(steps, filtered)
        return self._read(filtered, h)

    def filter(self, steps: Steps, h: Tensor, before: State) -> tuple[Filtered, State]:
        """Make the series, and filter them in float64 as the LSTM's outputs h [B, T, hidden] say.

        From [m | S], rate and g before the first step; with the same after every step.
        """
        known, rate_before, drive_before = before
        emitted = self.emit(h).double().unflatten(-1, (self.channels, -1))
        sizes = [self.latent, self.latent, self.latent, 1, 1]
        loading, rho, drive, offset, noise = emitted.split(sizes, -1)  # [B, T, c, l] and [B, T, c, 1]
        rate, drive = softplus(rho) + _SLOWEST_RATE, _bounded(drive, *_DRIVE)
        factor, innovation = transition(
            _step_before(rate, rate_before),
            _step_before(drive, drive_before),
            steps.elapsed(0.0).double().unsqueeze(-1),
        )
        observed = self.observe(steps.x).double() - offset.squeeze(-1)
        noise = _bounded(noise.squeeze(-1), *_NOISE).square()
        filtered = kalman_filter(observed, loading, noise, factor, innovation, known)
        return filtered, (filtered.known, rate, drive)

    def _learn(self, steps: Steps, filtered: Filtered) -> None:
        if self.training:
            nll = -filtered.log_density().to(steps.x.dtype)
            valid = steps.valid().unsqueeze(-1)
            self.aux_loss = torch.where(valid, nll, 0).sum() / (valid.sum().clamp(min=1) * self.channels)

    def _read(self, filtered: Filtered, h: Tensor) -> Tensor:
        return self.out_proj(torch.cat([filtered.mean.flatten(2).to(h.dtype), h], -1))


def _bounded(x: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * x.sigmoid()


def _step_before(x: Tensor, first: Tensor) -> Tensor:
    """Shift [B, T, ...] by one step, with `first` [B, ...] as the first."""
    return torch.cat([first.unsqueeze(1), x[:, :-1]], 1)
