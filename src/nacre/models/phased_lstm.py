"""PhasedLSTM (Neil et al., 2016): an LSTM whose units open and close periodically."""

import math

import torch
from torch import Tensor, nn

from nacre._util.checks import real
from nacre.io import saveable
from nacre.models._base import Steps, unbind_time
from nacre.models._lstm import LSTMModel
from nacre.models._recurrent import State, stack
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real

_OPEN_RATIO = 0.05  # r_on at the start, as in the paper


@register(
    ModelInfo(
        "phased-lstm",
        kind="CT-RNN",
        in_paper=True,
        paper="Neil et al., 2016",
        summary="LSTM whose units open and close periodically",
        uses_time=True,
        causal=True,
        cost="T d²",
        checked="torch.nn.LSTM, scalar formula",
    ),
    space={"leak": Real(1e-4, 1e-2, log=True), "max_period": Real(2.0, 100.0, log=True)},
)
@saveable("PhasedLSTM")
class PhasedLSTM(LSTMModel):
    """LSTM with a time gate on every unit.

        phase     p = ((t - s) mod tau) / tau
        openness  k = 2 p / r_on       if p < r_on / 2
                      2 - 2 p / r_on   if r_on / 2 <= p < r_on
                      leak * p         otherwise
        h', c' = LSTM step from x and the last h, c
        c = k * c' + (1 - k) * last c
        h = k * h' + (1 - k) * last h

    Period tau, shift s and open share r_on belong to each unit and learn. Time t is the stamp itself, not the time
    since the last step. States start at 0; output i is h after input i.

    As published, the leak only lets gradients through closed gates in training: in evaluation it is 0, and closed
    units do not change at all. Outputs in training and in evaluation therefore differ a little, as with dropout.

    Ours: tau is stored as its logarithm and r_on as its logit, so that training keeps tau > 0 and 0 < r_on < 1;
    there are no peephole weights, so that wide-open gates make this `torch.nn.LSTM`. tau starts log-uniform in
    [1, max_period], s uniform in [0, tau], r_on at 0.05. The gradient of tau grows with t: to train it, count
    stamps from an origin near the data, not from 1970.

    Args:
        leak: Slope of the openness of closed gates in training.
        max_period: Longest initial period, in units of `time_scale`; 20 is about e³, the end of a range of the
            paper. Keep it below the span of the sequences: a gate that no step finds open cannot learn its r_on.

    Example:
        >>> PhasedLSTM(7, 64)(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self, d_input: int, d_model: int, *, leak: float = 1e-3, max_period: float = 20.0, time_scale: float = 1.0
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.leak = real("leak", leak, 0.0, 1.0)
        self.max_period = real("max_period", max_period, 1.0, 1e12)
        log_period = torch.rand(d_model) * math.log(self.max_period)
        self.log_period = nn.Parameter(log_period)
        self.shift = nn.Parameter(torch.rand(d_model) * log_period.exp())
        self.open_logit = nn.Parameter(torch.full((d_model,), math.log(_OPEN_RATIO / (1 - _OPEN_RATIO))))

    def openness(self, time: Tensor) -> Tensor:
        """How open each unit is at stamps [B, T] in units of time_scale: float64 [B, T, d], from 0 to 1.

        In double precision whatever the weights are, for stamps that dwarf a period.
        """
        period = self.log_period.double().exp()
        phase = torch.remainder(time.double().unsqueeze(-1) - self.shift.double(), period) / period
        ramp = 2 * phase / self.open_logit.double().sigmoid()
        closed = (self.leak if self.training else 0.0) * phase
        return torch.where(ramp < 2, torch.minimum(ramp, 2 - ramp), closed)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        (openness,) = unbind_time([self.openness(steps.stamps()).to(steps.x.dtype)])
        h, c = state or self.start(steps.x)  # [B, d]
        states: list[State] = []
        for inputs, k in zip(self.cell.inputs(steps.x), openness, strict=True):
            proposed_h, proposed_c = self.cell(inputs, h, c)
            h, c = torch.lerp(h, proposed_h, k), torch.lerp(c, proposed_c, k)
            states.append((h, c))
        after = stack(states)
        return after[0], after
